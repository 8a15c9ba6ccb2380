//! Counts of one direction of a connection, by the rules of tcptrace 6.6.7. Sequence numbers are
//! unwrapped.

use super::packet::Segment;
use super::sequence::{Ack, Sending, Sequence, Unwrapped, number, seconds};

/// Number of latest segments among which copies by the network are looked for.
const REMEMBERED: usize = 8;

/// Counts of what one end of a connection sent.
#[derive(Debug, Clone, Default)]
pub struct Direction {
    /// Packets.
    pub packets: u64,
    /// Bytes of all packets on the wire, with the headers that the link type has.
    pub frame_bytes: u64,
    /// Packets with SYN.
    pub syns: u64,
    /// Packets with FIN.
    pub fins: u64,
    /// Packets with RST.
    pub resets: u64,
    /// Packets with a valid acknowledgement number.
    pub acks: u64,
    /// Of these, packets without data, SYN and FIN.
    pub pure_acks: u64,
    /// Packets with SACK blocks (RFC 2018).
    pub sacks: u64,
    /// Of these, packets whose first block reports duplicate data (RFC 2883).
    pub dsacks: u64,
    /// Largest number of SACK blocks in a packet.
    pub most_sack_blocks: usize,
    /// Bytes of data, each sequence number counted once.
    pub unique_bytes: u64,
    /// Packets with data.
    pub data_packets: u64,
    /// Bytes of data, with retransmissions.
    pub data_bytes: u64,
    /// Packets that retransmit a byte or more.
    pub retransmitted: u64,
    /// Retransmitted bytes.
    pub retransmitted_bytes: u64,
    /// Zero-window probes with data or FIN.
    pub probes: u64,
    /// Bytes of data of these.
    pub probe_bytes: u64,
    /// Zero-window probes without data, which name the byte before the next.
    pub empty_probes: u64,
    /// Keep-alives (RFC 9293, section 3.8.4): the same while the peer's window is open, or a
    /// retransmitted last byte.
    pub keep_alives: u64,
    /// Packets that fill a hole below data that the capture has already.
    pub out_of_order: u64,
    /// Packets of data with the flag PSH.
    pub pushed: u64,
    /// Packets of data with the flag URG.
    pub urgent: u64,
    /// Sum of the urgent pointers, bytes.
    pub urgent_bytes: u64,
    /// Maximum segment size of the SYN.
    pub mss: Option<u16>,
    /// Window scale of the SYN.
    pub scale: Scale,
    /// True if a segment has the timestamps option.
    pub timestamps: bool,
    /// True if the SYN permits selective acknowledgements.
    pub sack_permitted: bool,
    /// Largest segment, bytes of data.
    pub largest: u32,
    /// Smallest segment with data, bytes of data.
    pub smallest: Option<u32>,
    /// Windows that this end advertised.
    pub window: Windows,
    /// Bytes in flight.
    pub flight: Flight,
    /// Bytes of data that were sent before the peer acknowledged any.
    pub initial_bytes: u64,
    /// Packets of these.
    pub initial_packets: u64,
    /// True if the peer acknowledged data.
    pub was_acked: bool,
    /// Bytes of data that were not captured.
    pub truncated_bytes: u64,
    /// Packets of these.
    pub truncated: u64,
    /// Time of the first data since the epoch, nanoseconds.
    pub first_data_ns: Option<u64>,
    /// Time of the last data since the epoch, nanoseconds.
    pub last_data_ns: u64,
    /// Time of the last packet since the epoch, nanoseconds.
    pub last_ns: Option<u64>,
    /// Longest time between two packets, nanoseconds.
    pub idle_ns: u64,
    /// Packets that the network duplicated: equal sequence number and IP identification.
    pub copies: u64,
    /// Sequence numbers and IP identifications of the latest segments.
    recent: [(u32, u16); REMEMBERED],
    next_recent: usize,
    /// Round-trip time of a SYN that was sent once, nanoseconds.
    pub handshake_ns: Option<u64>,
    /// Packets with data, SYN or FIN that the path dropped, by comments of `rdt-emu`.
    pub dropped: u64,
    /// Sequence number of the SYN.
    pub syn: Option<u64>,
    /// Sequence number of the FIN.
    pub fin: Option<u64>,
    /// End of the latest segment.
    pub latest: u64,
    /// End of the highest segment.
    pub highest: Option<u64>,
    /// Latest acknowledgement number, one of the peer's sequence numbers.
    pub last_ack: Option<u64>,
    /// Sequence number of the SYN as on the wire, or the one before the first number that the
    /// capture has.
    pub base: Option<u32>,
    /// Unwraps the sequence numbers of this end.
    pub numbers: Unwrapped,
    /// Bytes that were sent and acknowledged, and their round-trip times.
    pub sequence: Sequence,
}

