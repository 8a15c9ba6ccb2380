//! Argument that names a peer: a ticket, a file with a ticket, or a host.

use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;

use rdt_program::host_port::{self, HostPort};

use crate::{Ticket, TrustError, files};

/// Fewer characters after `rdt1` are a host name: a mistyped ticket must not be looked up.
const MIN_TICKET_CHARACTERS: usize = 20;
/// Longest label of a host name (RFC 1035, section 2.3.4). A ticket with a wrong '.' has a longer
/// one.
const MAX_LABEL_BYTES: usize = 63;
/// Longest text in a file with a ticket, bytes.
const MAX_FILE_BYTES: u64 = 4096;

/// Peer to connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remote {
    /// Ticket that the peer has printed.
    Ticket(Ticket),
    /// Host and port. The name is not resolved yet.
    Host {
        /// Name or address as typed: the known hosts are kept by it.
        host: String,
        /// UDP port.
        port: u16,
    },
}

impl Remote {
    /// Reads an argument: a ticket, `@FILE` with a ticket, or a host with or without a port.
    ///
    /// # Errors
    /// [`TrustError`]: the ticket is damaged, the file cannot be read, or the host is malformed.
    pub fn parse(text: &str, default_port: u16) -> Result<Self, TrustError> {
        if let Some(path) = text.strip_prefix('@') {
            return Ok(Self::Ticket(read_ticket(Path::new(path))?.parse()?));
        }
        if is_ticket(text) || is_no_host(text.split(':').next().unwrap_or_default()) {
            return Ok(Self::Ticket(text.parse()?));
        }
        let HostPort { host, port } = text.parse().map_err(TrustError::Remote)?;
        if host.is_empty() {
            return Err(TrustError::Remote(format!("'{text}' has no name before its port")));
        }
        if port == Some(0) {
            return Err(TrustError::Remote(format!("'{text}' has port 0")));
        }
        Ok(Self::Host { host, port: port.unwrap_or(default_port) })
    }

    /// Returns the addresses to try, in order. Resolving a name may take seconds. Empty if the name
    /// has no address.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        match self {
            Self::Ticket(ticket) => ticket.addresses().to_vec(),
            Self::Host { host, port } => host_port::resolve(host, *port),
        }
    }

    /// Returns the name for messages. That of a ticket is its first address: the text of a ticket
    /// is a secret.
    pub fn name(&self) -> String {
        match self {
            Self::Ticket(ticket) => ticket.addresses().first().map(ToString::to_string).unwrap_or_default(),
            Self::Host { host, port } => host_port::join(host, *port),
        }
    }
}

/// Returns true for a text that is a ticket up to its first colon, whole or damaged. It is a
/// secret: no resolver and no other program may get it as the name of a host.
pub fn is_ticket(text: &str) -> bool {
    let (word, has_colon) = text.split_once(':').map_or((text, false), |(word, _)| (word, true));
    let word = word.trim();
    // One of its first four letters may be the wrong one.
    if has_colon && is_no_host(word) {
        return true;
    }
    let Some((start, rest)) = word.split_at_checked(4) else { return false };
    start.eq_ignore_ascii_case("rdt1")
        && rest.len() >= MIN_TICKET_CHARACTERS
        && (!rest.contains('.') || is_no_host(word))
}

/// True for a word that is too long for a host name.
fn is_no_host(word: &str) -> bool {
    !word.contains('/') && word.split('.').any(|label| label.len() > MAX_LABEL_BYTES)
}

/// Returns the addresses to try, in order. Resolves a name on another thread, and fails if it has
/// no address.
#[cfg(feature = "tokio")]
pub async fn resolve(remote: &Remote) -> Result<Vec<SocketAddr>, rdt_program::Failure> {
    let owned = remote.clone();
    let addresses = tokio::task::spawn_blocking(move || owned.addresses()).await.unwrap_or_default();
    if addresses.is_empty() {
        return Err(rdt_program::Failure::no_such_host(&remote.name()));
    }
    Ok(addresses)
}

