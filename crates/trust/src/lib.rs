//! Part of rdt (`rdt::trust` in the package `rdt-net`): which keys a side believes, and which peers
//! it admits.
//!
//! Keys, tickets and lists are in files, as ssh keeps them.
//!
//! | noun | file | owns |
//! |---|---|---|
//! | identity | `identity.rs` | the private key of this side, made at first use |
//! | known hosts | `known_hosts.rs` | public keys of receivers, trusted at first use |
//! | allow list | `allow.rs` | public keys that a receiver admits |
//! | secret file | `secret.rs` | a secret that both sides share |
//! | ticket | `ticket.rs` | one line with all that a sender needs to reach a receiver once |
//! | addresses | `addresses.rs` | addresses of this host in a ticket |
//! | candidates | `candidates.rs` | addresses of a peer: order, time, and which failure counts |
//! | dialer | `dialer.rs` | own key and secret of the connecting side; check of the peer's key |
//! | gate | `gate.rs` | peers that the listening side admits; tickets and their use |
//! | errors | `error.rs`, `file_error.rs` | sentences and exit codes |
//! | options | `options.rs`, `remote.rs` | options of both sides, TICKET or HOST (`options`) |
//! | services | `services.rs` | what the programs speak, and which program speaks to it |
//! | race | `race.rs` | connecting to the first address that answers (feature `tokio`) |
//! | serving | `serving.rs` | tickets, accepting and end of a server (both features) |
//!
//! A gate opens the list of allowed keys at each handshake, and a dialer may add a key to the known
//! hosts, while their endpoint is locked: a key that was removed must not be admitted once more. So
//! the files belong on a local disk.
//!
//! # Rules for files
//!
//! | file | made with | link | owner | group and others |
//! |---|---|---|---|---|
//! | identity, secret | 0600 | refused | this user | no access |
//! | known hosts | 0600 | refused | this user | may read |
//! | allow list | not made | followed | this user or root | may read |
//!
//! A file with a line that cannot be read is refused as a whole, with the number of the line: a
//! skipped line could be the one that matters. Files are at most 1 MiB long. On systems other than
//! Unix neither modes nor owners nor links are checked, and files are not locked.
//!
//! The time, in seconds since 1970, is an argument, or that of the [`Surroundings`].
//!
//! ```
//! use rdt_trust::{Known, KnownHosts, load_or_create_identity, os_entropy};
//!
//! # let temporary = tempfile::tempdir()?;
//! # let folder = temporary.path(); // config_folder()?, in a program
//! # let now_s = 1_795_417_200;
//! let (key, made) = load_or_create_identity(&folder.join("identity"), &mut os_entropy()?)?;
//! println!("own key: {}, {}", key.public(), if made { "made now" } else { "as before" });
//!
//! # let shown = key.public();
//! let hosts = KnownHosts::new(folder.join("known_hosts"));
//! match hosts.check_or_add("host.example", 5000, shown, now_s)? {
//!     Known::Same => {}
//!     Known::New => println!("key of host.example is {} (new)", shown.fingerprint()),
//!     Known::Changed { expected, line } => {
//!         return Err(format!("key changed from {expected:?}, line {line}").into());
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod addresses;
mod allow;
mod candidates;
mod dialer;
mod error;
mod file_error;
mod files;
mod gate;
mod identity;
mod known_hosts;
mod lines;
#[cfg(feature = "options")]
mod options;
#[cfg(feature = "tokio")]
mod race;
#[cfg(feature = "options")]
mod remote;
mod secret;
pub mod services;
#[cfg(all(feature = "options", feature = "tokio"))]
pub mod serving;
mod ticket;

use std::fmt;
use std::sync::Arc;

use rdt_crypto::Entropy;
use rdt_transport::Service;

pub use addresses::reachable;
pub use allow::AllowList;
pub use candidates::{Attempt, Candidates, bind_or_any};
pub use dialer::{ChangedKeyProof, Dialer};
pub use error::{ChangedKey, TrustError};
pub use file_error::{FileError, LineError};
pub use files::{config_folder, is_out_of_descriptors};
pub use gate::{Gate, TicketUse};
pub use identity::{load_identity, load_or_create_identity};
pub use known_hosts::{Known, KnownHosts};
#[cfg(feature = "options")]
pub use options::{ConnectOptions, ListenOptions, PathOptions, identity, parse_lifetime};
#[cfg(feature = "tokio")]
pub use race::{is_silent, race};
pub use rdt_endpoint::{ADDRESS_GIVE_UP, AttemptEnd, bind_towards, os_entropy};
#[cfg(all(feature = "options", feature = "tokio"))]
pub use remote::resolve;
#[cfg(feature = "options")]
pub use remote::{Remote, is_ticket};
pub use secret::{create_secret, load_secret};
pub use ticket::{Ticket, TicketError};

fn entropy() -> Result<Entropy, TrustError> {
    os_entropy().map_err(TrustError::Entropy)
}

/// Connection of this crate to the program: what it speaks, remarks for the user, and the time.
#[derive(Clone)]
pub struct Surroundings {
    /// What the program speaks, and its tickets are for.
    pub service: Service,
    /// Prints a line for the user, usually to the standard error.
    pub say: Arc<dyn Fn(&str) + Send + Sync>,
    /// Prints a line that the user must see, also if remarks are turned off: which key was trusted
    /// at its first use.
    pub warn: Arc<dyn Fn(&str) + Send + Sync>,
    /// Returns the seconds since 1970.
    pub unix_time_s: Arc<dyn Fn() -> u64 + Send + Sync>,
}

impl Default for Surroundings {
    /// Returns the system's clock and no service, and prints nothing.
    fn default() -> Self {
        let unix_time_s = Arc::new(rdt_udp::clock::unix_time_s);
        Self { service: Service::NONE, say: Arc::new(|_| {}), warn: Arc::new(|_| {}), unix_time_s }
    }
}

impl fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Surroundings").finish_non_exhaustive()
    }
}

#[cfg(feature = "options")]
impl Surroundings {
    /// Returns the connection of a program that speaks `service` to its output and the system's
    /// clock.
    pub fn of(service: Service, output: &rdt_program::Output) -> Self {
        let (say, warn) = (output.clone(), output.clone());
        Self {
            service,
            say: Arc::new(move |line| say.remark(line)),
            warn: Arc::new(move |line| warn.warn(line)),
            unix_time_s: Arc::new(rdt_program::unix_time_s),
        }
    }
}

#[cfg(feature = "options")]
#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering};

    use rdt_crypto::{Entropy, PublicKey, StaticKey};

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
                service: services::FILES,
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
            let entropy = &mut Entropy::from_seed([seed; 32]);
            Ticket::new(services::FILES, &[address], key(seed), false, expires_s, entropy).unwrap()
        }
    }

    pub(crate) fn key(seed: u8) -> PublicKey {
        StaticKey::from_bytes([seed; 32]).public()
    }
}
