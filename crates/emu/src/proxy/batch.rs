//! Batches of departing packets: one system call sends many.

use std::mem;

use rdt_emulator::{Delivery, Ecn};
use rdt_udp::DatagramIo;

const MAX_BATCH_PACKETS: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Staged {
    tag: u32,
    ecn: Ecn,
    bytes: Vec<u8>,
}

/// Packets that are sent together, in one direction of the proxy. Their buffers are reused.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    packets: Vec<Staged>,
    len: usize,
}

impl Batch {
    /// Adds a packet in exchange for a spare buffer. Returns true if the batch is full.
    pub(crate) fn put(&mut self, delivery: &mut Delivery) -> bool {
        if self.len == self.packets.len() {
            self.packets.push(Staged::default());
        }
        let staged = &mut self.packets[self.len];
        (staged.tag, staged.ecn) = (delivery.tag, delivery.ecn);
        mem::swap(&mut staged.bytes, &mut delivery.packet);
        self.len += 1;
        self.len >= MAX_BATCH_PACKETS
    }

    /// Calls `send`, which returns the number it sent, for each tag. Returns the number not sent.
    pub(crate) fn send(&mut self, mut send: impl FnMut(u32, &[Staged]) -> usize) -> u64 {
        let packets = &mut self.packets[..mem::take(&mut self.len)];
        // The sort is stable, so packets of one tag remain in order.
        packets.sort_by_key(|staged| staged.tag);
        let runs = packets.chunk_by(|a, b| a.tag == b.tag);
        runs.map(|run| (run.len() - send(run[0].tag, run)) as u64).sum()
    }
}

/// Sends packets to one peer. Returns the number that the socket took: not all if it is full.
pub(crate) fn send_run<I: DatagramIo>(io: &mut I, peer: I::Peer, run: &[Staged]) -> usize {
    let mut at = 0;
    while let Some(first) = run.get(at) {
        let Some(batch) = io.transmit_buf() else { break };
        batch.set_ecn(first.ecn);
        let begin = at;
        while let Some(staged) = run.get(at)
            && staged.ecn == first.ecn
            && let Some(slot) = batch.slot(staged.bytes.len())
        {
            slot.copy_from_slice(&staged.bytes);
            at += 1;
        }
        // An empty batch has room for any datagram that a socket can receive.
        if at == begin {
            break;
        }
        io.flush(peer);
    }
    at
}

#[cfg(test)]
mod tests {
    use rdt_udp::{Received, TransmitBuf, clock};

    use super::*;

    /// Socket that accepts a number of batches, and records ECN codepoint and datagrams of each.
    struct Takes {
        batches: usize,
        buf: TransmitBuf,
        taken: Vec<(u8, Vec<Vec<u8>>)>,
    }

    impl DatagramIo for Takes {
        type Peer = ();

        fn recv(&mut self) -> Option<Received<'_, ()>> {
            None
        }

        fn transmit_buf(&mut self) -> Option<&mut TransmitBuf> {
            self.buf.clear();
            (self.taken.len() < self.batches).then_some(&mut self.buf)
        }

        fn flush(&mut self, (): ()) {
            let datagrams = self.buf.datagrams().map(<[u8]>::to_vec).collect();
            self.taken.push((self.buf.ecn().bits(), datagrams));
        }
    }

    fn delivery(tag: u32, ecn: Ecn, packet: &[u8]) -> Delivery {
        Delivery { due: clock::now(), packet: packet.to_vec(), tag, ecn, is_copy: false, is_corrupted: false }
    }

    #[test]
    fn batch_groups_packets_by_peer_and_codepoint() {
        let mut batch = Batch::default();
        let mut packets = [
            delivery(2, Ecn::Ect0, b"aa"),
            delivery(1, Ecn::Ect0, b"x"),
            delivery(2, Ecn::Ect0, b"bb"),
            delivery(2, Ecn::Ect0, b"c"),
            delivery(2, Ecn::Ect0, b""),
            delivery(2, Ecn::Ce, b"d"),
        ];
        let places: Vec<_> = packets.iter().map(|delivery| delivery.packet.as_ptr()).collect();
        assert!(packets.iter_mut().all(|delivery| !batch.put(delivery)));
        let mut ios = [1, 2].map(|_| Takes { batches: 9, buf: TransmitBuf::new(64), taken: Vec::new() });
        let refused = batch.send(|tag, run| send_run(&mut ios[tag as usize - 1], (), run));
        assert_eq!(refused, 0);
        let vecs = |texts: &[&str]| texts.iter().map(|text| text.as_bytes().to_vec()).collect::<Vec<_>>();
        assert_eq!(ios[0].taken, [(2, vecs(&["x"]))]);
        assert_eq!(ios[1].taken, [(2, vecs(&["aa", "bb", "c"])), (2, vecs(&[""])), (3, vecs(&["d"]))]);
        let mut next = delivery(1, Ecn::NotEct, b"y");
        batch.put(&mut next);
        assert!(places.contains(&next.packet.as_ptr()));
    }

    #[test]
    fn packets_refused_by_full_socket_are_counted() {
        let mut batch = Batch::default();
        let kept =
            (0..MAX_BATCH_PACKETS).take_while(|_| !batch.put(&mut delivery(1, Ecn::NotEct, b"a"))).count();
        assert_eq!(kept, MAX_BATCH_PACKETS - 1);
        let mut io = Takes { batches: 2, buf: TransmitBuf::new(10), taken: Vec::new() };
        assert_eq!(batch.send(|_, run| send_run(&mut io, (), run)), MAX_BATCH_PACKETS as u64 - 20);
        assert_eq!(batch.send(|_, _| 0), 0, "they were not kept");
    }
}
