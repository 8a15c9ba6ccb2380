//! The quantities a link is configured with, and how to read them from text.
//!
//! Owns [`Bitrate`] and [`Probability`], which make a wrong unit a type error, and the one set of
//! parsers for command lines and plans. Times are [`std::time::Duration`] and sizes are bytes in a
//! `u64`. It knows nothing of links.

mod bitrate;
mod parse;
mod probability;

pub use bitrate::Bitrate;
pub use parse::{UnitError, parse_bitrate, parse_bytes, parse_duration, parse_probability, parse_queue_size};
pub use probability::Probability;
