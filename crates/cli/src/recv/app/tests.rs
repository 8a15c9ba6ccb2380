use std::net::SocketAddr;

use rdt_server::{LinkMode, ServerConfig};
use rdt_transport::{Ecn, ReceiverConfig};

use super::*;
use crate::recv::store::Output;

/// Server without links, application that stores to a directory, and virtual time. Tests feed it
/// with datagrams.
struct Script {
    server: Server<Remote>,
    service: ReceiverApp,
    now: Instant,
    /// Removed with this script.
    _directory: tempfile::TempDir,
}

fn script() -> Script {
    let receiver = ReceiverConfig { keep_payload: true, ..ReceiverConfig::reference() };
    let directory = tempfile::tempdir().unwrap();
    let output = Output::parse(Some(directory.path()), false).unwrap();
    let store = Store::new(output, false, usize::MAX, || {}).unwrap();
    Script {
        server: Server::new(ServerConfig::new(receiver, LinkMode::None)),
        service: ReceiverApp::new(EventLog::quiet(), store, Stop::default()),
        now: rdt_udp::clock::now(),
        _directory: directory,
    }
}

fn peer(port: u16) -> Remote {
    SocketAddr::from(([127, 0, 0, 1], port)).into()
}

impl Script {
    fn datagram(&mut self, port: u16, bytes: &[u8]) {
        self.server.handle_datagram(self.now, peer(port), Ecn::NotEct, &mut bytes.to_vec());
    }

    /// Sends a SYN that requests 0.1 s, 1 Gbit/s, no loss, and a buffer of 50 packets.
    fn syn(&mut self, port: u16) {
        let fields = [0.1_f32.to_le_bytes(), 1e9_f32.to_le_bytes(), [0; 4], [0; 4], 50_u32.to_le_bytes()];
        self.datagram(port, &[&0x8311_aa20_u32.to_le_bytes()[..], &[0; 4], &fields.concat()].concat());
    }

    fn data(&mut self, port: u16, seq: u32, payload: &[u8]) {
        let head = [0x8311_aa00_u32.to_le_bytes(), seq.to_le_bytes()].concat();
        self.datagram(port, &[&head, payload].concat());
    }

    fn unread(&self, ports: std::ops::Range<u16>) -> usize {
        ports.map(|port| self.server.classic().unread(peer(port))).sum::<u64>().try_into().unwrap()
    }
}

#[test]
fn one_poll_stores_bounded_bytes_round_robin() {
    let ports = 1..5_u16;
    let mut script = script();
    // Together, these transfers are more than a few polls can store.
    for port in ports.clone() {
        script.syn(port);
        for seq in 0..2048 {
            script.data(port, seq, &[7; 1464]);
        }
    }
    let mut left = script.unread(ports.clone());
    assert_eq!(left, 4 * 2048 * 1464);
    let mut served = BTreeSet::new();
    while left > 0 {
        let before = ports.clone().map(|port| script.unread(port..port + 1)).collect::<Vec<_>>();
        let flow = script.service.pump(script.now, &mut script.server);
        let now = script.unread(ports.clone());
        assert!(left - now <= BYTES_PER_POLL, "{} bytes in one turn", left - now);
        // After bytes were stored, the event loop must poll again. If the queue is full, the writer
        // thread wakes the loop instead.
        assert!(now == left || flow == Flow::Again, "{flow:?} with {now} bytes left");
        for (port, before) in ports.clone().zip(before) {
            if served.len() < ports.len() && script.unread(port..port + 1) < before {
                assert!(served.insert(port), "{port} is served again before all were");
            }
        }
        left = now;
        std::thread::yield_now();
    }
    assert_eq!(served.len(), ports.len());
}

#[test]
fn empty_transfers_wait_for_room() {
    let mut script = script();
    for port in 1..2000 {
        script.syn(port);
        // FIN of a transfer without data, and once more: it might be forged.
        let fin = [0x8311_aa80_u32.to_le_bytes(), [0; 4]].concat();
        script.datagram(port, &fin);
        script.now += Duration::from_millis(1);
        script.datagram(port, &fin);
    }
    script.service.pump(script.now, &mut script.server);
    let begun = script.service.finishing.len();
    assert!((1..=BYTES_PER_POLL / COST_PER_PEER).contains(&begun), "{begun} in one turn");
    while script.service.totals.finished < 1999 {
        script.service.pump(script.now, &mut script.server);
        std::thread::yield_now();
    }
}

#[test]
fn stored_transfer_keeps_wire_format_after_close() {
    let mut script = script();
    script.syn(1);
    script.data(1, 0, b"abc");
    script.datagram(1, &[0x8311_aa80_u32.to_le_bytes(), 1_u32.to_le_bytes()].concat());
    script.service.pump(script.now, &mut script.server);
    script.service.on_event(
        script.now,
        &mut script.server,
        peer(1).into(),
        ReceiverEvent::Closed { unfinished: true },
    );
    assert_eq!(script.service.peer_log.format(peer(1).into()), None);
    let [Finishing { end, is_gone: true }] = &script.service.finishing.values().collect::<Vec<_>>()[..]
    else {
        panic!("it is being stored");
    };
    assert_eq!((end.format, end.bytes), (Some(Format::Classic), 3));
}
