//! Sealed packets of a sender whose handshake and replies are the connection's.

use std::sync::Arc;

use rdt_crypto::{Aead, PacketKey};

use super::*;
use crate::wire::native::{self, Body, NativeCodec};
use crate::wire::{Echo, Marks, PacketKind};

const PHASE: u8 = 1;
const CID: u64 = 0x1234_5678_9abc_def0;
/// Bytes of a full datagram.
const DATAGRAM: usize = 1200;
const MSS: usize = DATAGRAM - 24 - 16;

/// Packet that was sent, after opening.
#[derive(Debug)]
struct Opened {
    number: u64,
    kind: PacketKind,
    /// Offset, or length of the stream.
    offset: u64,
    payload: Vec<u8>,
    wire: Vec<u8>,
}

struct Sealed {
    sender: Sender,
    key: Arc<PacketKey>,
    now: Instant,
    batch: TransmitBuf,
    data: Vec<u8>,
    sent: Vec<Opened>,
}

impl Sealed {
    /// Creates a sender of `len` bytes whose handshake took 10 ms.
    fn new(len: usize) -> Self {
        Self::with(Algorithm::Fixed(1000), len)
    }

    fn with(congestion: Algorithm, len: usize) -> Self {
        Self::configured(SenderConfig { congestion, pacing: false, ..SenderConfig::native(7) }, len)
    }

    fn configured(config: SenderConfig, len: usize) -> Self {
        let config = SenderConfig { window: 1000, packet_size: DATAGRAM, ..config };
        let key = Arc::new(PacketKey::new(Aead::Aes128Gcm, &[1; 16], [2; 12]));
        let codec = NativeCodec { phase: PHASE, ..NativeCodec::new(CID, Arc::clone(&key)) };
        let (now, rtt) = (rdt_testing::epoch(), ms(10));
        let peer = Established {
            window: 1 << 20,
            params: Params::default(),
            rtt,
            is_rtt_sample: true,
            is_remembered: false,
            known: None,
        };
        let sender = Sender::established(config, codec, FramePool::new(), now, &peer).unwrap();
        let data: Vec<u8> = (0..len).map(|i| u8::try_from(i % 251).unwrap()).collect();
        Self { sender, key, now, batch: TransmitBuf::new(64), data, sent: Vec::new() }
    }

    fn write(&mut self) -> &mut Self {
        assert_eq!(self.sender.write(&self.data), Ok(self.data.len()));
        self
    }

    /// Opens everything that the sender sends now. Returns the index of the first such packet.
    fn drain(&mut self) -> usize {
        let first = self.sent.len();
        loop {
            self.batch.clear();
            if self.sender.poll_transmit(self.now, &mut self.batch).is_none() {
                return first;
            }
            for datagram in self.batch.datagrams() {
                let header = native::peek(datagram).expect("a sealed packet");
                assert_eq!((header.connection_id, header.phase()), (CID, PHASE));
                let (number, mut copy) = (u64::from(header.number), datagram.to_vec());
                let body = self.key.open(header.space(), number, &mut copy).expect("the right key");
                let (offset, payload) = match Body::decode(&header, number, body, 0).unwrap() {
                    Body::Data { piece, .. } => (piece.seq, piece.payload.to_vec()),
                    Body::Fin { length, .. } => (length, Vec::new()),
                    other => panic!("{other:?}"),
                };
                let wire = datagram.to_vec();
                self.sent.push(Opened { number, kind: header.kind, offset, payload, wire });
            }
        }
    }

    /// Lets timers fire, without any answer, until `count` packets were sent again.
    fn lose_all(&mut self, count: u64) {
        for _ in 0..10_000 {
            self.now = self.sender.poll_timeout().expect("a timer").max(self.now);
            self.sender.handle_timeout(self.now);
            self.drain();
            if self.sender.stats().retransmitted >= count {
                return;
            }
        }
        panic!("{} packets were sent again", self.sender.stats().retransmitted);
    }

    fn ack(&mut self, ack: u64, packet_number: u64) {
        let ack = Ack {
            echo: Some(Echo { packet_number, delay: Duration::ZERO }),
            duplicates: Some(0),
            marks: Some(Marks::default()),
            ..Ack::plain(ack, 1 << 20)
        };
        self.sender.on_ack(self.now, &ack, false);
        self.sender.after_call(self.now);
    }

