//! Trust options of the programs: the keys that the connecting side accepts, and the peers that the
//! listening side admits. The files are those of `rdt-identity`.
//!
//! | noun | file | owns |
//! |---|---|---|
//! | addresses | `addresses.rs` | addresses of this host in a ticket |
//! | options | `options.rs` | command-line options of both sides, their times |
//! | remote | `remote.rs` | the argument TICKET or HOST |
//! | candidates | `candidates.rs` | addresses of a peer: order, time, and which failure counts |
//! | race | `race.rs` | connecting to the first address that answers (feature `tokio`) |
//! | dialer | `dialer.rs` | own key and secret of the connecting side; check of the peer's key |
//! | gate | `gate.rs` | peers that the listening side admits; tickets and their use |
//! | serving | `serving.rs` | tickets, accepting and end of a server (feature `tokio`) |
//! | error | `error.rs` | sentences and exit codes |
//!
//! A gate opens the list of allowed keys at each handshake, and a dialer may add a key to the known
//! hosts, while their endpoint is locked: a key that was removed must not be admitted once more. So
//! the files belong on a local disk.
//!
//! No function reads a clock: the time is an argument, or a function that the caller gives.
#![forbid(unsafe_code)]

mod addresses;
mod candidates;
mod dialer;
mod error;
mod gate;
mod options;
#[cfg(feature = "tokio")]
mod race;
mod remote;
#[cfg(feature = "tokio")]
pub mod serving;

use std::fmt;
use std::sync::Arc;

pub use addresses::reachable;
pub use candidates::{ADDRESS_GIVE_UP, Attempt, AttemptEnd, Candidates, bind_any, bind_towards};
pub use dialer::{ChangedKeyProof, Dialer};
pub use error::{ChangedKey, TrustError};
pub use gate::{Gate, TicketUse};
pub use options::{ConnectOptions, ListenOptions, PathOptions, identity, parse_lifetime, parse_time};
#[cfg(feature = "tokio")]
pub use race::{is_silent, race, resolve};
pub use remote::{Remote, is_ticket};

/// Connection of this crate to the program: remarks for the user, and the time.
#[derive(Clone)]
pub struct Surroundings {
    /// Prints a line for the user, usually to the standard error.
    pub say: Arc<dyn Fn(&str) + Send + Sync>,
    /// Prints a line that the user must see, also if remarks are turned off: which key was trusted
    /// at its first use.
    pub warn: Arc<dyn Fn(&str) + Send + Sync>,
    /// Returns the seconds since 1970.
    pub unix_time_s: Arc<dyn Fn() -> u64 + Send + Sync>,
}

impl fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Surroundings").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering};

    use rdt_crypto::{Entropy, PublicKey, StaticKey};
    use rdt_identity::Ticket;

    use super::*;

    /// Folder of files, remarks so far, and a clock.
    pub(crate) struct World {
        folder: tempfile::TempDir,
        pub(crate) surroundings: Surroundings,
        said: Arc<Mutex<Vec<String>>>,
        warned: Arc<Mutex<Vec<String>>>,
        clock_s: Arc<AtomicU64>,
    }

    impl World {
        /// Begins at 2026-11-23, at a full minute.
        pub(crate) fn new() -> Self {
            let (said, warned) = (Arc::default(), Arc::default());
            let list = |lines: &Arc<Mutex<Vec<String>>>| {
                let lines = Arc::clone(lines);
                Arc::new(move |line: &str| lines.lock().unwrap().push(line.to_owned()))
            };
            let clock_s = Arc::new(AtomicU64::new(1_795_417_200));
            let surroundings = Surroundings {
                say: list(&said),
                warn: list(&warned),
                unix_time_s: Arc::new({
                    let clock_s = Arc::clone(&clock_s);
                    move || clock_s.load(Ordering::Relaxed)
                }),
            };
            Self { folder: tempfile::tempdir().unwrap(), surroundings, said, warned, clock_s }
        }

        pub(crate) fn path(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        pub(crate) fn connect_options(&self) -> ConnectOptions {
            ConnectOptions {
                identity: Some(self.path("identity")),
                known_hosts: Some(self.path("known_hosts")),
                secret_file: None,
            }
        }

        pub(crate) fn listen_options(&self) -> ListenOptions {
            ListenOptions { identity: Some(self.path("identity")), ..ListenOptions::default() }
        }

        pub(crate) fn take_said(&self) -> Vec<String> {
            std::mem::take(&mut self.said.lock().unwrap())
        }

        pub(crate) fn take_warned(&self) -> Vec<String> {
            std::mem::take(&mut self.warned.lock().unwrap())
        }

        pub(crate) fn advance(&self, seconds: u64) {
            self.clock_s.fetch_add(seconds, Ordering::Relaxed);
        }

        /// Returns a ticket of the peer with this key that is good for an hour.
        pub(crate) fn ticket(&self, seed: u8) -> Ticket {
            let expires_s = (self.surroundings.unix_time_s)() + 3600;
            let address = "192.0.2.1:5000".parse().unwrap();
            Ticket::new(&[address], key(seed), false, expires_s, &mut Entropy::from_seed([seed; 32])).unwrap()
        }
    }

    pub(crate) fn key(seed: u8) -> PublicKey {
        StaticKey::from_bytes([seed; 32]).public()
    }
}
