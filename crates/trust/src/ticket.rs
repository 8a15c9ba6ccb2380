//! Tickets: one line that a receiver prints and a sender pastes.
//!
//! The text is `rdt1`, then base32 of these bytes, integers little-endian:
//!
//! | bytes | field |
//! |---|---|
//! | 1 | version, 1 |
//! | 1 | flags: bit 0 for a single use, the others zero |
//! | 1 to 33 | length of the service, service |
//! | 1 | number of addresses, 1 to 8 |
//! | 7 or 19 each | 4 or 6; IPv4 or IPv6 address; port |
//! | 32 | public key of the receiver |
//! | 16 | secret |
//! | 4 | expiry, minutes since 1970 |
//! | 4 | CRC-32 of all before, against typing errors |

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use rdt_crypto::base32::{self, Base32Error};
use rdt_crypto::{Entropy, KeyError, PublicKey, SharedSecret};
use rdt_transport::Service;
use zeroize::Zeroizing;

use crate::TrustError;
use crate::services::Speaker;

/// First characters of the text.
const PREFIX: &str = "rdt1";
/// Bytes of the secret.
const SECRET_BYTES: usize = 16;
/// Flag: the receiver takes the secret once.
const SINGLE_USE: u8 = 1;
/// Longest text, characters: eight IPv6 addresses and the longest service.
const MAX_TEXT: usize =
    PREFIX.len() + (4 + Service::MAX_LEN + Ticket::MAX_ADDRESSES * 19 + 32 + SECRET_BYTES + 8) * 8 / 5 + 1;

