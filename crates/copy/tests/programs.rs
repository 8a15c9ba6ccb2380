//! `rdt-copy` as users run it: processes, real sockets and files, ssh. Tests that need a program or
//! a permission that is missing print that they are skipped.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "programs/descriptors.rs"]
mod descriptors;
#[path = "programs/emulated.rs"]
#[cfg(target_os = "linux")]
mod emulated;
#[path = "programs/exit_codes.rs"]
mod exit_codes;
#[path = "programs/far_shell.rs"]
mod far_shell;
#[path = "programs/file_systems.rs"]
#[cfg(target_os = "linux")]
mod file_systems;
#[path = "programs/full_disk.rs"]
#[cfg(target_os = "linux")]
mod full_disk;
#[path = "programs/home.rs"]
mod home;
#[path = "programs/killed.rs"]
mod killed;
#[path = "programs/options.rs"]
mod options;
#[path = "programs/serving.rs"]
mod serving;
#[path = "programs/ssh.rs"]
mod ssh;
#[path = "programs/tree.rs"]
mod tree;
