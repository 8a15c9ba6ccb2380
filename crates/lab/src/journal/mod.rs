//! Results on disk. A folder has one journal file for each process that wrote to it, to which lines
//! are only appended, and a file of series for each repetition that keeps them. No file has two
//! writers, so several processes and hosts may write to one folder without locks.
//!
//! | noun | file | owns |
//! |---|---|---|
//! | line | `line.rs` | the JSON form of a record, with its CRC |
//! | writer | `writer.rs` | one journal file |
//! | store | `store.rs` | the records of some folders, without duplicates |
//! | series | `series.rs` | the compressed file of the series of a repetition |

mod line;
mod series;
mod store;
mod writer;

pub use line::{LineError, decode, encode};
pub use series::{copy_series, read_columns, read_series, write_series};
pub use store::{Conflict, Store, StoreError, Torn, lines_of_cells};
pub use writer::{Durability, JournalWriter};

/// Name of the folder of journal files within a folder of results.
pub const JOURNAL_FOLDER: &str = "journal";
/// Name of the folder of series within a folder of results.
pub const SERIES_FOLDER: &str = "series";