/// Window scale of a SYN, in bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scale {
    /// The capture lacks the SYN or its option.
    #[default]
    Unknown,
    /// The SYN has no such option.
    Refused,
    /// Scale of a first SYN.
    Asked(u32),
    /// Scale of a SYN that answers one with a scale.
    Answered(u32),
}

impl Scale {
    /// Returns the number of bits, if the SYN has one.
    pub fn bits(self) -> Option<u32> {
        match self {
            Self::Asked(bits) | Self::Answered(bits) => Some(bits),
            Self::Unknown | Self::Refused => None,
        }
    }
}

/// Windows that one end advertised, bytes.
#[derive(Debug, Clone, Default)]
pub struct Windows {
    /// Latest window.
    pub last: u32,
    /// Largest window.
    pub most: u32,
    /// Smallest window above 0.
    pub least: u32,
    /// Number of packets with window 0.
    pub zero: u64,
    sum: u64,
    /// Number of packets with a scaled window.
    scaled: u64,
    is_scaled: bool,
}

impl Windows {
    fn advertise(&mut self, window: u32, scales: bool) {
        self.most = self.most.max(window);
        if window > 0 && scales && !self.is_scaled {
            // Windows of the handshake are not scaled, so the statistics begin after it.
            self.is_scaled = true;
            (self.least, self.most) = (window, window);
            (self.sum, self.scaled) = (0, 1);
        } else if window > 0 && (self.least == 0 || window < self.least) {
            self.least = window;
        }
        self.sum += u64::from(window);
    }

    /// Returns the mean window of the two ends, bytes.
    pub fn means(one: &Self, packets: u64, other: &Self, other_packets: u64) -> [u64; 2] {
        let scaled = one.is_scaled && other.is_scaled;
        [(one, packets), (other, other_packets)].map(|(window, packets)| {
            let count = if scaled { window.scaled } else { packets };
            window.sum.checked_div(count).unwrap_or(0)
        })
    }
}

/// Bytes in flight, sampled at each segment that is not retransmitted. As in tcptrace, a sample has
/// one byte more than was in flight.
#[derive(Debug, Clone, Copy, Default)]
pub struct Flight {
    /// Largest value.
    pub most: u64,
    /// Smallest value above 0.
    pub least: u64,
    /// Sum of all values.
    pub sum: u64,
    /// Number of values.
    pub count: u64,
    /// Integral over time up to the last value, byte seconds.
    byte_seconds: u64,
    /// Time and bytes of the last value.
    last: Option<(u64, u64)>,
}

impl Flight {
    fn add(&mut self, bytes: u64, at_ns: u64) {
        if let Some((since, last)) = self.last {
            // tcptrace rounds each product down, too. `Timeline::outstanding` is exact.
            self.byte_seconds += whole(number(last) * seconds(at_ns.saturating_sub(since)));
        }
        self.last = Some((at_ns, bytes));
        self.most = self.most.max(bytes);
        if bytes > 0 && (self.least == 0 || bytes < self.least) {
            self.least = bytes;
        }
        self.sum = self.sum.saturating_add(bytes);
        self.count += 1;
    }

    /// Returns the mean, bytes.
    pub fn mean(&self) -> u64 {
        self.sum.checked_div(self.count).unwrap_or(0)
    }

