//! ACKs that reopen a window, repeated until a packet arrives.

use super::*;

const MSS: u64 = 1000;
/// Largest window, in bytes.
const WINDOW: u64 = 20 * MSS;

/// Returns the windows that the receiver offers now.
fn told(script: &mut Script) -> Vec<u64> {
    script.native_acks().iter().map(|(ack, _)| ack.window).collect()
}

fn data(script: &mut Script, number: u64) {
    script.native_data(number, number * MSS, &[7; 1000], true);
}

/// A receiver whose window is full at 0 ms; its application reads everything at 5000 ms.
fn opened() -> Script {
    let stream_window = WindowConfig { initial: WINDOW, max: WINDOW, mss: MSS };
    let mut script = Script::native(ReceiverConfig { stream_window, ..keeping() });
    for number in 0..WINDOW / MSS {
        data(&mut script, number);
    }
    assert_eq!(told(&mut script).last(), Some(&0));
    assert_eq!(script.receiver.deadline(), None, "a closed window is not repeated");
    script.at(5000);
    script.receiver.consume(script.receiver.data().len());
    assert_eq!(told(&mut script), [WINDOW]);
    script
}

#[test]
fn reopening_ack_is_repeated_four_times() {
    let mut script = opened();
    let mut times = Vec::new();
    while let Some(at) = script.receiver.deadline() {
        script.now = at;
        assert_eq!(told(&mut script), [WINDOW]);
        times.push((at - script.epoch).as_millis());
    }
    assert_eq!(times, [5200, 5600, 6400, 8000]);
}

#[test]
fn arriving_packet_stops_reopening_acks() {
    let mut script = opened();
    script.at(5100);
    data(&mut script, WINDOW / MSS);
    told(&mut script);
    assert_eq!(script.receiver.deadline(), None);
}