/// Error of the text of a ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TicketError {
    /// The text begins with something else.
    #[error("no ticket: it does not begin with {PREFIX}")]
    Prefix,
    /// The text is not base32.
    #[error("the ticket is damaged: behind {PREFIX}, {0}")]
    Base32(#[from] Base32Error),
    /// The check at the end does not fit, or the text is too short or too long.
    #[error("the ticket is damaged: one letter is wrong, or it was not copied whole")]
    Damaged,
    /// The ticket is undamaged, and of a later version.
    #[error("the ticket has version {0}, and this program reads v1: update it")]
    Version(u8),
    /// The contents contradict the format, though the check fits.
    #[error("the ticket is wrong: {0}")]
    Contents(&'static str),
    /// The public key is none.
    #[error("the ticket is wrong: {0}")]
    Key(#[from] KeyError),
}

/// All that a sender needs to reach a receiver: addresses, public key, secret.
///
/// The text of a ticket is a secret: who reads it may use it.
#[derive(Clone, PartialEq, Eq)]
pub struct Ticket {
    service: Service,
    addresses: Vec<SocketAddr>,
    key: PublicKey,
    secret: Zeroizing<[u8; SECRET_BYTES]>,
    single_use: bool,
    expires_min: u32,
}

impl Ticket {
    /// Largest number of addresses.
    pub const MAX_ADDRESSES: usize = 8;

    /// Makes a ticket for a receiver that speaks `service`, with a fresh secret. `expires_s` is in
    /// seconds since 1970, rounded down to minutes. Zones of IPv6 addresses are left out: they mean
    /// nothing on another host.
    ///
    /// # Errors
    /// [`TicketError::Contents`] if there is no address, or more than 8, or a port is 0.
    pub fn new(
        service: Service,
        addresses: &[SocketAddr],
        key: PublicKey,
        single_use: bool,
        expires_s: u64,
        entropy: &mut Entropy,
    ) -> Result<Self, TicketError> {
        let addresses: Vec<_> = addresses.iter().map(|a| SocketAddr::new(a.ip(), a.port())).collect();
        check_addresses(&addresses)?;
        let expires_min = u32::try_from(expires_s / 60).unwrap_or(u32::MAX);
        Ok(Self { service, addresses, key, secret: Zeroizing::new(entropy.array()), single_use, expires_min })
    }

    /// Returns what the receiver speaks.
    pub fn service(&self) -> Service {
        self.service
    }

    /// Fails if the ticket is for another service.
    pub(crate) fn check_service(&self, service: Service) -> Result<(), TrustError> {
        if self.service == service { Ok(()) } else { Err(TrustError::OtherTicket(Speaker(self.service))) }
    }

    /// Returns the addresses of the receiver, in the order in which to try them.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Returns the public key that the receiver must prove.
    pub fn key(&self) -> PublicKey {
        self.key
    }

    /// Returns the secret that both sides mix into the handshake.
    pub fn secret(&self) -> SharedSecret {
        SharedSecret::from_array(&self.secret)
    }

    /// Returns whether the receiver takes the secret once only.
    pub fn single_use(&self) -> bool {
        self.single_use
    }

    /// Returns whether the ticket has expired at this time, seconds since 1970.
    pub fn expired(&self, now_s: u64) -> bool {
        now_s / 60 >= u64::from(self.expires_min)
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, TicketError> {
        let (contents, check) = bytes.split_last_chunk::<4>().ok_or(TicketError::Damaged)?;
        if rdt_crypto::crc32(contents) != u32::from_le_bytes(*check) {
            return Err(TicketError::Damaged);
        }
        let mut rest = contents;
        match take(&mut rest)? {
            [1] => {}
            [version] => return Err(TicketError::Version(version)),
        }
        let [flags] = take(&mut rest)?;
        if flags & !SINGLE_USE != 0 {
            return Err(TicketError::Contents("it has flags of a later version"));
        }
        let service = take_service(&mut rest)?;
        let [count] = take(&mut rest)?;
        let addresses = (0..count).map(|_| take_address(&mut rest)).collect::<Result<Vec<_>, _>>()?;
        check_addresses(&addresses)?;
        let key = PublicKey::from_bytes(take(&mut rest)?)?;
        let secret = Zeroizing::new(take(&mut rest)?);
        let expires_min = u32::from_le_bytes(take(&mut rest)?);
        if !rest.is_empty() {
            return Err(TicketError::Contents("it is too long"));
        }
        Ok(Self { service, addresses, key, secret, single_use: flags & SINGLE_USE != 0, expires_min })
    }
}

fn check_addresses(addresses: &[SocketAddr]) -> Result<(), TicketError> {
    if addresses.is_empty() {
        return Err(TicketError::Contents("it has no address"));
    }
    if addresses.len() > Ticket::MAX_ADDRESSES {
        return Err(TicketError::Contents("it has more than 8 addresses"));
    }
    if addresses.iter().any(|address| address.port() == 0) {
        return Err(TicketError::Contents("it has port 0"));
    }
    Ok(())
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], TicketError> {
    let (bytes, after) = rest.split_first_chunk().ok_or(TicketError::Contents("it is too short"))?;
    *rest = after;
    Ok(*bytes)
}

fn take_service(rest: &mut &[u8]) -> Result<Service, TicketError> {
    let [length] = take(rest)?;
    let (name, after) =
        rest.split_at_checked(length.into()).ok_or(TicketError::Contents("it is too short"))?;
    *rest = after;
    let service = std::str::from_utf8(name).ok().and_then(Service::new);
    match service {
        None if length > 0 => Err(TicketError::Contents("it has a service without a name")),
        service => Ok(service.unwrap_or_default()),
    }
}

fn take_address(rest: &mut &[u8]) -> Result<SocketAddr, TicketError> {
    let ip = match take(rest)? {
        [4] => IpAddr::V4(Ipv4Addr::from(take::<4>(rest)?)),
        [6] => IpAddr::V6(Ipv6Addr::from(take::<16>(rest)?)),
        _ => return Err(TicketError::Contents("it has an address that is neither IPv4 nor IPv6")),
    };
    Ok(SocketAddr::new(ip, u16::from_le_bytes(take(rest)?)))
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = u8::try_from(self.addresses.len()).map_err(|_| fmt::Error)?;
        let service = self.service.name();
        let length = u8::try_from(service.len()).map_err(|_| fmt::Error)?;
        let mut bytes = Zeroizing::new(vec![1, if self.single_use { SINGLE_USE } else { 0 }, length]);
        bytes.extend(service.bytes().chain([count]));
        for address in &self.addresses {
            match address.ip() {
                IpAddr::V4(ip) => {
                    bytes.push(4);
                    bytes.extend(ip.octets());
                }
                IpAddr::V6(ip) => {
                    bytes.push(6);
                    bytes.extend(ip.octets());
                }
            }
            bytes.extend(address.port().to_le_bytes());
        }
        bytes.extend(self.key.as_bytes());
        bytes.extend(&*self.secret);
        bytes.extend(self.expires_min.to_le_bytes());
        let check = rdt_crypto::crc32(&bytes);
        bytes.extend(check.to_le_bytes());
        let text = Zeroizing::new(base32::encode(&bytes));
        write!(f, "{PREFIX}{}", *text)
    }
}

impl FromStr for Ticket {
    type Err = TicketError;

    /// Reads a ticket. Blanks around it do not count, nor does the case of its letters.
    fn from_str(text: &str) -> Result<Self, TicketError> {
        let text = text.trim();
        let (prefix, rest) = text.split_at_checked(PREFIX.len()).ok_or(TicketError::Prefix)?;
        if !prefix.eq_ignore_ascii_case(PREFIX) {
            return Err(TicketError::Prefix);
        }
        if text.len() > MAX_TEXT {
            return Err(TicketError::Damaged);
        }
        Self::from_bytes(&Zeroizing::new(base32::decode(rest)?))
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket")
            .field("service", &self.service)
            .field("addresses", &self.addresses)
            .field("key", &self.key)
            .field("single_use", &self.single_use)
            .field("expires_min", &self.expires_min)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use rdt_crypto::StaticKey;
    use rdt_testing::Numbers;

    use super::*;
    use crate::services::FILES;

    fn ticket(addresses: &[&str]) -> Ticket {
        let addresses: Vec<_> = addresses.iter().map(|address| address.parse().unwrap()).collect();
        let key = StaticKey::from_bytes([1; 32]).public();
        let entropy = &mut Entropy::from_seed([1; 32]);
        Ticket::new(FILES, &addresses, key, true, 1_795_417_200, entropy).unwrap()
    }

    /// Returns the text of contents with the right check.
    fn text_of(contents: &[u8]) -> String {
        let check = rdt_crypto::crc32(contents).to_le_bytes();
        format!("rdt1{}", base32::encode(&[contents, &check].concat()))
    }

    /// Returns the contents of a text, without the check.
    fn contents_of(text: &str) -> Vec<u8> {
        let bytes = base32::decode(&text[4..]).unwrap();
        bytes[..bytes.len() - 4].to_vec()
    }

    /// Computed with Python: private key 01 01 ..., secret from the entropy of the seed 01 01 ...
    #[test]
    fn ticket_meets_its_vector() {
        let text = ticket(&["192.0.2.1:5000"]).to_string();
        assert_eq!(
            text,
            "rdt1aeaqq4teoqwwm2lmmuaqjqaaaiayqe5e4cjjfnsryj4ls5zmk2pv7kn3cpmqnndkw2gj36o4fncat6fcbgktuzgqcy6q5tr4d3op4hbuptdcjgoiaepji4vd"
        );
        assert_eq!(text.len(), 124);
    }

    #[test]
    fn text_gives_ticket_back() {
        let eight = ["[2001:db8::1]:65535"; 8];
        for addresses in [&["192.0.2.1:5000"][..], &["192.0.2.1:1", "[::1]:2", "10.0.0.1:3"], &eight] {
            let ticket = ticket(addresses);
            let text = ticket.to_string();
            assert_eq!(text.parse(), Ok(ticket.clone()));
            assert_eq!(format!("  {}\r\n", text.to_uppercase()).parse(), Ok(ticket.clone()));
            assert!(text.len() <= MAX_TEXT);
            assert_eq!(ticket.secret(), text.parse::<Ticket>().unwrap().secret());
            assert!(ticket.single_use());
        }
        let mut longest = ticket(&eight);
        longest.service = Service::new(&"s".repeat(Service::MAX_LEN)).unwrap();
        assert_eq!(longest.to_string().len(), MAX_TEXT);
        assert_eq!(longest.to_string().parse(), Ok(longest));
    }

    #[test]
    fn ticket_expires_at_its_minute() {
        let ticket = ticket(&["192.0.2.1:5000"]);
        assert!(!ticket.expired(0) && !ticket.expired(1_795_417_199));
        assert!(ticket.expired(1_795_417_200) && ticket.expired(u64::MAX));
    }

    #[test]
    fn wrong_addresses_are_refused() {
        let make = |addresses: &[SocketAddr]| {
            let key = StaticKey::from_bytes([1; 32]).public();
            let entropy = &mut Entropy::from_seed([1; 32]);
            Ticket::new(FILES, addresses, key, false, 0, entropy).unwrap_err().to_string()
        };
        let address: SocketAddr = "192.0.2.1:5000".parse().unwrap();
        assert_eq!(make(&[]), "the ticket is wrong: it has no address");
        assert_eq!(make(&[address; 9]), "the ticket is wrong: it has more than 8 addresses");
        assert_eq!(make(&["[::1]:0".parse().unwrap()]), "the ticket is wrong: it has port 0");
    }

    #[test]
    fn every_changed_character_is_found() {
        let text = ticket(&["192.0.2.1:5000", "[2001:db8::1]:5000"]).to_string();
        for (i, found) in text.char_indices() {
            for digit in "abcdefghijklmnopqrstuvwxyz234567018 -".chars().filter(|&digit| digit != found) {
                let changed = format!("{}{digit}{}", &text[..i], &text[i + 1..]);
                let refused = changed.parse::<Ticket>();
                assert!(refused.is_err(), "{changed}");
            }
        }
        for length in 0..text.len() {
            assert!(text[..length].parse::<Ticket>().is_err(), "{length} characters");
        }
    }

    /// Contents with a right check, in which each byte takes other values in turn: what is accepted
    /// is the ticket of exactly this text.
    #[test]
    fn hostile_contents_are_refused_or_exact() {
        let contents = contents_of(&ticket(&["192.0.2.1:5000", "[2001:db8::1]:5000"]).to_string());
        let mut counts = [0; 2];
        for at in 0..contents.len() {
            for value in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0x7f, 0x80, 0xff] {
                let mut changed = contents.clone();
                changed[at] = value;
                counts[usize::from(assert_exact(&text_of(&changed)))] += 1;
            }
        }
        assert!(counts.iter().all(|&count| count > 50), "{counts:?}");
    }

    /// Random contents with a right check, of random lengths, mostly with a right beginning.
    #[test]
    fn random_contents_are_refused_or_exact() {
        let mut numbers = Numbers::new(3);
        let template = contents_of(&ticket(&["192.0.2.1:5000"]).to_string());
        for _ in 0..20_000 {
            let length = usize::try_from(numbers.below(240)).unwrap();
            let kept = usize::try_from(numbers.below(80)).unwrap().min(template.len());
            let mut contents: Vec<u8> =
                (0..length).map(|_| u8::try_from(numbers.below(256)).unwrap()).collect();
            let kept = kept.min(length);
            contents[..kept].copy_from_slice(&template[..kept]);
            assert_exact(&text_of(&contents));
        }
        // Random texts without a right check.
        for _ in 0..5000 {
            let length = numbers.below(60);
            let text: String =
                (0..length).map(|_| char::from(u8::try_from(numbers.below(128)).unwrap())).collect();
            assert!(text.parse::<Ticket>().is_err());
            assert!(format!("rdt1{text}").parse::<Ticket>().is_err());
            assert!(format!("rdé{text}").parse::<Ticket>().is_err());
        }
    }

    /// True if the text is a ticket; then the text of that ticket is the same.
    fn assert_exact(text: &str) -> bool {
        let Ok(ticket) = text.parse::<Ticket>() else { return false };
        assert_eq!(ticket.to_string(), text);
        assert!((1..=Ticket::MAX_ADDRESSES).contains(&ticket.addresses().len()));
        true
    }

    #[test]
    fn errors_say_what_to_do() {
        let error = |text: &str| text.parse::<Ticket>().unwrap_err().to_string();
        assert_eq!(error("host:5000"), "no ticket: it does not begin with rdt1");
        assert_eq!(error("rdt"), "no ticket: it does not begin with rdt1");
        let base32 = "the ticket is damaged: behind rdt1, character 2 is '1'; allowed are a to z and 2 to 7";
        assert_eq!(error("rdt1a1"), base32);
        let damaged = "the ticket is damaged: one letter is wrong, or it was not copied whole";
        assert_eq!(error("rdt1"), damaged);
        assert_eq!(error(&format!("rdt1{}", "a".repeat(400))), damaged);
        let later = "the ticket has version 9, and this program reads v1: update it";
        assert_eq!(error(&text_of(&[9, 0, 0])), later);
        let good = ticket(&["192.0.2.1:5000"]).to_string();
        assert_eq!(error(&good.replacen("rdt1a", "rdt1b", 1)), damaged, "a letter of the version");
        let mut contents = contents_of(&ticket(&["192.0.2.1:5000"]).to_string());
        contents[1] = 3;
        assert_eq!(error(&text_of(&contents)), "the ticket is wrong: it has flags of a later version");
        contents[1] = 0;
        assert!(!text_of(&contents).parse::<Ticket>().unwrap().single_use());
        contents.push(0);
        assert_eq!(error(&text_of(&contents)), "the ticket is wrong: it is too long");
        assert_eq!(error(&text_of(&contents[..60])), "the ticket is wrong: it is too short");
        contents[12] = 5;
        let family = "the ticket is wrong: it has an address that is neither IPv4 nor IPv6";
        assert_eq!(error(&text_of(&contents)), family);
        contents[12] = 4;
        contents[19..51].fill(0);
        assert_eq!(error(&text_of(&contents[..71])), "the ticket is wrong: no public key of X25519");
        contents[3] = b' ';
        assert_eq!(error(&text_of(&contents)), "the ticket is wrong: it has a service without a name");
    }

    #[test]
    fn secret_is_not_printed() {
        let printed = format!("{:?}", ticket(&["192.0.2.1:5000"]));
        let key = StaticKey::from_bytes([1; 32]).public();
        let expected = format!(
            "Ticket {{ service: \"rdt-file\", addresses: [192.0.2.1:5000], key: {key:?}, single_use: true, expires_min: 29923620, .. }}"
        );
        assert_eq!(printed, expected);
    }
}
