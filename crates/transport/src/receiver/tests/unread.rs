//! Slow applications: limits on unread data, and the windows that follow from them.

use super::*;

/// Memory limit, in bytes.
const MEMORY: u64 = 4 << 20;
const PAYLOAD: [u8; 1000] = [7; 1000];

/// Sends until the window is closed. Returns the next number and the largest memory in use.
fn fill(script: &mut Script) -> (u64, u64) {
    let (mut next, mut edge, mut most) = (0, 1, 0);
    while next < edge {
        script.data(next, &PAYLOAD);
        next += 1;
        let [FromReceiver::Ack(Ack { ack, window, .. })] = script.replies()[..] else { panic!("one ACK") };
        assert_eq!(ack, next);
        assert!(ack + window >= edge, "the right edge moves back at {next}");
        edge = ack + window;
        most = most.max(script.receiver.memory());
    }
    (next, most)
}

fn behind() -> Script {
    let mut script = Script::open();
    script.memory = MEMORY;
    script
}

#[test]
fn window_closes_at_memory_limit_without_shrinking() {
    let mut script = behind();
    let (next, most) = fill(&mut script);
    assert!((MEMORY - 1000..=MEMORY).contains(&most), "{next} packets, {most} bytes");
}

#[test]
fn data_beyond_closed_window_is_answered_and_dropped() {
    let mut script = behind();
    let (next, most) = fill(&mut script);
    for _ in 0..100 {
        script.data(next, &PAYLOAD).data(next + 1, &PAYLOAD);
        assert_eq!(script.replies(), [ack(next, 0)], "the second would leave a hole");
    }
    assert_eq!((script.receiver.memory(), script.receiver.stats().no_memory), (most, 200));
}

#[test]
fn hole_filler_is_accepted_or_window_is_zero() {
    for lost_at in 2100..4150 {
        let mut script = behind();
        let mut window = 1;
        for seq in 0..lost_at {
            script.data(seq, &PAYLOAD);
            let [FromReceiver::Ack(Ack { window: told, .. })] = script.replies()[..] else {
                panic!("one ACK")
            };
            window = told;
        }
        for seq in lost_at + 1..lost_at + window {
            script.data(seq, &PAYLOAD);
        }
        script.replies();
        script.data(lost_at, &PAYLOAD);
        let [FromReceiver::Ack(Ack { ack, window, .. })] = script.replies()[..] else { panic!("one ACK") };
        assert!(ack > lost_at || window == 0, "{lost_at} is refused, and there is a window of {window}");
    }
}

#[test]
fn window_update_is_sent_once_at_half_memory() {
    let mut script = behind();
    let (next, most) = fill(&mut script);
    let window = u32::try_from(MEMORY / 2 / 1000).unwrap();
    let mut left = usize::try_from(most).unwrap();
    while left > 0 {
        assert_eq!(script.receiver.stream.buffer.unread(), left as u64);
        let n = left.min(100_000);
        let was_behind = left as u64 > MEMORY / 2;
        script.receiver.consume(n);
        left -= n;
        let told = was_behind && left as u64 <= MEMORY / 2;
        let update = told.then(|| ack(next, window));
        assert_eq!(script.replies(), Vec::from_iter(update), "{left} unread");
    }
    script.data(next, &PAYLOAD);
    assert_eq!(script.replies(), [ack(next + 1, window)]);
}

#[test]
fn fast_reader_gets_window_with_little_memory() {
    let mut script = Script::open();
    script.memory = 0;
    for seq in 0..5000_u64 {
        script.data(seq, &PAYLOAD);
        let most = LEAST_UNREAD / 2 / 1000;
        assert_eq!(script.replies(), [ack(seq + 1, u32::try_from((seq + 1).min(most)).unwrap())]);
        if seq % most == 0 {
            script.read();
        }
    }
    assert_eq!(script.receiver.stats().no_memory, 0);
}

