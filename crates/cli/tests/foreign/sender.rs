//! A minimal classic sender with window min(W, window of the receiver). Retransmits only the oldest
//! unacknowledged packet, after a timeout or on the third duplicate ACK.

use std::time::Duration;

use crate::raw::Raw;
use crate::wire::{ACK, FIN, Link, MAGIC, SYN, data, fin, number};

/// Window W of the sender, packets.
const WINDOW: u32 = 30;
const SILENCE: Duration = Duration::from_millis(60);
/// Limit on the datagrams of one transfer.
const BUDGET: u32 = 20_000;

/// Sends `bytes` in packets of `piece` bytes, and returns the checksum in the FIN-ACK.
pub(crate) fn transfer(raw: &mut Raw, link: Link, bytes: &[u8], piece: usize) -> u32 {
    let mut sender = ForeignSender { raw, budget: BUDGET };
    let window = sender.insist(&link.syn(0), SYN | ACK, 0);
    let packets: Vec<_> = (0..).zip(bytes.chunks(piece)).map(|(seq, piece)| data(seq, piece)).collect();
    sender.data(&packets, window);
    let count = u32::try_from(packets.len()).expect("few packets");
    sender.insist(&fin(count), FIN | ACK, count)
}

struct ForeignSender<'a> {
    raw: &'a mut Raw,
    budget: u32,
}

impl ForeignSender<'_> {
    /// Sends `packet` repeatedly until it is answered. Returns the window field of the reply.
    fn insist(&mut self, packet: &[u8], flags: u8, ack: u32) -> u32 {
        loop {
            self.send(packet);
            while let Some(reply) = self.reply() {
                if (reply.flags, reply.ack) == (flags, ack) {
                    return reply.window;
                }
            }
        }
    }

    fn data(&mut self, packets: &[Vec<u8>], window: u32) {
        let (mut base, mut next, mut dups) = (0, 0, 0);
        let mut edge = window.min(WINDOW) as usize;
        while base < packets.len() {
            while next < edge.min(packets.len()) {
                self.send(&packets[next]);
                next += 1;
            }
            let Some(reply) = self.reply() else {
                self.send(&packets[base]);
                continue;
            };
            let ack = reply.ack as usize;
            if reply.flags != ACK || ack < base {
                continue;
            }
            self.raw.check(ack <= next, || format!("ACK {ack} is of what was never sent"));
            dups = if ack == base { dups + 1 } else { 0 };
            if dups == 3 {
                self.send(&packets[base]);
            }
            base = ack;
            edge = base + reply.window.min(WINDOW) as usize;
        }
    }

    fn send(&mut self, packet: &[u8]) {
        self.raw.check(self.budget > 0, || "the transfer does not come to its end".into());
        self.budget -= 1;
        self.raw.send(packet);
    }

    fn reply(&mut self) -> Option<Reply> {
        let bytes = self.raw.receive(SILENCE)?;
        self.raw.check(bytes.len() == 12 && bytes[1..4] == MAGIC, || "that is no reply".into());
        Some(Reply { flags: bytes[0], window: number(&bytes, 4), ack: number(&bytes, 8) })
    }
}

struct Reply {
    flags: u8,
    window: u32,
    ack: u32,
}
