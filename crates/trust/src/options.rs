//! Command-line options, with the names that ssh users know.

#![allow(clippy::doc_markdown, reason = "the comments are the text of --help")]

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use rdt_crypto::{SharedSecret, StaticKey};
use rdt_emulator::parse_bitrate;
use rdt_transport::ConnectionConfig;
use rdt_transport::congestion::Algorithm;

use crate::{
    AllowList, Dialer, FileError, Gate, KnownHosts, Remote, Surroundings, TrustError, config_folder, entropy,
    load_or_create_identity, load_secret,
};

const HEADING: &str = "Keys and permissions";
/// Options that limit who is admitted.
pub(crate) const LIMITING_OPTIONS: &str = "--allow FILE, --secret-file FILE or --tickets N";

/// Options of the side that connects.
#[derive(Debug, Clone, Default, Args)]
pub struct ConnectOptions {
    /// Own private key, made at first use [default: identity in ~/.config/rdt]
    #[arg(long, help_heading = HEADING, value_name = "FILE")]
    pub identity: Option<PathBuf>,
    /// Keys of peers, trusted at first use. A changed key is refused: exit code 76 [default:
    /// known_hosts in ~/.config/rdt]
    #[arg(long, help_heading = HEADING, value_name = "FILE")]
    pub known_hosts: Option<PathBuf>,
    /// Secret that both sides have: a line of base32, at least 16 random bytes. Not with a ticket,
    /// which has its own
    #[arg(long, help_heading = HEADING, value_name = "FILE")]
    pub secret_file: Option<PathBuf>,
}

/// Options of the side that listens. A peer is admitted if one of them admits it.
#[derive(Debug, Clone, Default, Args)]
pub struct ListenOptions {
    /// Own private key, made at first use [default: identity in ~/.config/rdt]
    #[arg(long, help_heading = HEADING, value_name = "FILE")]
    pub identity: Option<PathBuf>,
    /// Admit the peers whose public keys are in FILE, one a line (rdt-tunnel key prints it). A
    /// changed file is read at the next connection; open connections stay
    #[arg(long, help_heading = HEADING, value_name = "FILE")]
    pub allow: Option<PathBuf>,
    /// Admit peers that have the secret in FILE: a line of base32, at least 16 random bytes
    #[arg(long, help_heading = HEADING, value_name = "FILE")]
    pub secret_file: Option<PathBuf>,
    /// Admit every peer
    #[arg(long, help_heading = HEADING, conflicts_with_all = ["allow", "secret_file"])]
    pub open: bool,
}

/// Options of the path to a peer.
#[derive(Debug, Clone, Args)]
pub struct PathOptions {
    /// End a connection if no packet of the peer arrived for this long, from 1s; keep-alives hold
    /// idle connections
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = idle_timeout)]
    pub idle_timeout: Duration,
    /// Give up connecting after this long without an answer, from 1s
    #[arg(long, value_name = "TIME", default_value = "20s", value_parser = idle_timeout)]
    pub connect_give_up: Duration,
    /// End connections whose peer answers but takes no byte for this long, from 1s
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = idle_timeout)]
    pub no_progress: Duration,
    /// Congestion control of what this side sends: bbr, cubic or reno
    #[arg(long, value_name = "NAME", default_value = "bbr", value_parser = congestion)]
    pub cc: Algorithm,
    /// Limit on the rate of the data of a copy, or of what this side of a tunnel sends in each
    /// connection, such as 50mbit
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub max_rate: Option<u64>,
}

impl PathOptions {
    /// Returns the parameters of connections.
    pub fn connection(&self) -> ConnectionConfig {
        let mut config = ConnectionConfig { idle_timeout: self.idle_timeout, ..ConnectionConfig::default() };
        config.sender.handshake_give_up = self.connect_give_up;
        config.sender.no_progress = self.no_progress;
        config.sender.congestion = self.cc;
        config.sender.max_rate = self.max_rate;
        config
    }
}

impl ConnectOptions {
    /// Reads the files for connections to a peer.
    ///
    /// # Errors
    /// [`TrustError`]: a file, or a ticket beside a secret file.
    pub fn dialer(&self, remote: &Remote, surroundings: &Surroundings) -> Result<Dialer, TrustError> {
        if let Remote::Ticket(ticket) = remote {
            // Before a key is made for it.
            ticket.check_service(surroundings.service)?;
        }
        let identity = identity(self.identity.as_deref(), surroundings)?;
        match remote {
            Remote::Ticket(_) if self.secret_file.is_some() => {
                let why = "a ticket has a secret of its own: leave out --secret-file";
                Err(TrustError::Remote(why.to_owned()))
            }
            Remote::Ticket(ticket) => Dialer::of_ticket(identity, ticket, surroundings),
            Remote::Host { host, port } => {
                let known = KnownHosts::new(or_default(self.known_hosts.as_deref(), "known_hosts")?);
                let secret = secret(self.secret_file.as_deref())?;
                Ok(Dialer::of_host(identity, secret, known, (host, *port), surroundings))
            }
        }
    }
}

impl ListenOptions {
    /// Reads the files. `has_tickets` is true if the program will issue tickets.
    ///
    /// Without any option an address of the loopback interface admits every peer.
    ///
    /// # Errors
    /// [`TrustError`]: a file, or [`TrustError::Unprotected`].
    pub fn gate(
        &self,
        address: SocketAddr,
        has_tickets: bool,
        surroundings: &Surroundings,
    ) -> Result<Gate, TrustError> {
        let is_limited = has_tickets || self.allow.is_some() || self.secret_file.is_some();
        let is_open = self.open || !is_limited;
        if is_open && !self.open && !address.ip().to_canonical().is_loopback() {
            return Err(TrustError::Unprotected { address, options: LIMITING_OPTIONS });
        }
        self.gate_of(identity(self.identity.as_deref(), surroundings)?, is_open, surroundings)
    }

