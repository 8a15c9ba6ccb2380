//! Modes of `rdt-recv`, and the replies in each.

use crate::array::crc32;
use crate::process::Recv;
use crate::raw::Raw;
use crate::wire::{self, MAX_WINDOW, data, syn};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// As the reference receiver, behind the emulated link that the SYN requests.
    Reference,
    NoLink,
    Dummy,
}

pub(crate) const MODES: [Mode; 3] = [Mode::Reference, Mode::NoLink, Mode::Dummy];

impl Mode {
    pub(crate) fn start(self) -> Recv {
        Recv::start(match self {
            Self::Reference => &[],
            Self::NoLink => &["--no-link"],
            Self::Dummy => &["--dummy"],
        })
    }

    pub(crate) fn syn_ack(self, ack: u32) -> Vec<u8> {
        wire::syn_ack(self.window(ack), ack)
    }

    pub(crate) fn ack(self, ack: u32) -> Vec<u8> {
        wire::ack(self.window(ack), ack)
    }

    pub(crate) fn fin_ack(self, ack: u32, payload: &[u8]) -> Vec<u8> {
        wire::fin_ack(if self == Self::Dummy { 0 } else { crc32(payload) }, ack)
    }

    fn window(self, ack: u32) -> u32 {
        if self == Self::Dummy { MAX_WINDOW } else { ack.clamp(1, MAX_WINDOW) }
    }

    /// Returns a raw socket towards a receiver of this mode.
    pub(crate) fn raw(self, recv: &Recv) -> Raw {
        if self == Self::NoLink { Raw::to_socket(recv.address) } else { Raw::to(recv.address) }
    }

    /// Returns a connection that `rdt-recv` answers without delay. When it answers, it has read
    /// everything that was sent before, from any port.
    pub(crate) fn metronome(self, recv: &Recv) -> Metronome {
        let mut raw = self.raw(recv);
        raw.ask(&syn(0), &self.syn_ack(0));
        Metronome { mode: self, raw, next: 0 }
    }
}

pub(crate) struct Metronome {
    mode: Mode,
    raw: Raw,
    next: u32,
}

impl Metronome {
    /// Waits until `rdt-recv` has read everything sent so far.
    pub(crate) fn beat(&mut self) {
        self.raw.send(&data(self.next, b"beat"));
        self.next += 1;
        self.raw.expect(&self.mode.ack(self.next));
    }
}
