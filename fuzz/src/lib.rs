//! Fuzz targets as plain functions over bytes: libFuzzer calls them in `fuzz_targets/`, a stable compiler in `tests/seeded.rs`.
//!
//! | target | input | checked |
//! |---|---|---|
//! | `decode_classic`, `decode_native` | a datagram, its check made right in half of the cases | no panic; a decoded packet is within the datagram |
//! | `sender_machine` | a configuration and operations: writes, answers, time | no panic, bounded output, every datagram decodes |
//! | `receiver_machine` | operations of several peers: packets, reads, time | the same, and the memory limit |
//! | `scoreboard_ops` | transmissions, ACKs, SACK blocks, losses | each byte is delivered once |
//! | `path_spec` | TOML or flags | no panic; what was read can be written and read again |

pub mod bytes;
pub mod decode_classic;
pub mod decode_native;
pub mod grammar;
pub mod path_spec;
pub mod receiver_machine;
pub mod scoreboard_ops;
pub mod sender_machine;