#[test]
fn data_in_flight_fits_when_reader_stops() {
    for stops_at in [0, 1, 100, 2000, 5000, 9000] {
        let mut script = behind();
        // The flight fills the window: each ACK allows the next packets.
        let (mut next, mut edge) = (0, 1);
        while next < edge {
            script.data(next, &PAYLOAD);
            next += 1;
            let [FromReceiver::Ack(Ack { ack, window, .. })] = script.replies()[..] else {
                panic!("one ACK")
            };
            assert_eq!(ack, next, "stops at {stops_at}");
            edge = edge.max(ack + window);
            if next < stops_at {
                script.read();
            }
        }
        assert_eq!(script.receiver.stats().no_memory, 0, "stops at {stops_at}");
        assert!(script.receiver.memory() > MEMORY - 2000, "stops at {stops_at}");
    }
}

#[test]
fn without_payload_window_ignores_memory() {
    let mut script = Script::open_at(ReceiverConfig::reference(), 0);
    script.memory = 0;
    for seq in 0..500_u64 {
        script.data(seq, &PAYLOAD);
        assert_eq!(script.replies(), [ack(seq + 1, u32::try_from(seq + 1).unwrap())]);
    }
}

/// Passes a native segment to the receiver. Returns its ACK.
fn native_data(script: &mut Script, offset: u64, packet_number: u64) -> native::Ack {
    script.native_data(packet_number, offset, &[7; 1 << 14], true);
    native_ack(script).expect("an ACK was asked for")
}

fn native_ack(script: &mut Script) -> Option<native::Ack> {
    script.native_acks().pop().map(|(ack, _)| ack)
}

#[test]
fn native_data_without_memory_waits_for_window() {
    let mut script = Script::native(keeping());
    assert!(native_ack(&mut script).is_none());
    // Other peers took the memory after 1 MiB was offered.
    script.memory = 0;
    let mut offset = 0;
    let refused = loop {
        let answer = native_data(&mut script, offset, offset >> 14);
        if answer.ack == offset {
            break answer;
        }
        offset = answer.ack;
    };
    assert_eq!((refused.window, offset), (0, LEAST_UNREAD));
    assert!(script.receiver.memory() <= LEAST_UNREAD + (64 << 10), "{}", script.receiver.memory());
    assert_eq!(script.receiver.stats().no_memory, 1);
    script.now += Duration::from_secs(1);
    script.receiver.consume(1 << 14);
    assert_eq!(native_ack(&mut script), None, "it is still behind");
    while !script.receiver.data().is_empty() {
        script.receiver.consume(1 << 14);
    }
    let told = native_ack(&mut script).expect("it is told that there is room");
    assert!(told.ack == offset && told.window > 0, "{told:?}");
    assert_eq!(native_data(&mut script, offset, 1000).ack, offset + (1 << 14));
}

#[test]
fn filled_holes_keep_memory_bounded_for_slow_reader() {
    let mut script = behind();
    for round in 0..20 {
        // A thousand packets behind a hole, then the missing one, whatever window was offered.
        let first = script.receiver.rcv_nxt();
        for seq in first + 1..first + 1000 {
            script.data(seq, &PAYLOAD);
        }
        script.data(first, &PAYLOAD);
        script.replies();
        let memory = script.receiver.memory();
        assert!(memory <= MEMORY + MEMORY / 2, "round {round}: {memory} bytes");
    }
    assert!(script.receiver.stats().no_memory > 1000);
    let mut read = script.read().len() as u64;
    // Packets behind the refused one may be buffered.
    script.data(script.receiver.rcv_nxt(), &PAYLOAD);
    script.fin(script.receiver.rcv_nxt());
    read += script.read().len() as u64;
    assert_eq!(read, script.receiver.rcv_nxt() * 1000);
    assert!(matches!(script.events()[..], [.., ReceiverEvent::Finished { .. }]));
}
