//! Fuzz targets as plain functions over bytes. libFuzzer calls them in `fuzz_targets/`, a stable
//! compiler in `tests/seeded.rs`. None of them may panic.
//!
//! | target | input | checked |
//! |---|---|---|
//! | `capture` | a pcap or pcapng file | figures are finite, shares of limits sum to 1 |
//! | `decode_classic` | a datagram, with and without magic | one encoding for each reply |
//! | `decode_native` | an opened packet, or one in clear | bounds of offsets and SACK blocks |
//! | `open_sealed` | a packet, changed or not, its key and number | only genuine packets open |
//! | `handshake` | handshake packets of an attacker | no connection, no long answer |
//! | `connection_machine` | calls at both ends, bad network, bad peer | streams, nonces, memory |
//! | `sender_machine` | classic: configuration, writes, answers, time | bounded output |
//! | `receiver_machine` | classic: packets of several peers, reads, time | the same; memory |
//! | `scoreboard_ops` | transmissions, ACKs, SACK blocks, losses | each byte is delivered once |
//! | `path_spec` | TOML and flags | what was read can be written and read again |

pub mod capture;
pub mod connection_machine;
pub mod decode_classic;
pub mod decode_native;
pub mod grammar;
pub mod handshake;
pub mod open_sealed;
pub mod path_spec;
pub mod receiver_machine;
pub mod scoreboard_ops;
pub mod sender_machine;