    /// Reads the allowed keys and the secret of a program that has this key. `is_open` is true if
    /// it admits every peer.
    pub fn gate_of(
        &self,
        identity: Arc<StaticKey>,
        is_open: bool,
        surroundings: &Surroundings,
    ) -> Result<Gate, TrustError> {
        let mut gate = Gate::new(identity).surroundings(surroundings);
        if let Some(path) = &self.allow {
            gate = gate.allow(AllowList::load(path)?);
        }
        if let Some(secret) = secret(self.secret_file.as_deref())? {
            gate = gate.secret(secret);
        }
        Ok(if is_open { gate.open() } else { gate })
    }
}

/// Reads the local key, or makes it. Without a path, the file is that of the user's folder.
pub fn identity(path: Option<&Path>, surroundings: &Surroundings) -> Result<Arc<StaticKey>, TrustError> {
    let path = or_default(path, "identity")?;
    let (key, is_new) = load_or_create_identity(&path, &mut entropy()?)?;
    if is_new {
        (surroundings.say)(&format!("made a new key, {}, in {}", key.public().fingerprint(), path.display()));
    }
    Ok(Arc::new(key))
}

/// Returns the path, or that of a file in the user's folder.
fn or_default(path: Option<&Path>, name: &str) -> Result<PathBuf, FileError> {
    path.map_or_else(|| Ok(config_folder()?.join(name)), |path| Ok(path.to_owned()))
}

/// Parses a controller that adapts to the path.
fn congestion(text: &str) -> Result<Algorithm, String> {
    match text.parse() {
        Ok(Algorithm::Fixed(_)) | Err(_) => Err(format!("'{text}' is none of bbr, cubic and reno")),
        Ok(algorithm) => Ok(algorithm),
    }
}

/// Parses a rate, and returns bytes per second.
fn rate(text: &str) -> Result<u64, String> {
    let bits = parse_bitrate(text).map_err(|error| error.to_string())?.as_bps_f64();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive; saturates")]
    let bytes_per_s = (bits / 8.0) as u64;
    if bytes_per_s < 1000 {
        return Err("the rate must be at least 8kbit (per second)".to_owned());
    }
    Ok(bytes_per_s)
}

fn secret(path: Option<&Path>) -> Result<Option<Arc<SharedSecret>>, TrustError> {
    Ok(path.map(load_secret).transpose()?.map(Arc::new))
}

/// Parses the lifetime of a ticket, from 1 min to a year.
pub fn parse_lifetime(text: &str) -> Result<Duration, String> {
    parse_time(text, Duration::from_secs(60), Duration::from_secs(365 * 24 * 3600))
}

/// Parses a time from 1 s to a day.
fn idle_timeout(text: &str) -> Result<Duration, String> {
    parse_time(text, Duration::from_secs(1), Duration::from_secs(24 * 3600))
}

/// Parses a time of whole seconds, minutes, hours or days within these limits.
fn parse_time(text: &str, min: Duration, max: Duration) -> Result<Duration, String> {
    let whole = |unit: &str, seconds: u64| {
        let number = text.strip_suffix(unit)?.parse::<u64>().ok()?;
        number.checked_mul(seconds).map(Duration::from_secs)
    };
    let time = whole("min", 60)
        .or_else(|| whole("s", 1))
        .or_else(|| whole("h", 3600))
        .or_else(|| whole("d", 24 * 3600))
        .ok_or_else(|| format!("'{text}' is no time: write 30s, 10min, 24h or 7d"))?;
    if (min..=max).contains(&time) {
        Ok(time)
    } else {
        Err(format!("'{text}' is not from {} to {} seconds", min.as_secs(), max.as_secs()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units_and_limits() {
        for (text, seconds) in [("1s", 1), ("10min", 600), ("24h", 86_400), ("1d", 86_400)] {
            assert_eq!(idle_timeout(text), Ok(Duration::from_secs(seconds)));
        }
        for text in ["0s", "2d", "30", "1.5s", "s", "99999999999999999999d", "99999999999999999d"] {
            assert!(idle_timeout(text).is_err(), "{text}");
        }
    }

    #[test]
    fn congestion_control_adapts_to_path() {
        assert_eq!(congestion("cubic"), Ok(Algorithm::Cubic));
        for text in ["fixed:10", "vegas", "", "BBR"] {
            assert!(congestion(text).is_err(), "{text}");
        }
    }

    #[test]
    fn lifetime_is_from_minute_to_year() {
        assert!(parse_lifetime("59s").is_err() && parse_lifetime("366d").is_err());
        assert_eq!(parse_lifetime("24h"), Ok(Duration::from_secs(86_400)));
        assert_eq!(parse_lifetime("1min"), parse_lifetime("60s"));
    }

    #[test]
    fn rates_have_units_and_minimum() {
        assert_eq!(rate("50mbit"), Ok(6_250_000));
        for text in ["50", "1kbit", "0mbit", "fast"] {
            assert!(rate(text).is_err(), "{text}");
        }
        assert!(rate("0").unwrap_err().ends_with("or leave it out"));
    }
}
