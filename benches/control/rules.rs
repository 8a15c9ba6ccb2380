//! Recovery algorithms over 99 s with random loss: 8 Mbit/s, 10 ms, a queue of 50 packets, Reno
//! without pacing, as in kernel TCP.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rdt::congestion::Algorithm;
use rdt::emulator::{Loss, Probability, QueueLimit};
use rdt::transport::LossDetection;
use rdt::{Observer, SenderConfig, Trace};

use crate::run::{Run, native, path};
use crate::verdict;

const SPAN: Duration = Duration::from_secs(99);

/// Observer that records the longest time between two advances of the cumulative ACK, and the
/// longest RTO.
#[derive(Clone, Default)]
struct Standstill(Arc<Mutex<(Option<Instant>, Duration, Duration)>>);

impl Observer for Standstill {
    fn on(&mut self, now: Instant, trace: &Trace) {
        if let Trace::AckReceived { rto, .. } = trace {
            let mut longest = self.0.lock().expect("one thread");
            if let Some(before) = longest.0.replace(now) {
                longest.1 = longest.1.max(now - before);
            }
            longest.2 = longest.2.max(*rto);
        }
    }
}

pub(crate) fn table() {
    println!(
        "\n| 99 s, 8 Mbit/s, 10 ms, 50 packets, random loss | Mbit/s | sent again | lost | ratio, asked at most 1.1 | timeouts | longest standstill, s (longest RTO) | |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let rules = [LossDetection::Rack, LossDetection::Sack, LossDetection::NewReno, LossDetection::BaseOnly];
    for recovery in rules {
        for p in [0.001, 0.01, 0.025, 0.05, 0.1] {
            let config = SenderConfig { recovery, pacing: false, ..native(Algorithm::Reno) };
            let mut run = Run::new(path(8_000_000, Duration::from_millis(10), 1.0), config);
            run.path.forward.queue = QueueLimit::packets(50);
            run.path.forward.loss = Loss::Bernoulli(Probability::new(p).expect("below one"));
            let mut running = run.start();
            let standstill = Standstill::default();
            running.observe(0, Box::new(standstill.clone()));
            running.simulation.run_until(SPAN);
            let stats = running.stats(0);
            let ledger = running.simulation.wire(running.wire).forward.ledger();
            let lost = ledger.dropped_loss + ledger.dropped_queue;
            let ratio = stats.retransmitted as f64 / lost as f64;
            let counts = matches!(recovery, LossDetection::Rack | LossDetection::Sack);
            let longest = *standstill.0.lock().expect("one thread");
            println!(
                "| {recovery}, {:.1} % | {:.2} | {} | {lost} | {ratio:.2} | {} | {:.2} ({:.2}) | {} |",
                p * 100.0,
                stats.bytes_acked as f64 * 8.0 / SPAN.as_secs_f64() / 1e6,
                stats.retransmitted,
                stats.timeouts,
                longest.1.as_secs_f64(),
                longest.2.as_secs_f64(),
                verdict(!counts || ratio <= 1.1)
            );
        }
    }
}
