//! What limited real transfers in virtual time, and transfers of invented counters where virtual
//! time has no such limit.

use rdt_emulator::{Bitrate, Loss, Path, PathConfig, Probability, QueueSize};
use rdt_server::{LinkMode, ServerConfig};
use rdt_sim::{Application, Outcome, ReadPolicy, Simulation};
use rdt_testing::ms;
use rdt_transport::wire::native::LinkRequest;
use rdt_transport::{LinkProperties, ReceiverConfig, Waited};
use rdt_udp::clock;

use super::*;

/// A transfer in virtual time, by default of 2 MB by BBR.
#[derive(Clone)]
struct Run {
    config: SenderConfig,
    /// Path; `None` for the link that the sender requests.
    path: Option<PathConfig>,
    application: Application,
    reading: Option<ReadPolicy>,
    /// Largest window of the receiver, bytes.
    rwnd: Option<u64>,
}

impl Run {
    fn new(config: SenderConfig) -> Self {
        Self { config, path: None, application: Application::transfer(2_000_000), reading: None, rwnd: None }
    }

    /// A transfer over the link that the sender requests.
    fn over_link(rtt_ms: u32, rate_mbit: u64, loss: f64) -> Self {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a billion")]
        let link = LinkRequest {
            rtt_us: rtt_ms * 1000,
            rate_bps: rate_mbit * 1_000_000,
            loss_forward_ppb: (loss * 1e9) as u32,
            loss_reverse_ppb: 0,
            queue_bytes: (u64::from(rtt_ms) * rate_mbit * 125).max(60_000),
        };
        Self::new(SenderConfig { link_request: Some(link), ..SenderConfig::native(7) })
    }

    /// A transfer over a path of which the sender knows nothing.
    fn over_path(rtt_ms: u64, rate_mbit: u64, loss: f64) -> Self {
        let path = PathConfig::symmetric(ms(rtt_ms), Bitrate::from_bps(rate_mbit * 1_000_000));
        let mut path = path.queue_size(QueueSize::BdpMillionths(2_000_000));
        path.forward = path.forward.loss(Loss::Bernoulli(Probability::new(loss).unwrap()));
        Self { path: Some(path), ..Self::new(SenderConfig::native(7)) }
    }

    /// A transfer in the classic format: `rdt-send local W RTT 0 RATE`.
    fn classic(window: u32, rtt_s: f32, rate_mbit: f32) -> Self {
        let speed_bps = rate_mbit * 1e6;
        let link =
            LinkProperties { rtt_s, speed_bps, loss_forward: 0.0, loss_reverse: 0.0, buffer: window + 1 };
        Self::new(SenderConfig::new(window, link))
    }

    fn bytes(self, bytes: u64) -> Self {
        Self { application: Application::transfer(bytes), ..self }
    }

    fn by(self, congestion: Algorithm) -> Self {
        Self { config: SenderConfig { congestion, ..self.config }, ..self }
    }

    fn max_rate(self, mbit: u64) -> Self {
        Self { config: SenderConfig { max_rate: Some(mbit * 125_000), ..self.config }, ..self }
    }

    fn written_at(mut self, mbit: u64) -> Self {
        self.application.rate = Some(mbit * 1_000_000);
        self
    }

    fn read_at(self, mbit: u64) -> Self {
        Self { reading: Some(ReadPolicy::AtRate(mbit * 125_000)), ..self }
    }

    fn rwnd(self, bytes: u64) -> Self {
        Self { rwnd: Some(bytes), ..self }
    }

    fn stats(&self) -> SenderStats {
        let mode = if self.path.is_some() { LinkMode::None } else { LinkMode::Emulated { seed: 1 } };
        let keep_payload = self.reading.is_some();
        let receiver = ReceiverConfig { keep_payload, ..ReceiverConfig::reference() };
        let mut server = ServerConfig::new(receiver, mode);
        if let Some(rwnd) = self.rwnd {
            server.receiver.stream_window.max = rwnd;
        }
        let mut simulation = Simulation::new();
        let server = simulation.add_server(server);
        let sender = simulation.add_application(self.config.clone(), server, self.application).unwrap();
        if let Some(path) = &self.path {
            let wire = simulation.add_wire(Path::new(path.clone(), 1));
            simulation.route(sender, server, wire);
        }
        if let Some(policy) = self.reading {
            simulation.set_read_policy(server, policy);
        }
        simulation.run_senders(Duration::from_secs(3600));
        let node = simulation.sender(sender);
        assert!(matches!(node.outcome, Outcome::Finished { .. }), "{:?}", node.outcome);
        node.stats()
    }
}

