//! Everything that the programs print but errors: status lines, logs, summaries and statistics, as
//! text and as JSON.

pub(crate) mod counters;
pub(crate) mod format;
pub(crate) mod log;
pub(crate) mod packet_log;
pub(crate) mod receiver_report;
pub(crate) mod rtt_histogram;
pub(crate) mod sockets;
pub(crate) mod status;
pub(crate) mod summary;
