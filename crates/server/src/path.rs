//! Emulated paths of peers, as the first SYN of each peer requests them. The decoder of the SYN has
//! validated all values, so the fallbacks for values out of range are never used.

use std::time::{Duration, Instant};

use rdt_emulator::{Bitrate, ClassicLink, Loss, Path, PathConfig, Probability, QueueLimit};
use rdt_transport::LinkProperties;
use rdt_transport::wire::native::LinkRequest;

/// Largest number of addresses of one sender that packets inside its links may have.
const MAX_ADDRESSES: usize = 16;

/// Link that a sender requests.
#[derive(Debug, Clone, Copy)]
pub(crate) enum LinkWanted {
    /// With a queue in packets.
    Classic(LinkProperties),
    /// With a queue in bytes.
    Native(LinkRequest),
}

#[derive(Debug)]
pub(crate) struct PeerPath<P> {
    pub(crate) path: Path,
    /// Sum of the propagation delays of both directions.
    pub(crate) rtt: Duration,
    /// Time of this path in [`Server`](crate::Server)'s `wakeups`. `None` if both links are empty.
    pub(crate) wakeup: Option<Instant>,
    /// Time at which the sender's newest packet entered the forward link.
    pub(crate) last_arrival: Instant,
    /// True while the peer is half-open, so that its links count towards a smaller limit.
    pub(crate) half_open: bool,
    /// Addresses of the packets inside the links, by their tags. Several only while a sender moves.
    addresses: Vec<P>,
    /// Index of the address that a further one replaces, if there are too many.
    replaced: usize,
}

impl<P: Copy + PartialEq> PeerPath<P> {
    /// Creates the path that a SYN requests. `memory_limit` applies to each direction, in bytes.
    pub(crate) fn new(now: Instant, wanted: LinkWanted, memory_limit: u64, seed: u64) -> Self {
        let (rtt, config) = match wanted {
            LinkWanted::Classic(link) => classic_path(&link, memory_limit),
            LinkWanted::Native(link) => native_path(&link, memory_limit),
        };
        let path = Path::new(config, seed);
        Self {
            path,
            rtt,
            wakeup: None,
            last_arrival: now,
            half_open: false,
            addresses: Vec::new(),
            replaced: 0,
        }
    }

    pub(crate) fn tag_of(&mut self, address: P) -> u32 {
        let known = self.addresses.iter().position(|known| *known == address);
        let index = known.unwrap_or_else(|| {
            if self.addresses.len() < MAX_ADDRESSES {
                self.addresses.push(address);
                return self.addresses.len() - 1;
            }
            self.replaced = (self.replaced + 1) % MAX_ADDRESSES;
            self.addresses[self.replaced] = address;
            self.replaced
        });
        u32::try_from(index).unwrap_or_default()
    }

    pub(crate) fn address_of(&self, tag: u32) -> Option<P> {
        self.addresses.get(usize::try_from(tag).ok()?).copied()
    }

    /// Returns the memory of the packets inside both links, bytes.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.path.forward.held_bytes() + self.path.reverse.held_bytes()
    }
}

/// Returns RTT and path of a classic sender. Packets on the wire count towards its queue limit.
pub(crate) fn classic_path(link: &LinkProperties, memory_limit: u64) -> (Duration, PathConfig) {
    let rtt = Duration::try_from_secs_f32(link.rtt_s).unwrap_or_default();
    let config = PathConfig::classic(ClassicLink {
        rtt,
        rate: Bitrate::from_bps_f64(f64::from(link.speed_bps)).unwrap_or(Bitrate::from_bps(1)),
        loss_forward: Probability::new(f64::from(link.loss_forward)).unwrap_or(Probability::ZERO),
        loss_reverse: Probability::new(f64::from(link.loss_reverse)).unwrap_or(Probability::ZERO),
        buffer: link.buffer,
        memory_limit,
    });
    (rtt, config)
}

/// Returns RTT and path of a native sender. Only waiting packets count towards its queue limit.
pub(crate) fn native_path(link: &LinkRequest, memory_limit: u64) -> (Duration, PathConfig) {
    let rtt = Duration::from_micros(u64::from(link.rtt_us));
    let probability = |ppb: u32| Probability::new(f64::from(ppb) / 1e9).unwrap_or(Probability::ZERO);
    let mut config = PathConfig::symmetric(rtt, Bitrate::from_bps(link.rate_bps));
    for (side, loss) in
        [(&mut config.forward, link.loss_forward_ppb), (&mut config.reverse, link.loss_reverse_ppb)]
    {
        side.loss = Loss::Bernoulli(probability(loss));
        side.queue = QueueLimit::bytes(link.queue_bytes);
        side.memory_limit = memory_limit;
    }
    (rtt, config)
}