    /// Returns the mean over time, bytes, of a connection that lasted `span` seconds. Each interval
    /// is rounded down to whole byte seconds, so short intervals count too little.
    pub fn mean_over(&self, span: f64) -> Option<u64> {
        (span > 0.0).then(|| whole(number(self.byte_seconds) / span))
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bytes, which are positive")]
fn whole(number: f64) -> u64 {
    number as u64
}

/// Kind of a segment, by what was sent before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kind {
    /// New data, SYN or FIN, or none of these.
    #[default]
    New,
    /// At least a byte that was sent before.
    Retransmission,
    /// Data of a hole below data that was sent before.
    OutOfOrder,
    /// A zero-window probe.
    Probe,
    /// A keep-alive.
    KeepAlive,
}

/// A segment with unwrapped numbers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent<'a> {
    pub(super) at_ns: u64,
    pub(super) segment: &'a Segment,
    /// Data `[start, end)`, without SYN and FIN.
    pub(super) start: u64,
    pub(super) end: u64,
    /// Advertised window, scaled, bytes.
    pub(super) window: u32,
    /// True if both ends scale their windows, and this segment is no SYN.
    pub(super) scales: bool,
}

impl Direction {
    /// Returns the number of bits by which windows of this end are scaled. `None` if the capture
    /// lacks the SYN that says it (RFC 7323, section 2.2): both SYN must ask for it, and the second
    /// one asks only if the first did.
    pub(super) fn shift(&self, peer: &Self) -> Option<u32> {
        match (self.scale, peer.scale) {
            (Scale::Refused, _) | (_, Scale::Refused) => Some(0),
            (Scale::Answered(bits), _) | (Scale::Asked(bits), Scale::Asked(_) | Scale::Answered(_)) => {
                Some(bits)
            }
            _ => None,
        }
    }

    /// Returns the window of a segment of this end in bytes, and whether it is scaled.
    pub(super) fn scaled(&self, segment: &Segment, peer: &Self) -> (u32, bool) {
        let shift = self.shift(peer).filter(|_| !segment.header.syn);
        let scales = shift.is_some() && self.scale.bits().is_some() && peer.scale != Scale::Refused;
        let valid = segment.header.ack || segment.header.syn;
        let window = u32::from(segment.header.window_size) << shift.unwrap_or(0);
        (if valid { window } else { 0 }, scales)
    }

    /// Counts a segment apart from its relation to others.
    pub(super) fn count(&mut self, sent: &Sent<'_>) {
        let Sent { at_ns, segment, .. } = *sent;
        if let Some(last) = self.last_ns {
            self.idle_ns = self.idle_ns.max(at_ns.saturating_sub(last));
        }
        self.last_ns = Some(at_ns);
        self.packets += 1;
        if self.window.is_scaled {
            self.window.scaled += 1;
        }
        self.mss = segment.mss.or(self.mss);
        if segment.header.syn {
            self.scale = match segment.scale {
                Some(bits) if segment.header.ack => Scale::Answered(bits),
                Some(bits) => Scale::Asked(bits),
                None if segment.is_cut => self.scale,
                None => Scale::Refused,
            };
        }
        self.timestamps |= segment.timestamp.is_some();
        self.sack_permitted |= segment.sack_permitted;
        if segment.data > 0 {
            self.data(sent);
        }
        self.latest = sent.end;
        if segment.missing > 0 {
            self.truncated += 1;
            self.truncated_bytes += u64::from(segment.missing);
        }
        if let Some(ip_id) = segment.ip_id.filter(|id| *id != 0) {
            let name = (segment.header.sequence_number, ip_id);
            if segment.header.sequence_number != 0 && self.recent.contains(&name) {
                self.copies += 1;
            } else {
                self.recent[self.next_recent] = name;
                self.next_recent = (self.next_recent + 1) % REMEMBERED;
            }
        }
    }

    fn data(&mut self, sent: &Sent<'_>) {
        let segment = sent.segment;
        self.data_packets += 1;
        self.data_bytes += u64::from(segment.data);
        self.pushed += u64::from(segment.header.psh);
        if segment.header.urg {
            self.urgent += 1;
            self.urgent_bytes += u64::from(segment.header.urgent_pointer);
        }
        self.largest = self.largest.max(segment.data);
        self.smallest = Some(self.smallest.map_or(segment.data, |least| least.min(segment.data)));
        self.first_data_ns.get_or_insert(sent.at_ns);
        self.last_data_ns = sent.at_ns;
    }

