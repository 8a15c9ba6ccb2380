//! Batches between real sockets, with each send call of this system.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

#[cfg(linux_api)]
use rdt_udp::Connected;
use rdt_udp::{DatagramIo, Ecn, Remote, SendCall, UdpIo, UdpOptions, Waiter, clock};

const DATAGRAMS: u8 = 150;
const SIZE: usize = 1000;

fn bind(gso: bool) -> (UdpIo, Remote) {
    let options = UdpOptions { gso, ..UdpOptions::default() };
    let io = UdpIo::bind(([127, 0, 0, 1], 0).into(), options).expect("loopback has ports");
    let address = io.local_addr().expect("a bound socket has an address");
    (io, Remote::from(address))
}

/// Sends numbered datagrams, the last one shorter, and reads after each batch; returns their
/// source.
fn transfer(from: &mut UdpIo, to: &mut UdpIo, peer: Remote) -> Remote {
    let mut waiter = Waiter::new(to.socket(), Duration::ZERO).expect("a poller");
    let deadline: Option<Instant> = Some(clock::now() + Duration::from_secs(20));
    let (mut next, mut got, mut source) = (0, 0, None);
    while got < DATAGRAMS {
        if let Some(batch) = from.transmit_buf()
            && next < DATAGRAMS
        {
            let length = |number| if number + 1 == DATAGRAMS { 7 } else { SIZE };
            while next < DATAGRAMS
                && let Some(slot) = batch.slot(length(next))
            {
                slot.fill(next);
                next += 1;
            }
            from.flush(peer);
        }
        while let Some(received) = to.recv() {
            source = Some(received.peer);
            for datagram in received.bytes.chunks(received.stride) {
                assert!(datagram.iter().all(|byte| *byte == got), "datagram {got}");
                assert_eq!(datagram.len(), if got + 1 == DATAGRAMS { 7 } else { SIZE });
                got += 1;
            }
        }
        if got < next {
            waiter.wait(deadline, false).expect("waiting works");
            assert!(deadline > Some(clock::now()), "{got} of {next} datagrams came");
        }
    }
    source.expect("something came")
}

#[test]
fn batches_arrive_with_and_without_offload() {
    for gso in [true, false] {
        let (mut a, from) = bind(gso);
        let (mut b, to) = bind(gso);
        let source = transfer(&mut a, &mut b, to);
        assert_eq!(source.addr, from.addr);
        let (stats, offload) = (a.stats(), a.offload());
        assert_eq!(stats.sent, u64::from(DATAGRAMS), "{offload:?}");
        let calls = u64::from(DATAGRAMS).div_ceil(offload.send_segments as u64);
        assert!(stats.send_calls >= calls);
        assert_eq!(offload.send_call == SendCall::Single, offload.send_segments == 1);
        assert!(gso || offload.send_call != SendCall::Gso, "turned off");
        if cfg!(linux_api) && !gso && offload.send_call == SendCall::Sendmmsg {
            assert!(stats.send_calls <= 4, "{} calls of 64 for {DATAGRAMS} datagrams", stats.send_calls);
        }
        // The reply comes from the address to which the request was sent.
        let back = transfer(&mut b, &mut a, source);
        assert_eq!(back.addr, to.addr);
    }
}

#[test]
fn codepoint_arrives_by_each_send_call() {
    // A single datagram, segmentation offload, and `sendmmsg`.
    for (gso, datagrams) in [(true, 1), (true, 10), (false, 10)] {
        let ((mut a, _), (mut b, to)) = (bind(gso), bind(gso));
        let mut waiter = Waiter::new(b.socket(), Duration::ZERO).expect("a poller");
        for ecn in [Ecn::Ect0, Ecn::NotEct, Ecn::Ect1, Ecn::Ce] {
            let batch = a.transmit_buf().expect("nothing is stuck");
            assert_eq!(batch.ecn(), Ecn::NotEct, "forgotten with the batch before");
            batch.set_ecn(ecn);
            let mut sent = 0;
            while sent < datagrams
                && let Some(slot) = batch.slot(SIZE)
            {
                slot.fill(1);
                sent += 1;
            }
            a.flush(to);
            let (mut got, mut seen) = (0, Vec::new());
            while got < sent {
                while let Some(received) = b.recv() {
                    got += received.bytes.chunks(received.stride).count();
                    seen.push(received.ecn);
                }
                if got < sent {
                    let deadline = clock::now() + Duration::from_secs(20);
                    waiter.wait(Some(deadline), false).expect("waiting works");
                    assert!(clock::now() < deadline, "{got} of {sent} datagrams came with {ecn:?}");
                }
            }
            if datagrams == 1 && seen == [Ecn::NotEct] && ecn != Ecn::NotEct {
                return rdt_testing::skipped("this system lets no program set codepoints, or see them");
            }
            // quinn-udp has no room for the codepoint of a coalesced message with a timestamp.
            let may_be_lost = !cfg!(linux_api) && b.offload().receive_segments > 1;
            let is_right = |seen: &Ecn| *seen == ecn || may_be_lost && *seen == Ecn::NotEct;
            assert!(seen.iter().all(is_right), "{ecn:?} by {:?}: {seen:?}", a.offload());
        }
    }
}

