//! Helpers of the tests of programs: their folder and processes, a private sshd, JSON against its
//! schema, Prometheus metrics.
//!
//! Apart from `rdt-testing`, because `serde_json` makes type inference fail in the tests of
//! `rdt-transport`.
#![forbid(unsafe_code)]

pub mod contract;
#[allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a test fails by panicking")]
pub mod home;
#[allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a test fails by panicking")]
pub mod programs;
pub mod scrape;