    /// Checks that no number was used twice, and that every packet has the bytes of its offset.
    fn check(&self) {
        let mut numbers: Vec<u64> = self.sent.iter().map(|packet| packet.number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), self.sent.len(), "a number was used twice");
        for packet in self.sent.iter().filter(|packet| packet.kind == PacketKind::Data) {
            let start = usize::try_from(packet.offset).unwrap();
            assert_eq!(packet.payload, &self.data[start..start + packet.payload.len()], "{start}");
        }
    }
}

/// Acknowledges the packets `from..to` of [`Sealed::sent`] one by one, if none is missing before.
fn ack_each(sealed: &mut Sealed, packets: std::ops::Range<usize>) {
    for index in packets {
        let Opened { number, offset, ref payload, .. } = sealed.sent[index];
        sealed.ack(offset + payload.len() as u64, number);
    }
}

/// Returns a CUBIC sender in slow start with over 500 packets in flight, and the index of the first
/// one of them.
fn grown() -> (Sealed, usize) {
    let mut sealed = Sealed::with(Algorithm::Cubic, 4000 * MSS);
    let (mut written, mut first) = (0, 0);
    for _ in 0..20 {
        loop {
            let n = sealed.sender.write(&sealed.data[written..]).unwrap();
            written += n;
            sealed.drain();
            if n == 0 {
                break;
            }
        }
        if sealed.sent.len() - first > 500 {
            return (sealed, first);
        }
        sealed.now += ms(10);
        let next = sealed.sent.len();
        ack_each(&mut sealed, first..next);
        first = next;
    }
    panic!("{} packets in flight", sealed.sent.len() - first);
}

/// Returns the window in packets.
fn window(sealed: &Sealed) -> u64 {
    sealed.sender.congestion.cwnd / MSS as u64
}

#[test]
fn unpaced_pause_ends_with_first_window() {
    for (pause, packets) in [(199, 200), (1000, 10)] {
        let (mut sealed, first) = grown();
        sealed.now += ms(10);
        let next = sealed.sent.len();
        // The application has written nothing more.
        let end = sealed.sender.stream.end();
        ack_each(&mut sealed, first..next);
        while sealed.sender.flight.board.una_offset() < end {
            let first = sealed.drain();
            let next = sealed.sent.len();
            ack_each(&mut sealed, first..next);
        }
        sealed.now += ms(pause);
        let written = usize::try_from(end).unwrap();
        assert_eq!(sealed.sender.write(&sealed.data[written..written + 200 * MSS]), Ok(200 * MSS));
        let before = sealed.drain();
        assert_eq!(sealed.sent.len() - before, packets, "{pause} ms");
    }
}

#[test]
fn new_path_pays_debt_of_pacer() {
    let config = SenderConfig { congestion: Algorithm::Fixed(100), ..SenderConfig::native(7) };
    let mut sealed = Sealed::configured(config, 100 * MSS);
    sealed.write().drain();
    let before = sealed.sent.len();
    assert!(before < 100, "{before} packets");
    sealed.sender.on_path_changed(sealed.now);
    assert_eq!(sealed.drain(), sealed.sent.len(), "no tokens are left");
    sealed.now = sealed.sender.poll_timeout().expect("a timer");
    sealed.drain();
    assert_eq!(sealed.sent.len() - before, 1);
}

#[test]
fn losses_of_old_path_spare_new_window() {
    let (mut sealed, lost) = grown();
    let mut first = sealed.sent.len();
    sealed.sender.on_path_changed(sealed.now);
    sealed.drain();
    assert_eq!(sealed.sent[first].offset, sealed.sent[lost].offset);
    for round in 0..6 {
        sealed.drain();
        let next = sealed.sent.len();
        assert!(next > first, "round {round}");
        sealed.now += ms(10);
        ack_each(&mut sealed, first..next);
        first = next;
    }
    let sender = &sealed.sender;
    assert_eq!((sender.congestion.controller.ssthresh(), sender.stats().timeouts), (None, 0));
}

