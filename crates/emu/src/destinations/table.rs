//! Lookup of a packet's path: the longest prefix that has its address wins, then the fewest ports.
//!
//! | packet | path |
//! |---|---|
//! | fragment after the first one | that of its first fragment |
//! | ICMP error | that of the packet that it quotes |
//! | without ports (ICMP echo, for example) | that of a destination without ports |

use std::collections::VecDeque;
use std::net::IpAddr;

use super::selector::{Selector, WITH_PORTS};

/// Datagrams whose further fragments are expected. Hosts send the fragments of a datagram in a row.
const MAX_FRAGMENTED: usize = 64;

const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
/// Bytes of an ICMP error before the packet that it quotes (RFC 792, RFC 4443).
const ICMP_HEADER: usize = 8;

#[derive(Debug, Clone)]
pub(crate) struct Table {
    /// In order of precedence, each with the number of its path.
    selectors: Vec<(Selector, u32)>,
    /// Paths of datagrams of which the first fragment was seen; the latest is the last.
    fragmented: VecDeque<(Datagram, u32)>,
}

/// Address of a packet by which its path is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// For packets from the near end.
    Destination,
    /// For packets from the far end.
    Source,
}

impl By {
    const fn opposite(self) -> Self {
        match self {
            Self::Destination => Self::Source,
            Self::Source => Self::Destination,
        }
    }
}

impl Table {
    /// Creates the table of these destinations; the path of the n-th has the number n, from 1.
    pub(crate) fn new(selectors: impl IntoIterator<Item = Selector>) -> Self {
        let mut selectors: Vec<_> = selectors.into_iter().zip(1..).collect();
        selectors.sort_by_key(|(selector, _)| selector.precedence());
        Self { selectors, fragmented: VecDeque::new() }
    }

    /// Returns the number of the path of an IP packet: 0 if no destination has its address.
    pub(crate) fn path(&mut self, packet: &[u8], by: By) -> u32 {
        let Some(mut headers) = Headers::read(packet) else { return 0 };
        if let Some(quoted) = headers.quoted.and_then(Headers::read) {
            // The quoted packet travelled in the opposite direction.
            return self.find(&quoted, by.opposite());
        }
        let fragment = headers.fragment.take();
        let Some(fragment) = fragment.filter(|_| self.selectors.iter().any(|it| it.0.has_ports())) else {
            return self.find(&headers, by);
        };
        if !fragment.is_first {
            let first = self.fragmented.iter().rfind(|(datagram, _)| *datagram == fragment.datagram);
            return first.map_or_else(|| self.find(&headers, by), |(_, path)| *path);
        }
        let path = self.find(&headers, by);
        if self.fragmented.len() == MAX_FRAGMENTED {
            self.fragmented.pop_front();
        }
        self.fragmented.push_back((fragment.datagram, path));
        path
    }

    fn find(&self, headers: &Headers<'_>, by: By) -> u32 {
        let end = usize::from(by == By::Destination);
        let service = headers.ports.map(|ports| (headers.protocol, ports[end]));
        let address = headers.addresses[end];
        let found = self.selectors.iter().find(|(selector, _)| selector.contains(address, service));
        found.map_or(0, |(_, path)| *path)
    }
}

/// Fields of an IP packet by which its path is chosen. Those of the source come first.
struct Headers<'a> {
    addresses: [IpAddr; 2],
    protocol: u8,
    /// `None` in fragments after the first one, and in protocols without ports.
    ports: Option<[u16; 2]>,
    fragment: Option<Fragment>,
    /// Packet that an ICMP error quotes.
    quoted: Option<&'a [u8]>,
}

struct Fragment {
    datagram: Datagram,
    is_first: bool,
}

/// Identity of a datagram that was fragmented: addresses, protocol and identification.
type Datagram = ([IpAddr; 2], u8, u32);

impl<'a> Headers<'a> {
    /// Reads the headers; `None` if the packet is no IP packet or too short for them.
    fn read(packet: &'a [u8]) -> Option<Self> {
        match packet.first()? >> 4 {
            4 => Self::read_ipv4(packet),
            6 => Self::read_ipv6(packet),
            _ => None,
        }
    }

    fn read_ipv4(packet: &'a [u8]) -> Option<Self> {
        const MORE_FRAGMENTS: u16 = 0x2000;
        const OFFSET: u16 = 0x1fff;
        let header: &[u8; 20] = packet.first_chunk()?;
        let address = |at| IpAddr::from([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let fragment = word(packet, 6)?;
        let (addresses, protocol) = ([address(12), address(16)], header[9]);
        let fragment = (fragment & (MORE_FRAGMENTS | OFFSET) != 0).then_some(Fragment {
            datagram: (addresses, protocol, word(packet, 4)?.into()),
            is_first: fragment & OFFSET == 0,
        });
        let payload = packet.get(usize::from(header[0] & 0xf) * 4..).unwrap_or_default();
        Some(Self::with(addresses, protocol, fragment, payload))
    }

    fn read_ipv6(packet: &'a [u8]) -> Option<Self> {
        const HOP_BY_HOP: u8 = 0;
        const ROUTING: u8 = 43;
        const FRAGMENT: u8 = 44;
        const DESTINATION_OPTIONS: u8 = 60;
        let (header, mut payload) = packet.split_first_chunk::<40>()?;
        let address = |at: usize| header[at..].first_chunk::<16>().map(|octets| IpAddr::from(*octets));
        let addresses = [address(8)?, address(24)?];
        let (mut protocol, mut fragment) = (header[6], None);
        // Extension headers (RFC 8200, section 4). Each takes at least 8 bytes, so this loop ends.
        while let [next, length, ..] = *payload {
            let bytes = match protocol {
                HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS => 8 * (usize::from(length) + 1),
                FRAGMENT => {
                    let (Some(offset), Some(id)) = (word(payload, 2), payload.get(4..8)) else { break };
                    let id = id.iter().fold(0, |id, byte| id << 8 | u32::from(*byte));
                    // The low three bits of the offset are flags.
                    fragment = Some(Fragment { datagram: (addresses, next, id), is_first: offset >> 3 == 0 });
                    8
                }
                _ => break,
            };
            protocol = next;
            payload = payload.get(bytes..).unwrap_or_default();
            if fragment.as_ref().is_some_and(|it| !it.is_first) {
                break;
            }
        }
        Some(Self::with(addresses, protocol, fragment, payload))
    }

    fn with(addresses: [IpAddr; 2], protocol: u8, fragment: Option<Fragment>, payload: &'a [u8]) -> Self {
        let begins = fragment.as_ref().is_none_or(|it| it.is_first);
        let ports = || Some([word(payload, 0)?, word(payload, 2)?]);
        let is_error = match protocol {
            // Destination unreachable, source quench, redirect, time exceeded, parameter problem.
            ICMP => matches!(payload.first(), Some(3 | 4 | 5 | 11 | 12)),
            ICMPV6 => payload.first().is_some_and(|kind| *kind < 128),
            _ => false,
        };
        Self {
            addresses,
            protocol,
            ports: if begins && WITH_PORTS.contains(&protocol) { ports() } else { None },
            fragment,
            quoted: if begins && is_error { payload.get(ICMP_HEADER..) } else { None },
        }
    }
}

/// Reads 16 bits in network byte order.
fn word(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|word| u16::from_be_bytes(*word))
}