fn read_ticket(path: &Path) -> Result<String, TrustError> {
    let failed = |source| TrustError::TicketFile { path: path.to_owned(), source };
    let file = File::open(path).map_err(failed)?;
    files::check_secret(path, &file)?;
    let mut text = String::new();
    file.take(MAX_FILE_BYTES).read_to_string(&mut text).map_err(failed)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use rdt_crypto::{Entropy, StaticKey};

    use super::*;

    fn ticket() -> Ticket {
        let key = StaticKey::from_bytes([1; 32]).public();
        let addresses = ["192.0.2.1:5000".parse().unwrap(), "[2001:db8::1]:5000".parse().unwrap()];
        let entropy = &mut Entropy::from_seed([1; 32]);
        Ticket::new(crate::services::FILES, &addresses, key, true, 1_795_417_200, entropy).unwrap()
    }

    fn host(host: &str, port: u16) -> Remote {
        Remote::Host { host: host.into(), port }
    }

    fn sentence(text: &str) -> String {
        Remote::parse(text, 22346).unwrap_err().to_string()
    }

    #[test]
    fn hosts_and_tickets_are_told_apart() {
        let text = ticket().to_string();
        for text in [text.clone(), format!(" {} ", text.to_uppercase())] {
            assert_eq!(Remote::parse(&text, 1).unwrap(), Remote::Ticket(ticket()));
        }
        for (text, expected) in [
            ("host", host("host", 22346)),
            ("rdt1", host("rdt1", 22346)),
            ("rdt1server", host("rdt1server", 22346)),
            (
                "rdt1-of-the-people-in-the-office.example",
                host("rdt1-of-the-people-in-the-office.example", 22346),
            ),
            ("host:7", host("host", 7)),
            ("[::1]:7", host("::1", 7)),
            ("[fe80::1%eth0]:7", host("fe80::1%eth0", 7)),
            ("fe80::1%eth0", host("fe80::1%eth0", 22346)),
        ] {
            assert_eq!(Remote::parse(text, 22346).unwrap(), expected);
        }
        let damaged = "the ticket is damaged: one letter is wrong, or it was not copied whole";
        assert_eq!(sentence(&text[..60]), damaged);
        for wrong in ["-", ".", ":", "\u{e4}"] {
            assert!(is_ticket(&format!(" {}{wrong}{}:7", &text[..30], &text[31..])), "{wrong}");
        }
        for (first, port) in [("rdtl", ""), ("rd71", ""), ("idt1", ":7")] {
            let text = format!("{first}{}{port}", &text[4..]);
            assert_eq!(sentence(&text), "no ticket: it does not begin with rdt1", "{text}");
            assert_eq!(is_ticket(&text), !port.is_empty());
        }
        assert!(is_ticket(&format!("rdtl{}:photos/", &text[4..])), "no ssh may look it up");
        assert!(!is_ticket(&"x".repeat(70)), "a file's name");
        assert_eq!(sentence(":7"), "':7' has no name before its port");
        assert_eq!(sentence("host:0"), "'host:0' has port 0");
        assert!(sentence("host:x").starts_with("'x' is no port"));
    }

    #[test]
    fn file_with_ticket_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ticket");
        std::fs::write(&path, format!("{}\n", ticket())).unwrap();
        let argument = format!("@{}", path.display());
        #[cfg(unix)]
        {
            files::tests::set_mode(&path, 0o644);
            assert!(sentence(&argument).contains("group or others have access to it (mode 644)"));
        }
        files::tests::set_mode(&path, 0o600);
        assert_eq!(Remote::parse(&argument, 1).unwrap(), Remote::Ticket(ticket()));
        std::fs::remove_file(&path).unwrap();
        assert!(sentence(&argument).starts_with("cannot read the ticket in "));
    }

    #[test]
    fn names_do_not_show_secrets() {
        let names =
            [Remote::Ticket(ticket()), host("host", 7), host("fe80::1%eth0", 7)].map(|remote| remote.name());
        assert_eq!(names, ["192.0.2.1:5000", "host:7", "[fe80::1%eth0]:7"]);
        assert_eq!(Remote::Ticket(ticket()).addresses().len(), 2);
        assert_eq!(host("127.0.0.1", 7).addresses(), ["127.0.0.1:7".parse().unwrap()]);
    }
}