    /// Counts a segment by its relation to earlier ones.
    pub(super) fn classify(&mut self, sent: &Sent<'_>, peer: &Self) -> Kind {
        let Sent { at_ns, segment, start, end, .. } = *sent;
        let (syn, fin) = (u64::from(segment.header.syn), u64::from(segment.header.fin));
        let highest = self.highest;
        let is_closed = peer.window.last == 0 && peer.packets > 0 && syn == 0;
        self.highest = Some(highest.map_or(end, |it| it.max(end)));
        if end + syn + fin == start {
            let asks = peer.last_ack == Some(start + 1) && !segment.header.rst;
            return match (asks, is_closed) {
                (true, true) => {
                    self.empty_probes += 1;
                    Kind::Probe
                }
                (true, false) => {
                    self.keep_alives += 1;
                    Kind::KeepAlive
                }
                _ => Kind::New,
            };
        }
        if is_closed {
            self.probes += 1;
            self.probe_bytes += u64::from(segment.data);
            return Kind::Probe;
        }
        let Sending { repeated, out_of_order } = self.sequence.sent(start, end + syn + fin, at_ns);
        self.out_of_order += u64::from(out_of_order);
        // A retransmitted SYN or FIN has a sequence number, but is no data.
        let control = syn * u64::from(self.syns > 1) + fin * u64::from(self.fins > 1);
        let repeated_data = repeated.saturating_sub(control);
        self.unique_bytes += u64::from(segment.data).saturating_sub(repeated_data);
        if repeated == 0 {
            return if out_of_order { Kind::OutOfOrder } else { Kind::New };
        }
        self.retransmitted += 1;
        self.retransmitted_bytes += repeated;
        let asks = segment.data <= 1 && syn + fin == 0 && highest == Some(end);
        self.keep_alives += u64::from(asks);
        if asks { Kind::KeepAlive } else { Kind::Retransmission }
    }

    /// Applies an acknowledgement by `peer` to what this end sent.
    pub(super) fn acknowledged(&mut self, ack: u64, sent: &Sent<'_>, peer: &Self) -> Ack {
        let may_be_duplicate = peer.last_ack == Some(ack)
            && sent.segment.data == 0
            && sent.window == peer.window.last
            && self.flight.sum > 0;
        let result = self.sequence.acknowledged(ack, sent.at_ns, may_be_duplicate);
        if let Ack::Sample(rtt_ns) = result
            && self.syn.is_some_and(|syn| syn + 1 == ack)
        {
            self.handshake_ns = Some(rtt_ns);
        }
        result
    }

    /// Counts the window and the SACK blocks of a segment that is no reset.
    pub(super) fn answer(&mut self, sent: &Sent<'_>, ack: u64, sack: &[(u64, u64)]) {
        let flags = &sent.segment.header;
        self.window.last = sent.window;
        if flags.ack || flags.syn {
            self.window.advertise(sent.window, sent.scales);
        }
        if !flags.ack {
            return;
        }
        self.window.zero += u64::from(sent.window == 0);
        self.acks += 1;
        self.pure_acks += u64::from(sent.segment.data == 0 && !flags.syn && !flags.fin);
        if !sack.is_empty() {
            self.sacks += 1;
            self.most_sack_blocks = self.most_sack_blocks.max(sack.len());
            self.dsacks += u64::from(is_duplicate_report(ack, sack));
        }
        self.last_ack = Some(ack);
    }

    /// Samples the bytes in flight, and counts the initial window.
    pub(super) fn outstanding(&mut self, sent: &Sent<'_>, kind: Kind, peer_ack: Option<u64>) {
        if sent.segment.data > 0 && !self.was_acked && kind != Kind::Retransmission {
            self.initial_bytes += u64::from(sent.segment.data);
            self.initial_packets += 1;
        }
        let is_new = !matches!(kind, Kind::Retransmission | Kind::OutOfOrder);
        if !sent.segment.header.syn && is_new {
            let acked = peer_ack.map_or(sent.start, |ack| ack.saturating_sub(1));
            self.flight.add(sent.end.saturating_sub(acked), sent.at_ns);
        }
    }
}

/// True if the first block is below the ACK, or overlaps the second (RFC 2883, section 4).
fn is_duplicate_report(ack: u64, sack: &[(u64, u64)]) -> bool {
    let Some((&(left, right), others)) = sack.split_first() else { return false };
    right <= ack || others.first().is_some_and(|(start, end)| left < *end && right > *start)
}
