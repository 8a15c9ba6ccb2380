//! Published trace of a sender of a university course (W 10, RTT 0.1 s, 2^14 words, 1000 Mbps),
//! replayed in virtual time. The trace was taken over the Internet from a program that slept
//! between packets, so its times jitter by milliseconds. The order of packets and ACKs, the windows
//! and the RTT in which each packet leaves are exact.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rdt::sim::{Outcome, Scenario};
use rdt::{Observer, Trace};

const TRACE: &str = include_str!("golden/window-10-rtt-100ms.csv");
/// Smallest gap between two rounds, s. Rounds are 100 ms apart; within a round the events of the
/// trace are closer together.
const ROUND_GAP: f64 = 0.05;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Data,
    Ack { window: u64 },
}

#[derive(Debug, Clone, Copy)]
struct Event {
    time_s: f64,
    kind: Kind,
    number: u64,
}

#[derive(Clone)]
struct Recorder {
    epoch: Instant,
    events: Arc<Mutex<Vec<Event>>>,
}

impl Observer for Recorder {
    fn on(&mut self, now: Instant, trace: &Trace) {
        let (kind, number) = match *trace {
            Trace::DataSent { seq, .. } => (Kind::Data, seq),
            Trace::AckReceived { ack, window, .. } => (Kind::Ack { window }, ack),
            _ => return,
        };
        let time_s = (now - self.epoch).as_secs_f64();
        self.events.lock().unwrap().push(Event { time_s, kind, number });
    }
}

fn published() -> Vec<Event> {
    let parse = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        let kind = match cells[1] {
            "data" => Kind::Data,
            _ => Kind::Ack { window: cells[3].parse().unwrap() },
        };
        Event { time_s: cells[0].parse().unwrap(), kind, number: cells[2].parse().unwrap() }
    };
    TRACE.lines().skip(1).map(parse).collect()
}

fn replay() -> (Vec<Event>, rdt::transport::SenderStats, Outcome) {
    let (mut simulation, sender, _) = Scenario::default().prepare();
    let recorder = Recorder { epoch: simulation.epoch(), events: Arc::default() };
    simulation.sender_mut(sender).observe(Box::new(recorder.clone()));
    assert!(simulation.run_senders(Duration::from_secs(10)));
    let node = simulation.sender(sender);
    let events = recorder.events.lock().unwrap().clone();
    (events, node.stats(), node.outcome.clone())
}

/// Sequence numbers of data or of ACKs, split into rounds.
fn rounds(events: &[Event], data: bool) -> Vec<Vec<u64>> {
    let mut rounds: Vec<Vec<u64>> = Vec::new();
    let mut last = f64::NEG_INFINITY;
    for event in events {
        if event.time_s - last > ROUND_GAP {
            rounds.push(Vec::new());
        }
        last = event.time_s;
        if data == (event.kind == Kind::Data) {
            rounds.last_mut().unwrap().push(event.number);
        }
    }
    rounds
}

#[test]
fn sends_acks_and_windows_match_published_trace() {
    let (ours, _, outcome) = replay();
    assert_eq!(outcome, Outcome::Finished { crc: Some(0xFC19_A074) });
    let kind = |events: &[Event], data| {
        let of_kind = events.iter().filter(|e| data == (e.kind == Kind::Data));
        of_kind.map(|e| (e.kind, e.number)).collect::<Vec<_>>()
    };
    let theirs = published();
    assert_eq!(kind(&ours, true), kind(&theirs, true), "45 packets in order, each once");
    assert_eq!(kind(&ours, false), kind(&theirs, false), "45 ACKs in order, each with its window");
}

#[test]
fn packets_leave_in_published_round_trips() {
    let (ours, _, _) = replay();
    let theirs = published();
    assert_eq!(rounds(&ours, true), rounds(&theirs, true));
    assert_eq!(rounds(&ours, false), rounds(&theirs, false));
}

/// Independent model, packet by packet: each packet leaves with the ACK that permits it. The link
/// serialises 1472 (the last time 1128) bytes forward and 12 back at 1 Gbit/s. The receiver's
/// window after ACK n is n.
#[test]
fn duration_matches_model() {
    let wire_ns = |bytes: u64| bytes * 8;
    let (half_rtt_forward, half_rtt_reverse) = (50_000_000_u64, 50_000_000_u64);
    let (mut link_free, mut back_free) = (0, 0);
    let mut ack_at: Vec<u64> = Vec::new();
    for packet in 0..45_u64 {
        // Packet p may leave at the first ACK n with n + min(10, n) > p, or at once if 0 + 1 > p.
        let permit = (0..=packet).find(|&n| n + n.clamp(1, 10) > packet).unwrap();
        let sent = if permit == 0 { 0 } else { ack_at[usize::try_from(permit).unwrap() - 1] };
        let bytes = if packet == 44 { 1128 } else { 1472 };
        link_free = link_free.max(sent) + wire_ns(bytes);
        let arrived = link_free + half_rtt_forward;
        back_free = back_free.max(arrived) + wire_ns(12);
        ack_at.push(back_free + half_rtt_reverse);
    }
    let model = Duration::from_nanos(*ack_at.last().unwrap());
    let (_, stats, _) = replay();
    let off = stats.elapsed().abs_diff(model);
    assert!(off < Duration::from_millis(1), "took {:?}, the model gives {model:?}", stats.elapsed());
    // The published program took 0.845 s: eight RTTs and 1 ms of printing per packet.
    assert!(stats.elapsed() < Duration::from_millis(845));
}
