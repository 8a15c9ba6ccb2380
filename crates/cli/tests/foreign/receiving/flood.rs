//! Garbage from addresses without a connection: it is not answered, disturbs no transfer and
//! occupies no memory. Exception: a datagram that begins as an encrypted packet gets a RESET, since
//! only the keys of its connection could tell it from one.

use std::thread;
use std::time::Duration;

use crate::array::{array, crc32};
use crate::mode::{MODES, Mode};
use crate::raw::Raw;
use crate::sender::transfer;
use crate::wire::{Link, MAGIC, PIECE, syn};

const FLOODING_SOCKETS: u64 = 4;
const EACH: usize = 2500;
/// Magic number and kind of a RESET of the native format.
const RESET: [u8; 2] = [0xd2, 13];
/// Memory limit that suffices for a few connections and a transfer, bytes.
const MEMORY: u64 = 16 << 20;

#[test]
fn garbage_flood_leaves_transfer_intact() {
    for mode in MODES {
        let recv = mode.start();
        let mut first = Raw::to(recv.address);
        let mut last = Raw::to(recv.address);
        first.ask(&syn(0), &mode.syn_ack(0));
        let before = recv.event("connected")["memory_bytes"].as_u64().expect("bytes");
        let bytes = array(15);
        let (checksum, mut sockets) = thread::scope(|scope| {
            let sockets: Vec<_> = (1..=FLOODING_SOCKETS)
                .map(|seed| {
                    let mut raw = Raw::to(recv.address);
                    scope.spawn(move || {
                        let mut garbage = Garbage(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
                        (0..EACH).for_each(|_| raw.send(&garbage.datagram()));
                        raw
                    })
                })
                .collect();
            let mut raw = Raw::to(recv.address);
            let link = Link { rtt: 0.01, ..Link::CLEAR };
            let checksum = transfer(&mut raw, link, &bytes, PIECE);
            let sockets: Vec<_> = sockets.into_iter().map(|s| s.join().expect("it only sends")).collect();
            (checksum, sockets)
        });
        assert_eq!(checksum, if mode == Mode::Dummy { 0 } else { crc32(&bytes) }, "{mode:?}");
        // The memory in the log may have been read up to 1 s ago.
        last.quiet(Duration::from_secs(1));
        // Everything that arrived before was handled when this reply is sent.
        last.ask(&syn(0), &mode.syn_ack(0));
        let answers: Vec<_> =
            sockets.iter_mut().flat_map(|raw| raw.drain(Duration::from_millis(1))).collect();
        assert!(answers.iter().all(|answer| answer.starts_with(&RESET)), "{mode:?}: {answers:02x?}");
        // 5000 of the datagrams begin with random bytes, of which 6 in 65,536 begin such a packet.
        assert!(answers.len() <= 4, "{mode:?}: {answers:02x?}");
        let _transfer = recv.event("connected");
        let connected = recv.event("connected");
        assert_eq!(connected["peer"], last.address().to_string(), "{mode:?}: a flooding socket is connected");
        let after = connected["memory_bytes"].as_u64().expect("bytes");
        assert!(after < before + MEMORY, "{mode:?}: {before} bytes of memory became {after}");
    }
}

/// Generator of pseudorandom datagrams, with its state.
struct Garbage(u64);

impl Garbage {
    /// Returns the next datagram. Every second one has the magic number and flags of a packet.
    fn datagram(&mut self) -> Vec<u8> {
        let length = usize::try_from(self.number() % 1473).expect("small");
        let mut bytes: Vec<u8> =
            std::iter::repeat_with(|| self.number().to_le_bytes()[0]).take(length).collect();
        if self.number().is_multiple_of(2) && length >= 28 {
            bytes[0] &= 0xE0;
            bytes[1..4].copy_from_slice(&MAGIC);
            if self.number().is_multiple_of(4) {
                bytes.truncate(28);
            }
        }
        bytes
    }

    fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}