#[test]
fn lone_datagram_returns_at_once_stream_reads_on() {
    let (mut io, to) = bind(true);
    let from = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let send = |datagrams: &[&[u8]]| {
        for datagram in datagrams {
            from.send_to(datagram, to.addr).expect("loopback takes it");
        }
    };
    send(&[b"a"]);
    assert!(io.recv().is_some());
    send(&[b"b"]);
    assert!(io.recv().is_none(), "the first is answered before the second is looked for");
    assert!(io.recv().is_some());
    assert!(io.recv().is_none());
    send(&[b"c", b"d"]);
    assert!(io.recv().is_some() && io.recv().is_some());
    send(&[b"e"]);
    assert!(io.recv().is_some(), "more is likely on its way");
    assert!(io.recv().is_none());
}

#[test]
fn large_messages_are_read_four_at_once() {
    let (mut io, to) = bind(true);
    let from = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let mut calls = |datagrams: usize, length| {
        let before = io.stats().receive_calls;
        for _ in 0..datagrams {
            from.send_to(&vec![7; length], to.addr).expect("loopback takes it");
        }
        for _ in 0..datagrams {
            while io.recv().is_none() {}
        }
        while io.recv().is_some() {}
        io.stats().receive_calls - before
    };
    assert_eq!(calls(8, 40_000), 1);
    assert_eq!(calls(8, 40_000), 2, "four fit into a cache that is not large");
    calls(1, 100);
    assert_eq!(calls(8, 100), 1, "of small ones it takes many");
}

#[cfg(linux_api)]
#[test]
fn overflow_is_returned_once() {
    let options = UdpOptions { receive_buffer: 4096, ..UdpOptions::default() };
    let mut io = UdpIo::bind(([127, 0, 0, 1], 0).into(), options).expect("loopback has ports");
    let from = UdpSocket::bind("127.0.0.1:0").expect("a free port");
    let to = io.local_addr().expect("a bound socket has an address");
    let send = || from.send_to(&[7; SIZE], to).expect("loopback takes it");
    for _ in 0..100 {
        send();
    }
    let lost = io.stats().receive_overflow.expect("Linux tells");
    assert!(lost > 0, "100 kB do not fit");
    while io.stats().received + lost < 100 {
        let _ = io.recv();
    }
    assert_eq!(io.take_overflow(), 0, "those that fitted came before");
    send();
    while io.recv().is_none() {}
    assert_eq!([0; 2].map(|_| io.take_overflow()), [lost, 0]);
}

#[cfg(linux_api)]
#[test]
fn port_unreachable_is_returned_once() {
    let (io, _) = bind(false);
    // On other systems, another process may bind to the port meanwhile.
    let quiet = if cfg!(target_os = "linux") { "127.0.0.77:0" } else { "127.0.0.1:0" };
    let closed_port = UdpSocket::bind(quiet).and_then(|socket| socket.local_addr()).expect("a port");
    let mut waiter = Waiter::new(io.socket(), Duration::ZERO).expect("a poller");
    let mut socket = Connected::new(io, closed_port);
    let batch = socket.transmit_buf().expect("there is room");
    batch.slot(5).expect("there is room").fill(1);
    socket.flush(());
    let deadline = Some(clock::now() + Duration::from_secs(20));
    while socket.io().stats().unreachable == 0 {
        assert!(deadline > Some(clock::now()), "no report came");
        waiter.wait(deadline, false).expect("waiting works");
        assert!(socket.recv().is_none(), "no datagrams arrive");
    }
    assert_eq!([0; 2].map(|_| socket.take_refused()), [Some(((), 1)), None]);
}
