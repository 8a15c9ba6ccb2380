//! A scripted receiver: starts `rdt-send` against itself, checks every byte, and replies as the
//! test says.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::array::crc32;
use crate::process::{Outcome, Program};
use crate::raw::{PATIENCE, Raw};
use crate::wire::{ACK, FIN, MAGIC, MAX_WINDOW, SYN, ack, fin_ack, hex, number, syn_ack};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packet {
    Syn,
    Data(u32),
    Fin(u32),
}

pub(crate) struct Peer {
    /// Dropped before the socket, so that its port is not reused.
    program: Program,
    pub(crate) raw: Raw,
    /// The bytes of the first SYN.
    syn: Option<Vec<u8>>,
    /// Received packets by number.
    held: BTreeMap<u32, Vec<u8>>,
    /// Length of the contiguous run from 0 in `held`.
    expected: u32,
    /// Number of the last FIN.
    fin: Option<u32>,
}

impl Peer {
    /// Starts `rdt-send` with the W, RTT, loss and rate of `line`, and further arguments.
    pub(crate) fn start(line: &str) -> Self {
        let raw = Raw::new(None);
        let host = raw.address().to_string();
        let args: Vec<_> = std::iter::once(host.as_str()).chain(line.split(' ')).collect();
        let program = Program::start(env!("CARGO_BIN_EXE_rdt-send"), &args);
        Self { program, raw, syn: None, held: BTreeMap::new(), expected: 0, fin: None }
    }

    /// Receives the next packet, or `None` after a timeout.
    pub(crate) fn receive(&mut self, time: Duration) -> Option<Packet> {
        let bytes = self.raw.receive(time)?;
        Some(self.take(&bytes))
    }

    /// Receives the next packet; panics after a timeout.
    pub(crate) fn next(&mut self) -> Packet {
        let bytes = self.raw.wait();
        self.take(&bytes)
    }

    /// Checks that the next packet is `wanted`.
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

    /// Checks that for `time` only repeated packets arrive.
    pub(crate) fn nothing_new(&mut self, time: Duration) {
        let known = self.held.len();
        for packet in self.pass(time) {
            let repeats = self.held.len() == known && !matches!(packet, Packet::Fin(_));
            self.raw.check(repeats, || format!("{packet:?} is new"));
        }
    }

    /// Receives for `time`.
    pub(crate) fn pass(&mut self, time: Duration) -> Vec<Packet> {
        let all = self.raw.pass(time);
        all.iter().map(|bytes| self.take(bytes)).collect()
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.raw.send(bytes);
    }

    /// Answers the SYN at once, for the shortest timeout.
    pub(crate) fn connect(&mut self, window: u32) {
        self.expect(Packet::Syn);
        self.send(&syn_ack(window, 0));
    }

    /// Answers the SYN after `delay`, which sets the first timeout to three times as long.
    pub(crate) fn connect_after(&mut self, delay: Duration, window: u32) {
        self.expect(Packet::Syn);
        self.raw.quiet(delay);
        self.send(&syn_ack(window, 0));
    }

    /// Receives the rest with an ACK for each packet, until the FIN, whose number it returns.
    pub(crate) fn serve(&mut self) -> u32 {
        loop {
            match self.next() {
                Packet::Syn => self.raw.fail("a SYN after the handshake"),
                Packet::Data(_) => self.send(&ack(self.window(), self.expected)),
                Packet::Fin(seq) => return seq,
            }
        }
    }

    /// Answers a FIN and waits for the exit.
    pub(crate) fn close(mut self, checksum: u32) -> Outcome {
        self.send(&fin_ack(checksum, self.expected));
        self.finish()
    }

    /// Acknowledges everything received, receives the rest, answers the FIN with the checksum and
    /// waits for the exit.
    pub(crate) fn complete(mut self) -> Outcome {
        if self.fin.is_none() {
            self.send(&ack(self.window(), self.expected));
            self.serve();
        }
        let checksum = crc32(&self.payload());
        self.close(checksum)
    }

    /// Waits for the exit.
    pub(crate) fn finish(self) -> Outcome {
        self.program.finish()
    }

    /// Receives until the program exits.
    pub(crate) fn listen(&mut self) -> Vec<Packet> {
        let mut all = Vec::new();
        while !self.program.has_ended() {
            all.extend(self.receive(Duration::from_millis(20)));
            self.raw.check(all.len() < 1000, || "the program does not end".into());
        }
        all.extend(std::iter::from_fn(|| self.receive(Duration::from_millis(1))));
        all
    }

    /// The next number in order.
    pub(crate) fn expected(&self) -> u32 {
        self.expected
    }

    /// The window of the reference receiver.
    pub(crate) fn window(&self) -> u32 {
        self.expected.clamp(1, MAX_WINDOW)
    }

    /// The bytes of the SYN.
    pub(crate) fn syn(&self) -> &[u8] {
        self.syn.as_deref().unwrap_or_default()
    }

    /// Payload received in order.
    pub(crate) fn payload(&self) -> Vec<u8> {
        self.held.range(..self.expected).flat_map(|(_, bytes)| bytes).copied().collect()
    }

    /// The payload of one packet.
    pub(crate) fn piece(&self, seq: u32) -> &[u8] {
        &self.held[&seq]
    }

    /// Checks the form of a datagram: a SYN has 28 bytes, a FIN 8, and a repeated packet is
    /// unchanged. A repeated FIN has four more bytes, which say that its sender processes ACKs.
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
/// Delay of a SYN-ACK that makes timeouts longer than a script.
pub(crate) const SLOWLY: Duration = Duration::from_millis(300);
const _: () = assert!(PATIENCE.as_millis() > 3 * SLOWLY.as_millis());
