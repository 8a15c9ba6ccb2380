//! A scripted receiver. Starts `rdt-send` towards itself, checks every byte, and replies as the
//! test specifies.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::array::crc32;
use crate::process::{Outcome, Program};
use crate::raw::{Raw, WAIT_LIMIT};
use crate::wire::{ACK, FIN, MAGIC, MAX_WINDOW, SYN, ack, fin_ack, hex, number, syn_ack};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packet {
    Syn,
    Data(u32),
    Fin(u32),
}

pub(crate) struct Peer {
    /// First field, so that the program is dropped before the socket, whose port must not be
    /// reused.
    program: Program,
    pub(crate) raw: Raw,
    /// First SYN; `None` before it arrives.
    syn: Option<Vec<u8>>,
    /// Payload of the received packets, by sequence number.
    held: BTreeMap<u32, Vec<u8>>,
    /// Number of packets received in order, from number 0.
    expected: u32,
    /// Number of the last FIN; `None` before it arrives.
    fin: Option<u32>,
}

impl Peer {
    /// Starts `rdt-send` with the W, RTT, LOSS and LINKMBPS in `line`, and further arguments.
    pub(crate) fn start(line: &str) -> Self {
        let raw = Raw::new(None);
        let host = raw.address().to_string();
        let args: Vec<_> = std::iter::once(host.as_str()).chain(line.split(' ')).collect();
        let program = Program::start(env!("CARGO_BIN_EXE_rdt-send"), &args);
        Self { program, raw, syn: None, held: BTreeMap::new(), expected: 0, fin: None }
    }

    /// Receives the next packet; `None` after `time`.
    pub(crate) fn receive(&mut self, time: Duration) -> Option<Packet> {
        let bytes = self.raw.receive(time)?;
        Some(self.take(&bytes))
    }

    /// Receives the next packet; panics after a timeout.
    pub(crate) fn next(&mut self) -> Packet {
        let bytes = self.raw.wait();
        self.take(&bytes)
    }

    pub(crate) fn expect(&mut self, wanted: Packet) {
        let packet = self.next();
        self.raw.check(packet == wanted, || format!("{packet:?} came, not {wanted:?}"));
    }

    /// Checks that the next packets are those of `range`, in order.
    pub(crate) fn expect_data(&mut self, range: std::ops::Range<u32>) {
        for seq in range {
            self.expect(Packet::Data(seq));
        }
    }

    /// Checks that for `time` only retransmitted packets arrive.
    pub(crate) fn nothing_new(&mut self, time: Duration) {
        let known = self.held.len();
        for packet in self.pass(time) {
            let repeats = self.held.len() == known && !matches!(packet, Packet::Fin(_));
            self.raw.check(repeats, || format!("{packet:?} is new"));
        }
    }

    pub(crate) fn pass(&mut self, time: Duration) -> Vec<Packet> {
        let all = self.raw.pass(time);
        all.iter().map(|bytes| self.take(bytes)).collect()
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.raw.send(bytes);
    }

    /// Answers the SYN at once, which results in the shortest timeout.
    pub(crate) fn connect(&mut self, window: u32) {
        self.expect(Packet::Syn);
        self.send(&syn_ack(window, 0));
    }

    /// Answers the SYN after `delay`, which sets the first timeout to three times `delay`.
    pub(crate) fn connect_after(&mut self, delay: Duration, window: u32) {
        self.expect(Packet::Syn);
        self.raw.quiet(delay);
        self.send(&syn_ack(window, 0));
    }

    /// Receives packets and acknowledges each, until the FIN. Returns the number of the FIN.
    pub(crate) fn serve(&mut self) -> u32 {
        loop {
            match self.next() {
                Packet::Syn => self.raw.fail("a SYN after the handshake"),
                Packet::Data(_) => self.send(&ack(self.window(), self.expected)),
                Packet::Fin(seq) => return seq,
            }
        }
    }

    /// Answers a FIN with `checksum`, and waits for the exit.
    pub(crate) fn close(mut self, checksum: u32) -> Outcome {
        self.send(&fin_ack(checksum, self.expected));
        self.finish()
    }

    /// Acknowledges everything received, receives the rest, answers the FIN with the checksum, and
    /// waits for the exit.
    pub(crate) fn complete(mut self) -> Outcome {
        if self.fin.is_none() {
            self.send(&ack(self.window(), self.expected));
            self.serve();
        }
        let checksum = crc32(&self.payload());
        self.close(checksum)
    }

    pub(crate) fn finish(self) -> Outcome {
        self.program.finish()
    }

    /// Receives packets until the program exits.
    pub(crate) fn listen(&mut self) -> Vec<Packet> {
        let mut all = Vec::new();
        while !self.program.has_ended() {
            all.extend(self.receive(Duration::from_millis(20)));
            self.raw.check(all.len() < 1000, || "the program does not end".into());
        }
        all.extend(std::iter::from_fn(|| self.receive(Duration::from_millis(1))));
        all
    }

    pub(crate) fn expected(&self) -> u32 {
        self.expected
    }

    /// Returns the window that the reference receiver would advertise.
    pub(crate) fn window(&self) -> u32 {
        self.expected.clamp(1, MAX_WINDOW)
    }

    /// The bytes of the SYN.
    pub(crate) fn syn(&self) -> &[u8] {
        self.syn.as_deref().unwrap_or_default()
    }

    pub(crate) fn payload(&self) -> Vec<u8> {
        self.held.range(..self.expected).flat_map(|(_, bytes)| bytes).copied().collect()
    }

    pub(crate) fn piece(&self, seq: u32) -> &[u8] {
        &self.held[&seq]
    }

    /// Parses a datagram and checks its form: a SYN has 28 bytes, a FIN 8, and a retransmitted
    /// packet is unchanged. A retransmitted FIN has four more bytes, which show that its sender has
    /// processed ACKs.
    fn take(&mut self, bytes: &[u8]) -> Packet {
        self.raw.check(bytes.len() >= 8 && bytes[1..4] == MAGIC, || "that is no packet".into());
        let seq = number(bytes, 4);
        match (bytes[0], bytes.len()) {
            (SYN, 28) => {
                let first = self.syn.get_or_insert_with(|| bytes.to_vec());
                let same = *first == bytes;
                self.raw.check(same, || "the SYN is not repeated as it was".into());
                Packet::Syn
            }
            (FIN, 8) if self.fin.is_none() => {
                self.fin = Some(seq);
                Packet::Fin(seq)
            }
            (FIN, 12) if self.fin == Some(seq) => {
                let processes_acks = bytes[8] == ACK && bytes[9..] == MAGIC;
                self.raw.check(processes_acks, || format!("a FIN ends in {}", hex(bytes)));
                Packet::Fin(seq)
            }
            (0, _) => {
                let piece = self.held.entry(seq).or_insert_with(|| bytes[8..].to_vec());
                let same = *piece == bytes[8..];
                self.raw.check(same, || format!("packet {seq} is not repeated as it was"));
                while self.held.contains_key(&self.expected) {
                    self.expected += 1;
                }
                Packet::Data(seq)
            }
            (flags, len) => self.raw.fail(&format!("flags {flags:#04x} in {len} bytes: {}", hex(bytes))),
        }
    }
}

/// Longer than any reply takes, and short enough to wait for in a test.
pub(crate) const BRIEFLY: Duration = Duration::from_millis(40);
/// Delay of a SYN-ACK after which timeouts are longer than a script.
pub(crate) const SLOWLY: Duration = Duration::from_millis(300);
const _: () = assert!(WAIT_LIMIT.as_millis() > 3 * SLOWLY.as_millis());
