//! Receive buffer of one stream, numbered by packets (classic) or by bytes (native).

pub(crate) mod chunks;
mod crc;
mod ordered;
mod packet_log;
pub mod ranges;
pub(crate) mod slots;