/// Asserts the name of the limit, and words of its sentence, of each run.
fn check(cases: &[(Run, &str, &str)]) {
    let mut wrong = Vec::new();
    for (run, name, words) in cases {
        let stats = run.stats();
        let limited = Limited::of(&run.config, &stats).unwrap();
        let (found, sentence) = (limited.name(), limited.sentence());
        if found != *name || !sentence.contains(words) || !(0.3..=1.0).contains(&limited.share) {
            wrong.push(format!("{name}, {words:?}: {found}, {sentence:?} of {stats:?}\n"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.concat());
}

#[test]
fn windows_are_named_with_their_losses() {
    let fixed = Algorithm::Fixed(4);
    check(&[
        (Run::over_path(50, 100, 0.0).by(fixed), "window", "its window of 4 packets for "),
        (Run::classic(10, 0.05, 100.0), "window", "its window of 10 packets for "),
        (Run::over_path(50, 100, 0.02).by(Algorithm::Fixed(8)), "window", "packets were sent again"),
        (Run::over_path(50, 100, 0.02).by(Algorithm::Reno), "congestion_window", "losses or marks reduced"),
        (Run::over_path(50, 100, 0.02).by(Algorithm::Cubic), "congestion_window", "losses or marks reduced"),
    ]);
}

#[test]
fn unpaced_window_is_named_with_its_losses() {
    let mut reno = Run::over_path(50, 100, 0.02).by(Algorithm::Reno);
    reno.config.pacing = false;
    check(&[(reno, "congestion_window", "losses or marks reduced, for ")]);
}

#[test]
fn link_is_named_by_rate_or_queue() {
    check(&[
        (Run::over_link(10, 2, 0.0).bytes(200_000), "link", "the link for "),
        (Run::over_link(50, 50, 0.0).bytes(9_000_000), "link", "the link for "),
        (Run::over_path(50, 10, 0.0).bytes(5_000_000), "link", "the path's rate"),
        (Run::over_path(50, 10, 0.0).by(Algorithm::Reno), "link", "a round trip that rose from 5"),
        (Run::over_path(50, 10, 0.0).by(Algorithm::Cubic), "link", "a round trip that rose from 5"),
        (Run::over_path(50, 10, 0.0).by(Algorithm::Fixed(90)), "link", "a round trip that rose from 5"),
        // The receiver's window opens to thousands of packets, which wait in the link's queue.
        (Run::classic(5000, 0.1, 10.0).bytes(4_000_000), "link", "the link for "),
    ]);
}

#[test]
fn short_transfer_is_limited_by_round_trips() {
    check(&[
        (Run::over_link(200, 100, 0.0).bytes(300_000), "round_trips", "in which its window grew for "),
        (Run::over_path(200, 100, 0.0).bytes(300_000), "round_trips", "in which its window grew for "),
        (Run::over_path(50, 1000, 0.0).by(Algorithm::Cubic), "round_trips", "in which its window grew"),
        (Run::over_link(300, 1000, 0.0).bytes(10_000), "round_trips", "by 1 round trip"),
        (Run::over_path(300, 1000, 0.0).bytes(10_000), "round_trips", "by 1 round trip"),
        (Run::classic(100, 0.3, 1000.0).bytes(1000), "round_trips", "by 1 round trip"),
        // A tenth of the time is growth.
        (Run::over_path(50, 10, 0.0).bytes(5_000_000), "link", ""),
    ]);
}

#[test]
fn losses_that_slow_bbr_are_named() {
    let lossy = "packets were sent again, for ";
    check(&[
        (Run::over_link(50, 50, 0.05), "congestion_window", lossy),
        (Run::over_path(50, 50, 0.05), "congestion_window", lossy),
        // Less than nine tenths of the limit are reached.
        (Run::over_path(50, 50, 0.1).max_rate(20), "pacing", lossy),
    ]);
}

#[test]
fn limit_of_option_receiver_and_input_is_named() {
    check(&[
        (Run::over_path(20, 50, 0.0).max_rate(5), "max_rate", "--max-rate 5mbit for "),
        (Run::classic(100, 0.02, 100.0).max_rate(5), "max_rate", "--max-rate 5mbit for "),
        (Run::over_path(50, 100, 0.0).rwnd(30_000), "receiver_window", "more --rwnd"),
        (Run::over_path(20, 100, 0.0).rwnd(200_000).read_at(20), "receiver_window", "stores faster"),
        (Run::classic(5000, 0.1, 1000.0), "receiver_window", "which doubles from one packet"),
        (Run::over_path(20, 100, 0.0).written_at(2), "application", "its input for "),
        (Run::classic(100, 0.02, 100.0).written_at(2), "application", "its input for "),
    ]);
}

fn limited(config: &SenderConfig, waited: Waited, elapsed: u64) -> Option<(&'static str, u32)> {
    let start = clock::now();
    let stats = SenderStats {
        waited,
        first_data_at: Some(start),
        last_ack_at: Some(start + ms(elapsed)),
        ..SenderStats::default()
    };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 100")]
    Limited::of(config, &stats).map(|limited| (limited.name(), (limited.share * 100.0) as u32))
}

#[test]
fn rest_of_time_is_of_host() {
    let config = SenderConfig::native(0);
    let waited = Waited { application: ms(300), ..Waited::default() };
    assert_eq!(limited(&config, waited, 1000), Some(("host", 70)));
    assert_eq!(limited(&config, waited, 99), None, "too short");
}

#[test]
fn limit_of_several_is_weighted_by_time() {
    let config = SenderConfig { congestion: Algorithm::Fixed(4), ..SenderConfig::native(0) };
    let one = |waited: Waited, time: u64, retransmitted: u64| {
        let start = clock::now();
        let stats = SenderStats {
            waited,
            retransmitted,
            recoveries: retransmitted,
            first_data_at: Some(start),
            last_ack_at: Some(start + ms(time)),
            ..SenderStats::default()
        };
        (Limited::of(&config, &stats), ms(time))
    };
    let window = |time| Waited { cwnd: ms(time), ..Waited::default() };
    let input = |time| Waited { application: ms(time), ..Waited::default() };
    // Two short transfers wait 2 * 400 ms for their input, a long one 1200 ms for its window.
    let all = [one(input(400), 500, 0), one(input(400), 500, 0), one(window(1200), 2000, 7)];
    let limited = Limited::of_several(&all).unwrap();
    assert!(limited.name() == "window" && (limited.share - 0.4).abs() < 1e-9, "{limited:?}");
    let sentence = limited.sentence();
    assert!(sentence.contains("7 packets were sent again, for 40 % of the time, in 1 of 3 "), "{sentence}");
    let all =
        [one(input(400), 500, 0), one(window(1200), 2000, 7), one(window(300), 400, 2), one(input(9), 90, 0)];
    let sentence = Limited::of_several(&all).unwrap().sentence();
    assert!(sentence.contains("9 packets were sent again, for 50 % of the time, in 2 of 4 "), "{sentence}");
    assert_eq!(Limited::of_several(&[one(input(9), 90, 0)]), None, "too short");
    assert_eq!(Limited::of_several(&[]), None);
}

#[test]
fn kernel_sentences_name_its_options() {
    let config = SenderConfig { congestion: Algorithm::Cubic, ..SenderConfig::native(0) };
    let sentence = |waited: Waited, retransmitted: u64| {
        let start = clock::now();
        let stats = SenderStats {
            waited,
            retransmitted,
            first_data_at: Some(start),
            last_ack_at: Some(start + ms(1000)),
            ..SenderStats::default()
        };
        Limited::of(&config, &stats).unwrap().sentence_of_kernel()
    };
    let cwnd = Waited { cwnd: ms(800), ..Waited::default() };
    assert!(sentence(cwnd, 7).contains("while 7 packets were sent again for 80 %"));
    assert!(sentence(cwnd, 0).contains("nothing was sent again"));
    let window = Waited { peer_window: ms(800), ..Waited::default() };
    let sentence = sentence(window, 0);
    assert!(sentence.contains("--socket-buffer") && !sentence.contains("--rwnd"), "{sentence}");
}