#[test]
fn acks_of_old_path_grow_no_new_window() {
    let (mut sealed, old) = grown();
    let new = sealed.sent.len();
    sealed.sender.on_path_changed(sealed.now);
    assert_eq!(window(&sealed), 10);
    sealed.drain();
    let leaving = sealed.sent.len() - new;
    assert_eq!(leaving, 10, "what is in flight elsewhere takes no room");
    sealed.now += ms(10);
    ack_each(&mut sealed, old..new - 100);
    assert_eq!(window(&sealed), 10);
    // One ACK of the new path covers the rest of the old one.
    sealed.drain();
    let Opened { number, .. } = *sealed.sent.last().unwrap();
    let Opened { offset, .. } = sealed.sent[new - 1];
    sealed.ack(offset, number);
    let most = 10 + (sealed.sent.len() - new) as u64;
    assert!((10..=most).contains(&window(&sealed)), "{} of {most}", window(&sealed));
    assert_eq!(sealed.sender.congestion.controller.ssthresh(), None);
}

/// Five packets that more data follows are copied into their batch; a hundred leave from the frames
/// in which they were written, where only ciphertext is left of them.
#[test]
fn retransmission_has_new_number_and_same_bytes() {
    for packets in [5, 100] {
        let mut sealed = Sealed::new(packets * MSS + 7);
        sealed.write().drain();
        assert_eq!(sealed.sent.len(), packets);
        assert!(sealed.sent.iter().all(|packet| packet.wire.len() == DATAGRAM));
        sealed.now += ms(10);
        sealed.ack(2 * MSS as u64, 1);
        sealed.lose_all(10);
        sealed.check();
        for again in &sealed.sent[packets..] {
            let first = sealed.sent.iter().find(|packet| packet.offset == again.offset).unwrap();
            assert!(first.number < again.number && first.wire[16..] != again.wire[16..]);
            assert_eq!(first.payload, again.payload);
        }
    }
}

#[test]
fn smaller_path_cuts_sealed_packets_anew() {
    let mut sealed = Sealed::new(60 * MSS);
    sealed.write().drain();
    assert_eq!(sealed.sent.len(), 60);
    sealed.sender.path.mss = 500;
    sealed.lose_all(12);
    sealed.check();
    let again = &sealed.sent[60..];
    assert!(again.iter().any(|packet| packet.offset % MSS as u64 != 0), "parts of packets");
    assert!(again.iter().all(|packet| packet.wire.len() <= 540));
}

#[test]
fn fin_is_sealed_behind_the_data() {
    let mut sealed = Sealed::new(10 * MSS + 7);
    sealed.write();
    sealed.sender.finish().unwrap();
    sealed.drain();
    sealed.check();
    let fin = sealed.sent.last().unwrap();
    assert_eq!((fin.kind, fin.offset, fin.number), (PacketKind::Fin, 10 * MSS as u64 + 7, 11));
    assert_eq!((fin.wire.len(), sealed.sent[10].wire.len()), (native::FIN_LEN, 24 + 7 + 16));
    assert_eq!(sealed.sender.stats().crc, 0, "the stream has no checksum");
    sealed.ack(10 * MSS as u64 + 7, 11);
    sealed.sender.on_fin_ack(sealed.now, 10 * MSS as u64 + 7, 0);
    assert!(sealed.sender.poll_event().is_some_and(|event| matches!(event, SenderEvent::Connected { .. })));
    assert_eq!(sealed.sender.poll_event(), Some(SenderEvent::Finished { crc: 0 }));
}

#[test]
fn close_is_left_to_the_connection() {
    let mut sealed = Sealed::new(MSS);
    sealed.write().drain();
    sealed.sender.abort();
    assert_eq!(sealed.drain(), sealed.sent.len(), "nothing is sent");
}

#[test]
fn datagram_outside_connection_means_nothing() {
    let mut sealed = Sealed::new(MSS);
    sealed.write().drain();
    let mut datagram = encoded(&ack(0, 1));
    sealed.sender.handle_datagram(sealed.now, (), Ecn::NotEct, &mut datagram);
    assert_eq!((sealed.sender.stats().malformed, sealed.sender.state), (1, State::Open));
}

#[test]
fn native_sender_needs_connection() {
    assert_eq!(Sender::new(SenderConfig::native(1)).err(), Some(ConfigError::Keys));
}
