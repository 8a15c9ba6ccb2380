//! The sender alone, driven by a script: input at given milliseconds, and the expected output.

mod ack_frequency;
mod acks;
mod close;
mod dup_acks;
mod ecn;
mod fed;
mod fin;
mod give_up;
mod handshake;
mod idle;
mod invalid_acks;
mod known_path;
mod native;
mod numbered;
mod params;
mod random;
mod receiver_drops;
mod recovery;
mod room;
mod runs;
mod sealed;
mod stream;
mod timeout;
mod window;

use super::*;
use crate::congestion::Algorithm;
use crate::recovery::Segment;
use crate::wire::classic::{self, REPLY_LEN, decode_from_sender, encode_answer};
use crate::wire::native::Params;
use crate::wire::{Ack, Answer, FromReceiver, FromSender, LinkProperties, Piece};
use crate::{Resend, Trace};
use rdt_testing::ms;

impl Sender {
    /// True if a packet could be sent and only the application's data is missing.
    fn wants_data(&self) -> bool {
        let allowed = self.windows_allow(self.path.mss).is_ok();
        self.state == State::Open && !self.stream.finishing && allowed && self.fresh_len() == 0
    }
}

const LINK: LinkProperties =
    LinkProperties { rtt_s: 0.1, speed_bps: 14e6, loss_forward: 0.0, loss_reverse: 0.0, buffer: 13 };
/// Payload bytes of a full packet in these tests.
const PAYLOAD: usize = 100;

/// A packet that the sender sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    Syn,
    Data(u64),
    Fin(u64),
}

/// A sender, its clock, and the stream as a receiver of every packet would have it.
struct Script {
    sender: Sender,
    epoch: Instant,
    now: Instant,
    batch: TransmitBuf,
    /// Payload of every packet so far; a retransmission must carry the same.
    payloads: Vec<Vec<u8>>,
    written: usize,
}

impl Script {
    /// Creates an opened sender at 0 ms.
    fn new(config: SenderConfig) -> Self {
        let mut script = Self::idle(config);
        script.sender.open().unwrap();
        script
    }

    /// Creates a sender that is not opened.
    fn idle(config: SenderConfig) -> Self {
        Self::of(Sender::new(config).unwrap(), rdt_testing::epoch())
    }

    fn of(sender: Sender, epoch: Instant) -> Self {
        Self { sender, epoch, now: epoch, batch: TransmitBuf::new(64), payloads: Vec::new(), written: 0 }
    }

    /// Creates a connected sender: SYN at 0 ms, SYN-ACK with `window` after `rtt` ms, which is the
    /// time now.
    fn connected(config: SenderConfig, rtt: u64, window: u32) -> Self {
        let mut script = Self::new(config);
        assert_eq!(script.sent(), [Sent::Syn]);
        script.at(rtt).recv(&syn_ack(window));
        assert_eq!(script.events(), [SenderEvent::Connected { rtt: ms(rtt) }]);
        script
    }

    /// Creates a connected sender with RTT 100 ms (so RTO 300 ms), both windows `window`, and
    /// `packets` packets written.
    fn flowing(window: u32, packets: usize) -> Self {
        let mut script = Self::connected(config(window), 100, window);
        script.write(packets * PAYLOAD);
        script
    }

    /// Advances the clock to `time` ms, and fires the timer if it is due then.
    fn at(&mut self, time: u64) -> &mut Self {
        self.at_exactly(ms(time))
    }

    fn at_exactly(&mut self, time: Duration) -> &mut Self {
        assert!(self.epoch + time >= self.now, "the script goes back to {time:?}");
        self.now = self.epoch + time;
        self.sender.handle_timeout(self.now);
        self
    }

    /// Waits for the timer, and returns when it fired.
    fn expire(&mut self) -> Duration {
        let due = self.timer().expect("no timer is set");
        self.at_exactly(due);
        due
    }

    /// Waits for the timer of the next keep-alive.
    fn expire_keep_alive(&mut self) {
        let due = self.sender.keep_alive.at.expect("no keep-alive is due");
        self.at_exactly(due - self.epoch);
    }

    fn recv(&mut self, reply: &FromReceiver<'_>) -> &mut Self {
        self.recv_bytes(&encoded(reply))
    }

