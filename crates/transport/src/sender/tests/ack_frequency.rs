//! ACK frequency that data packets request.

use super::native::{MSS, ack, answer_to, connected_to, piece, recv_ack_after, small};
use super::*;
use crate::wire::native::{self, Params};
use crate::{LossDetection, SenderConfig};

/// Returns the ACK frequencies that the packets of a first flight of `window` packets request, on a
/// path of 100 ms.
fn asked(window: u32, change: impl FnOnce(&mut SenderConfig)) -> Vec<u16> {
    let mut config = SenderConfig {
        congestion: Algorithm::Fixed(window),
        initial_window: window,
        window,
        pacing: true,
        ..small()
    };
    change(&mut config);
    let mut script = connected_to(config, Params::default());
    let bytes = 1 << 20;
    let mut sent = 0;
    let mut asked = Vec::new();
    for at in 100..1100 {
        if sent < bytes {
            sent += script.sender.write(&vec![0; bytes - sent]).unwrap();
        }
        asked.extend(script.at(at).datagrams().iter().map(|datagram| piece(datagram).ack_every));
        if asked.len() >= window as usize {
            break;
        }
    }
    asked.truncate(window as usize);
    asked
}

#[test]
fn each_packet_asks_by_what_is_in_flight() {
    let asked = asked(2000, |_| {});
    for (at, every) in [(0, 0), (63, 0), (64, 4), (79, 4), (80, 5), (1023, 63), (1024, 64), (1999, 64)] {
        assert_eq!(asked[at], every, "with {at} packets in flight");
    }
}

#[test]
fn hystart_gets_samples_early_in_round() {
    let asked = asked(1000, |config| config.congestion = Algorithm::Cubic);
    assert_eq!(asked, vec![0; 1000], "no sample yet");
}

#[test]
fn small_windows_ask_for_each_packet() {
    for (window, every) in [(15, 1), (16, 0)] {
        assert_eq!(asked(window, |_| {}), vec![every; window as usize], "a window of {window}");
    }
}

/// A quarter of the round trip of 100 ms.
#[test]
fn slow_way_back_gets_few_acks() {
    for (took, every) in [(0, 0), (24, 0), (26, 4)] {
        let mut script = connected_to(
            SenderConfig {
                congestion: Algorithm::Fixed(40),
                initial_window: 40,
                window: 40,
                pacing: true,
                ..small()
            },
            Params::default(),
        );
        script.sender.write(&vec![0; 100_000]).unwrap();
        let sent: usize = (100..200).map(|at| script.at(at).datagrams().len()).sum();
        assert_eq!(sent, 40);
        ack(script.at(200), 0, 1, &[]);
        script.datagrams();
        let second = native::Ack { ack: 2 * MSS, window: 1 << 20, ..answer_to(1) };
        recv_ack_after(script.at(200 + took), ms(took), &second, &[]);
        let asked: Vec<u16> = script.datagrams().iter().map(|datagram| piece(datagram).ack_every).collect();
        assert_eq!(asked, [every], "{took} ms longer than the fastest");
    }
}

#[test]
fn trains_of_a_long_start_get_several_acks() {
    let asked = asked(200, |config| config.congestion = Algorithm::Bbr);
    for (at, every) in [(3, 0), (4, 4), (199, 4)] {
        assert_eq!(asked[at], every, "with {at} packets in flight");
    }
}

#[test]
fn rules_that_count_duplicates_ask_for_nothing() {
    for (recovery, asks) in [
        (LossDetection::Rack, true),
        (LossDetection::Sack, true),
        (LossDetection::NewReno, false),
        (LossDetection::BaseOnly, false),
    ] {
        let asked = asked(200, |config| config.recovery = recovery);
        assert_eq!(asked.iter().any(|every| *every > 0), asks, "{recovery}");
    }
}

#[test]
fn bursts_are_no_longer_than_before_without_pacing() {
    let asked = asked(200, |config| config.pacing = false);
    assert!(asked.iter().all(|every| *every == 0), "{asked:?}");
}
