//! Paths whose reverse rate is a hundredth of the forward rate, or less. The size of a packet
//! includes its IP and UDP headers. The forward queue has room for one bandwidth-delay product, the
//! reverse queue for 50 ms of its rate and at least 20 ACKs of 100 bytes.

use std::time::Duration;

use rdt::congestion::Algorithm;
use rdt::emulator::{Bitrate, Loss, PathConfig, QueueLimit};

use crate::run::{Run, native, path};
use crate::verdict;

/// Minimum size of the reverse queue, bytes.
const LEAST_QUEUE: u64 = 20 * 100;
/// 10^6, for bits per second and for bytes.
const M: u64 = 1_000_000;
/// Time after which a transfer counts as failed.
const LIMIT: Duration = Duration::from_secs(600);

/// Target of a transfer, including handshake and FIN.
#[derive(Clone, Copy)]
enum Asked {
    /// Minimum payload rate, Mbit/s.
    Rate(f64),
    /// Maximum duration, s.
    Time(f64),
    /// No target.
    Nothing,
}

struct Case {
    name: &'static str,
    /// Rates of the forward and the reverse link, bits per second.
    rates: [u64; 2],
    rtt: Duration,
    /// Number of data packets of which one is lost; 0 for no loss.
    loses_each: u64,
    bytes: u64,
    asked: Asked,
}

fn asymmetric(case: &Case) -> PathConfig {
    let [there, back] = case.rates;
    let mut config = path(there, case.rtt, 1.0);
    config.reverse.rate = Some(Bitrate::from_bps(back));
    config.reverse.queue = QueueLimit::bytes((back / 8 / 20).max(LEAST_QUEUE));
    if case.loses_each > 0 {
        config.forward.loss = Loss::every_nth(case.loses_each);
    }
    config
}

fn row(case: &Case, congestion: Algorithm) {
    let mut run = Run::new(asymmetric(case), native(congestion));
    run.bytes = case.bytes;
    let mut running = run.start();
    running.simulation.run_senders(LIMIT);
    let node = running.simulation.sender(running.senders[0]);
    let finished = node.outcome.is_finished();
    let seconds = node.ended_at.map_or(f64::NAN, |at| (at - running.simulation.epoch()).as_secs_f64());
    let stats = node.stats();
    let wire = running.simulation.wire(running.wire);
    let (there, back) = (wire.forward.ledger(), wire.reverse.ledger());
    #[expect(clippy::cast_precision_loss, reason = "fewer than 2^53")]
    let (bytes, packets, acks, ack_bytes) =
        (case.bytes as f64, there.sent as f64, back.sent as f64, back.sent_bytes as f64);
    let mbps = bytes * 8.0 / seconds / 1e6;
    let asked = if congestion == Algorithm::Cubic && case.rtt > Duration::from_millis(100) {
        Asked::Nothing
    } else {
        case.asked
    };
    let (asked, met) = match asked {
        Asked::Rate(least) => (format!("{least} Mbit/s"), finished && mbps >= least),
        Asked::Time(most) => (format!("{most} s"), finished && seconds <= most),
        Asked::Nothing => (String::new(), finished),
    };
    println!(
        "| {}, {congestion} | {seconds:.2} | {mbps:.1} | {:.1} | {:.0} | {} | {} / {} | {asked} | {} |",
        case.name,
        packets / acks,
        ack_bytes / acks,
        back.dropped_queue,
        stats.retransmitted,
        there.dropped_queue + there.dropped_loss,
        verdict(met)
    );
}

pub(crate) fn table() {
    println!(
        "\n| way there and back, controller | s | Mbit/s | packets an ACK | bytes an ACK | ACKs dropped | sent again / lost | \
         asked | |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let ms = Duration::from_millis;
    let case =
        |name, rates, rtt, loses_each, bytes, asked| Case { name, rates, rtt, loses_each, bytes, asked };
    let cases = [
        case("100 : 100 Mbit/s, 40 ms", [100 * M, 100 * M], ms(40), 0, 200 * M, Asked::Rate(90.0)),
        case("100 : 1 Mbit/s, 40 ms", [100 * M, M], ms(40), 0, 200 * M, Asked::Rate(90.0)),
        case("100 : 0.25 Mbit/s, 40 ms", [100 * M, M / 4], ms(40), 0, 200 * M, Asked::Rate(60.0)),
        case("100 : 0.1 Mbit/s, 40 ms", [100 * M, M / 10], ms(40), 0, 200 * M, Asked::Nothing),
        case("100 : 1 Mbit/s, 40 ms, 1 in 64 lost", [100 * M, M], ms(40), 64, 200 * M, Asked::Nothing),
        case("100 : 0.25 Mbit/s, 40 ms, 1 in 64 lost", [100 * M, M / 4], ms(40), 64, 200 * M, Asked::Nothing),
        case("250 : 250 Mbit/s, 600 ms", [250 * M, 250 * M], ms(600), 0, 100 * M, Asked::Nothing),
        case("250 : 3 Mbit/s, 600 ms", [250 * M, 3 * M], ms(600), 0, 100 * M, Asked::Time(5.5)),
        case(
            "250 : 3 Mbit/s, 600 ms, 1 in 64 lost",
            [250 * M, 3 * M],
            ms(600),
            64,
            100 * M,
            Asked::Time(7.5),
        ),
    ];
    for congestion in [Algorithm::Bbr, Algorithm::Cubic] {
        // One loss in 64 packets limits CUBIC to a small part of these rates, whatever the reverse
        // link.
        let fit = |case: &&Case| case.loses_each == 0 || congestion == Algorithm::Bbr;
        cases.iter().filter(fit).for_each(|case| row(case, congestion));
    }
}