    fn recv_bytes(&mut self, datagram: &[u8]) -> &mut Self {
        self.sender.handle_datagram(self.now, (), Ecn::NotEct, &mut datagram.to_vec());
        self
    }

    /// Writes the next `len` bytes of a fixed pattern.
    fn write(&mut self, len: usize) -> &mut Self {
        let bytes = pattern(self.written, len);
        assert_eq!(self.sender.write(&bytes), Ok(len), "the send buffer is full");
        self.written += len;
        self
    }

    fn finish(&mut self) -> &mut Self {
        self.sender.finish().unwrap();
        self
    }

    /// Returns the datagrams that the sender sends now, as bytes.
    fn datagrams(&mut self) -> Vec<Vec<u8>> {
        let mut datagrams = Vec::new();
        self.batch.clear();
        while self.sender.poll_transmit(self.now, &mut self.batch).is_some() {
            datagrams.extend(self.batch.datagrams().map(<[u8]>::to_vec));
            self.batch.clear();
        }
        datagrams
    }

    /// Returns the packets that the sender sends now.
    fn sent(&mut self) -> Vec<Sent> {
        self.datagrams().iter().map(|datagram| self.note(datagram)).collect()
    }

    /// Returns the numbers of the data packets that the sender sends now; it must send no others.
    fn data(&mut self) -> Vec<u64> {
        let number = |sent| match sent {
            Sent::Data(seq) => seq,
            other => panic!("{other:?} among the data"),
        };
        self.sent().into_iter().map(number).collect()
    }

    fn note(&mut self, datagram: &[u8]) -> Sent {
        match decode_from_sender(datagram, self.payloads.len() as u64).unwrap() {
            FromSender::Syn(_) => Sent::Syn,
            FromSender::Fin { seq, .. } => Sent::Fin(seq),
            FromSender::Data(Piece { seq, payload, .. }) => {
                let index = usize::try_from(seq).unwrap();
                if index == self.payloads.len() {
                    self.payloads.push(payload.to_vec());
                } else {
                    assert_eq!(self.payloads[index], payload, "packet {seq} changed");
                }
                Sent::Data(seq)
            }
        }
    }

    fn events(&mut self) -> Vec<SenderEvent> {
        std::iter::from_fn(|| self.sender.poll_event()).collect()
    }

    /// Returns when the timer fires, since 0 ms.
    fn timer(&self) -> Option<Duration> {
        self.sender.timer().map(|deadline| deadline - self.epoch)
    }

    fn rto(&self) -> Duration {
        self.stats().rto
    }

    fn stats(&self) -> SenderStats {
        self.sender.stats()
    }
}

/// Returns the configuration of the reference sender (no lower limit of the first timeout), with
/// small packets.
fn config(window: u32) -> SenderConfig {
    let packet_size = classic::DATA_HEADER + PAYLOAD;
    SenderConfig { packet_size, min_rto: Duration::ZERO, ..SenderConfig::new(window, LINK) }
}

/// Returns bytes `from .. from + len` of a stream in which neighbouring packets differ.
fn pattern(from: usize, len: usize) -> Vec<u8> {
    (from..from + len).map(|i| (i ^ (i / 251) ^ (i / 65_521)).to_le_bytes()[0]).collect()
}

/// Returns the bytes of a classic reply.
fn encoded(reply: &FromReceiver<'_>) -> [u8; REPLY_LEN] {
    let mut datagram = [0; REPLY_LEN];
    let answer = match *reply {
        FromReceiver::SynAck { ack, window } => Answer::SynAck { ack, window },
        FromReceiver::Ack(Ack { ack, window, .. }) => Answer::Ack { ack, window },
        FromReceiver::FinAck { ack, crc } => Answer::FinAck { ack, crc },
    };
    encode_answer(answer, &mut datagram);
    datagram
}

fn syn_ack(window: u32) -> FromReceiver<'static> {
    FromReceiver::SynAck { ack: 0, window: u64::from(window) }
}

fn ack(ack: u64, window: u32) -> FromReceiver<'static> {
    FromReceiver::Ack(Ack::plain(ack, u64::from(window)))
}

fn fin_ack(ack: u64, crc: u32) -> FromReceiver<'static> {
    FromReceiver::FinAck { ack, crc }
}

fn timeout(phase: Phase, packet: u64, attempts: u32) -> SenderEvent {
    SenderEvent::Failed { phase, error: TransferError::Timeout { packet, attempts } }
}
