//! Reasons why nothing is sent: an application that filled all the room is called again before the
//! sender counts as app-limited.

use super::*;

/// Returns a classic sender whose window exceeds the room in its buffer.
fn wide() -> Script {
    let mut script = Script::new(config(8192));
    assert_eq!((fill(&mut script) > 0, script.sent()), (true, vec![Sent::Syn]));
    script.at(100).recv(&syn_ack(8192));
    script.events();
    script
}

/// Fills all the room, and returns the number of bytes.
fn fill(script: &mut Script) -> usize {
    let bytes = pattern(script.written, 1 << 20);
    let taken = script.sender.write(&bytes).unwrap();
    script.written += taken;
    taken
}

#[test]
fn sending_time_is_not_application_limited() {
    let mut script = wide();
    // Each turn takes a millisecond and sends all data, then the application is called again.
    for turn in 0..3 {
        script.at(100 + turn);
        fill(&mut script);
        assert!(script.data().len() > 2000, "turn {turn}");
    }
    assert_eq!(script.stats().waited, Waited::default());
    // The window is full, which is not the application's limit either.
    script.at(103);
    fill(&mut script);
    script.data();
    script.at(104).recv(&ack(1, 8192));
    script.data();
    let waited = script.stats().waited;
    assert_eq!((waited.application, waited.cwnd + waited.peer_window), (ms(0), ms(1)));
}

#[test]
fn idle_writer_is_application_limited() {
    let mut script = wide();
    fill(&mut script);
    script.data();
    // The application is called and fills a part of the room only, so it has no more data.
    script.at(101).write(1000);
    assert_eq!(script.data().len(), 10);
    script.at(109).write(1000);
    assert_eq!(script.data().len(), 10);
    assert_eq!(script.stats().waited.application, ms(8));
}

#[test]
fn unasked_application_is_application_limited() {
    let mut script = wide();
    fill(&mut script);
    script.data();
    for time in [102, 103, 112] {
        script.at(time);
        assert_eq!(script.data(), []);
    }
    script.write(1000);
    script.data();
    assert_eq!(script.stats().waited.application, ms(10), "from the next look on");
}
