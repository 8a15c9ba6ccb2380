//! Share of a path's rate that one transfer uses. An overhead of 28 bytes counts the IP and UDP
//! headers; with 0 only UDP payload counts.

use super::*;

/// Path, controller and loss rate of one measurement.
struct Case {
    name: &'static str,
    run: Run,
    loss: f64,
}

impl Case {
    fn new(name: &'static str, congestion: Algorithm, run: Run, loss: f64, overhead: u32) -> Self {
        let mut run = run.loss(bernoulli(loss)).config(native(congestion));
        run.path.forward.overhead = overhead;
        run.path.reverse.overhead = overhead;
        Self { name, run, loss }
    }

    /// Largest possible payload rate of the path, bits per second.
    fn possible(&self) -> f64 {
        let config = &self.run.config;
        let wire = config.packet_size as f64 + f64::from(self.run.path.forward.overhead);
        let rate = self.run.path.forward.rate.unwrap().as_bps_f64();
        rate * config.payload_size() as f64 / wire * (1.0 - self.loss)
    }

    /// Runs it for `time`, handshake included. Returns the share of the possible rate, and the
    /// retransmissions in excess of losses.
    fn measure(&self, time: Duration) -> (f64, f64) {
        let done = self.run.run_for(time);
        let share = done.goodput() / self.possible();
        let new = done.stats.snd_nxt as f64;
        let sent = (new + done.stats.retransmitted_bytes as f64) / (new / (1.0 - self.loss));
        let SenderStats { recoveries, timeouts, spurious, lost, probes, .. } = done.stats;
        eprintln!(
            "{:8} {:4.1} % loss, overhead {:2}: {:.3} of what is possible, {sent:.3} of what is necessary \
             sent; {lost} lost in {recoveries} recoveries, {timeouts} timeouts, {probes} probes, \
             {spurious} spurious",
            self.name,
            self.loss * 100.0,
            self.run.path.forward.overhead,
            share
        );
        (share, sent)
    }

    fn assert(&self, time: Duration, share: f64) {
        let (reached, sent) = self.measure(time);
        assert!(reached >= share, "{} at {}: {reached}", self.name, self.loss);
        assert!(sent < 1.1, "{} at {}: {sent}", self.name, self.loss);
    }
}

fn hundred() -> Run {
    Run::new(100_000_000, ms(100))
}

/// 1.25 bandwidth-delay products of [`hundred`], packets.
const WINDOW: u32 = 1061;

#[test]
fn bbr_fills_100_mbps_at_any_loss() {
    for loss in [0.0, 0.001, 0.01, 0.05] {
        Case::new("bbr", Algorithm::Bbr, hundred(), loss, IP_UDP).assert(secs(60), 0.95);
    }
}

#[test]
fn fixed_window_above_bdp_fills_path() {
    Case::new("fixed", Algorithm::Fixed(WINDOW), hundred(), 0.01, IP_UDP).assert(secs(60), 0.95);
}

#[test]
fn cubic_fills_lossless_path() {
    Case::new("cubic", Algorithm::Cubic, hundred(), 0.0, IP_UDP).assert(secs(60), 0.95);
}

#[test]
fn bbr_fills_gigabit_with_sparse_loss() {
    let run = Run::new(1_000_000_000, ms(20));
    Case::new("bbr", Algorithm::Bbr, run, 0.001, IP_UDP).assert(secs(10), 0.95);
}

fn measure_for_a_minute(overhead: u32) {
    for loss in [0.0, 0.001, 0.01, 0.05] {
        Case::new("bbr", Algorithm::Bbr, hundred(), loss, overhead).assert(secs(60), 0.95);
        Case::new("fixed", Algorithm::Fixed(WINDOW), hundred(), loss, overhead).assert(secs(60), 0.95);
    }
    Case::new("cubic", Algorithm::Cubic, hundred(), 0.0, overhead).assert(secs(60), 0.95);
    let run = Run::new(1_000_000_000, ms(20));
    Case::new("bbr", Algorithm::Bbr, run, 0.001, overhead).assert(secs(60), 0.95);
}

#[test]
#[ignore = "takes a minute unless built with --release"]
fn every_measurement_for_a_minute() {
    measure_for_a_minute(0);
}

#[test]
#[ignore = "takes a minute unless built with --release"]
fn every_measurement_for_a_minute_with_headers() {
    measure_for_a_minute(IP_UDP);
}

/// Loss rate, and the share of the link's rate that the best of the other transports reaches with
/// 150 MB (about 13 s), headers included. None of them proves the address of the sender first.
const OTHERS: [(f64, f64); 4] = [(0.0, 0.915), (0.001, 0.908), (0.01, 0.895), (0.05, 0.822)];

/// Payload of 150 MB as shares of the link's rate: from the SYN with a cookie to the FIN-ACK, and
/// from the first data packet to the last ACK. A later connection has its cookie from the start.
fn start_up(loss: f64, overhead: u32, seed: u64) -> (f64, f64) {
    let mut case = Case::new("bbr", Algorithm::Bbr, hundred().bytes(150_000_000), loss, overhead);
    case.run.seed = seed;
    let done = case.run.run();
    let open = done.stats.elapsed();
    let with_cookie = done.took.saturating_sub(ms(100));
    (12.0 / with_cookie.as_secs_f64(), 12.0 / open.as_secs_f64())
}

#[test]
fn thirteen_second_transfer_beats_other_transports() {
    for (loss, others) in OTHERS {
        let mut shares: Vec<f64> = (1..=5).map(|seed| start_up(loss, IP_UDP, seed).0).collect();
        shares.sort_by(f64::total_cmp);
        let median = shares[2];
        let all: Vec<String> = shares.iter().map(|share| format!("{share:.4}")).collect();
        eprintln!(
            "{:4.1} % loss: {median:.4} of the link ({}), others {others}",
            loss * 100.0,
            all.join(", ")
        );
        assert!(median > others, "{loss}: {shares:?}");
    }
}

#[test]
#[ignore = "a table, for reading"]
fn thirteen_second_transfer_with_and_without_headers() {
    for (loss, others) in OTHERS {
        for overhead in [0, IP_UDP] {
            let shares = (1..=5).map(|seed| start_up(loss, overhead, seed));
            let shares: Vec<String> = shares.map(|(all, open)| format!("{all:.3} ({open:.3})")).collect();
            eprintln!(
                "{:4.1} % loss, overhead {overhead:2}, others {others}: {}",
                loss * 100.0,
                shares.join(", ")
            );
        }
    }
}

#[test]
fn cold_start_fills_satellite_link() {
    // Both limits include the round trip of the handshake.
    let clean = [(Loss::None, 5.5)].into_iter();
    for (loss, limit) in clean.chain((60..=68).map(|n| (Loss::every_nth(n), 7.5))) {
        for overhead in [0, IP_UDP] {
            let run = Run::new(250_000_000, ms(600)).bytes(100_000_000).loss(loss.clone());
            let done = run.forward(|link| link.overhead(overhead)).run();
            // From the first SYN to the FIN-ACK.
            let reached = done.took.as_secs_f64();
            let window = done.stats.waited.peer_window.as_secs_f64();
            // Headers take their share of the rate.
            let limit = limit * (1472.0 + f64::from(overhead)) / 1472.0;
            eprintln!(
                "100 MB, {loss:?}, overhead {overhead:2}: {reached:.2} s of {limit:.2}, {window:.2} s for the window"
            );
            assert!(reached <= limit, "{loss:?}, overhead {overhead}: {reached} s of {limit}");
        }
    }
}
