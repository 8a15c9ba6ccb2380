//! qlog of transfers in virtual time, compared with the sender's statistics.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rdt_emulator::{Bitrate, Loss, Path, PathConfig, Probability, QueueLimit};
use rdt_server::{LinkMode, ServerConfig};
use rdt_sim::{Outcome, Scenario, Simulation};
use rdt_transport::congestion::Algorithm;
use rdt_transport::qlog::{Qlog, QlogConfig};
use rdt_transport::{LossDetection, ReceiverConfig, SenderConfig, SenderStats};
use serde_json::Value;

/// A shared file of limited size.
#[derive(Clone)]
struct Disk {
    bytes: Arc<Mutex<Vec<u8>>>,
    room: usize,
}

impl Disk {
    fn new(room: usize) -> Self {
        Self { bytes: Arc::default(), room }
    }
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut written = self.bytes.lock().expect("one thread");
        if written.len() + bytes.len() > self.room {
            return Err(io::ErrorKind::StorageFull.into());
        }
        written.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Traced {
    header: Value,
    events: Vec<Value>,
    stats: SenderStats,
    finished: io::Result<()>,
    elapsed: Duration,
}

impl Traced {
    fn named(&self, name: &str) -> Vec<&Value> {
        self.events.iter().filter(|event| event["name"] == name).map(|event| &event["data"]).collect()
    }

    /// Last value of a metric.
    fn last(&self, metric: &str) -> Option<&Value> {
        self.named("recovery:metrics_updated").iter().rev().find_map(|data| data.get(metric))
    }
}

/// Runs a simulation of one sender to its end and reads its qlog.
fn traced(mut simulation: Simulation, sender: rdt_sim::NodeId, room: usize) -> Traced {
    let disk = Disk::new(room);
    let config = QlogConfig {
        title: "a test".into(),
        epoch: simulation.epoch(),
        reference_time_ms: 0,
        peer: Some(([192, 0, 2, 1], 22345).into()),
        window_unit: 1,
    };
    let log = Qlog::new(disk.clone(), &config);
    simulation.sender_mut(sender).observe(Box::new(log.clone()));
    assert!(simulation.run_senders(Duration::from_secs(600)));
    let node = simulation.sender(sender);
    assert!(matches!(node.outcome, Outcome::Finished { .. }), "{:?}", node.outcome);
    let finished = log.finish();
    let text = String::from_utf8(disk.bytes.lock().expect("one thread").clone()).expect("UTF-8");
    let mut records = text.split('\x1e');
    assert_eq!(records.next(), Some(""), "a record begins with RS (RFC 7464)");
    let mut records = records.map(|record| {
        assert!(record.ends_with('\n'), "a record ends with LF: {record:?}");
        let value = serde_json::from_str::<Value>(record).expect("JSON");
        assert_eq!(value.to_string(), record.trim_end(), "members in order, numbers in their shortest form");
        value
    });
    let header = records.next().expect("a header");
    let (stats, elapsed) = (node.stats(), simulation.elapsed());
    Traced { header, events: records.collect(), stats, finished, elapsed }
}

/// 1 MB in the native format over 20 Mbps, 40 ms, with every 50th packet lost.
fn native(congestion: Algorithm, recovery: LossDetection) -> (Simulation, rdt_sim::NodeId) {
    let mut path = PathConfig::symmetric(Duration::from_millis(40), Bitrate::from_bps(20_000_000));
    path.forward.queue = QueueLimit::bytes(200_000);
    path.forward.loss = Loss::Bernoulli(Probability::new(0.02).expect("below 1"));
    let server = ServerConfig::new(ReceiverConfig::reference(), LinkMode::None);
    let mut simulation = Simulation::new();
    let server = simulation.add_server(server);
    let wire = simulation.add_wire(Path::new(path, 5));
    let config = SenderConfig { congestion, recovery, ..SenderConfig::native(7) };
    let sender = simulation.add_sender(config, server, 1_000_000).expect("a valid configuration");
    simulation.route(sender, server, wire);
    (simulation, sender)
}

fn classic() -> (Simulation, rdt_sim::NodeId) {
    let scenario = Scenario { loss_forward: 0.02, bytes: 200_000, seed: 2, ..Scenario::default() };
    let (simulation, sender, _) = scenario.prepare();
    (simulation, sender)
}

fn everything() -> [(&'static str, Traced); 4] {
    let run = |(simulation, sender)| traced(simulation, sender, usize::MAX);
    [
        ("BBR, RACK", run(native(Algorithm::Bbr, LossDetection::Rack))),
        ("CUBIC, SACK", run(native(Algorithm::Cubic, LossDetection::Sack))),
        ("Reno, NewReno", run(native(Algorithm::Reno, LossDetection::NewReno))),
        ("classic", run(classic())),
    ]
}

#[test]
fn counts_and_windows_match_sender_statistics() {
    for (name, run) in everything() {
        let count = |event| run.named(event).len() as u64;
        assert!(run.finished.is_ok());
        assert_eq!(count("transport:packet_sent"), run.stats.datagrams_sent, "{name}");
        assert_eq!(count("transport:packet_received"), run.stats.datagrams_received, "{name}");
        assert_eq!(count("recovery:packet_lost"), run.stats.lost, "{name}");
        assert_eq!(run.last("congestion_window"), Some(&run.stats.cwnd.into()), "{name}");
        assert_eq!(run.last("bytes_in_flight"), Some(&run.stats.in_flight.into()), "{name}");
        let resent = run.named("transport:packet_sent").iter().filter(|d| d.get("trigger").is_some()).count();
        assert_eq!(resent as u64, run.stats.retransmitted, "{name}");
        assert!(run.stats.retransmitted > 0, "{name}: the link loses packets");
        if name != "classic" {
            assert!(run.stats.lost > 0);
            let began = run.named("rdt:recovery_began");
            let by = |cause: &str| began.iter().filter(|data| data["cause"] == cause).count() as u64;
            assert_eq!((by("loss"), by("timeout")), (run.stats.recoveries, run.stats.timeouts), "{name}");
        }
    }
}

#[test]
fn times_are_virtual_and_monotonic() {
    for (name, run) in everything() {
        let times: Vec<f64> = run.events.iter().map(|event| event["time"].as_f64().unwrap()).collect();
        assert!(times.is_sorted(), "{name}");
        assert!(times[0].abs() < 1e-9, "{name}: the SYN leaves at 0");
        let end = run.elapsed.as_secs_f64() * 1e3;
        assert!((times.last().unwrap() - end).abs() < 1e-6, "{name}: the FIN-ACK ends it, at {end} ms");
    }
}

#[test]
fn records_have_required_fields() {
    for (name, run) in everything() {
        assert_eq!(run.header["qlog_version"], "0.3");
        assert_eq!(run.header["qlog_format"], "JSON-SEQ");
        assert_eq!(run.header["trace"]["vantage_point"]["type"], "client");
        assert_eq!(run.header["trace"]["common_fields"]["time_format"], "relative");
        for event in &run.events {
            assert_eq!(event.as_object().unwrap().len(), 3, "{name}: time, name, data: {event}");
            let (what, data) = (event["name"].as_str().unwrap(), &event["data"]);
            let required: &[&str] = match what {
                "connectivity:connection_started" => &["/src_ip", "/dst_ip"],
                "connectivity:connection_state_updated" | "recovery:congestion_state_updated" => &["/new"],
                "transport:packet_sent" | "transport:packet_received" => {
                    &["/header/packet_type", "/header/packet_number", "/raw/length"]
                }
                "recovery:packet_lost" => &["/header/packet_type", "/trigger"],
                "recovery:loss_timer_updated" => &["/timer_type", "/event_type"],
                _ => &[],
            };
            for field in required {
                assert!(
                    data.pointer(field).is_some_and(|value| !value.is_null()),
                    "{name}: {field} of {event}"
                );
            }
            let numbers = data.as_object().unwrap().values().filter_map(Value::as_f64);
            assert!(numbers.fold(0.0, f64::min) >= 0.0, "{name}: {event}");
            assert!(!event.to_string().contains("null"), "{name}: {event}");
        }
    }
}

#[test]
fn values_are_listed_in_schema() {
    // Values of draft-ietf-quic-qlog-quic-events-02, without those for QUIC alone.
    let listed: &[(&str, &str, &[&str])] = &[
        ("connectivity:connection_started", "/ip_version", &["v4", "v6"]),
        (
            "connectivity:connection_state_updated",
            "/new",
            &["attempted", "handshake_complete", "closing", "closed"],
        ),
        ("connectivity:connection_closed", "/owner", &["local", "remote"]),
        ("connectivity:connection_closed", "/trigger", &["clean", "idle_timeout", "error"]),
        ("transport:packet_sent", "/header/packet_type", &["initial", "1RTT"]),
        ("transport:packet_sent", "/trigger", &["retransmit_reordered", "retransmit_timeout", "pto_probe"]),
        ("transport:packet_received", "/header/packet_type", &["initial", "retry", "1RTT"]),
        ("transport:packet_dropped", "/trigger", &["header_parse_error"]),
        ("recovery:loss_timer_updated", "/timer_type", &["ack", "pto"]),
        ("recovery:loss_timer_updated", "/event_type", &["set", "expired", "cancelled"]),
        ("recovery:packet_lost", "/trigger", &["reordering_threshold", "time_threshold", "pto_expired"]),
    ];
    for (name, run) in everything() {
        assert!(run.header["trace"]["common_fields"]["protocol_type"].is_array());
        for &(event, field, values) in listed {
            for data in run.named(event) {
                let Some(value) = data.pointer(field) else { continue };
                assert!(values.iter().any(|listed| value == listed), "{name}: {field} of {event}: {value}");
            }
        }
        for data in run.events.iter().map(|event| &event["data"]) {
            assert_ne!(data["frames"], Value::Array(vec![]), "{name}: {data}");
            assert_ne!(data["frames"][0]["acked_ranges"], Value::Array(vec![]), "{name}: {data}");
        }
    }
}

/// Readers match packets by type and number.
#[test]
fn packet_numbers_are_unique_per_type() {
    for (name, run) in everything() {
        // A classic retransmission repeats the number.
        for event in ["transport:packet_sent", "transport:packet_received"] {
            let packets = run.named(event);
            let packets = packets.iter().filter(|data| name != "classic" || data.get("trigger").is_none());
            let mut numbers: Vec<String> = packets.map(|data| data["header"].to_string()).collect();
            let all = numbers.len();
            numbers.sort_unstable();
            numbers.dedup();
            assert_eq!(numbers.len(), all, "{name}: {event}");
        }
    }
}

/// qvis draws its diagrams from this: ACKs name only sent packets, each once.
#[test]
fn acks_name_each_delivered_packet_once() {
    for (name, run) in everything() {
        let numbers = |data: &&Value| data["header"]["packet_number"].as_u64();
        let carried = |data: &&&Value| data["raw"]["payload_length"] != 0;
        let sent: std::collections::BTreeSet<u64> =
            run.named("transport:packet_sent").iter().filter(carried).filter_map(numbers).collect();
        let mut acked = Vec::new();
        for range in run
            .named("transport:packet_received")
            .iter()
            .filter_map(|data| data["frames"][0]["acked_ranges"].as_array())
            .flatten()
        {
            acked.extend(range[0].as_u64().unwrap()..=range[1].as_u64().unwrap());
        }
        let packets = acked.len() as u64;
        acked.sort_unstable();
        acked.dedup();
        assert_eq!(acked.len() as u64, packets, "{name}");
        assert!(acked.iter().all(|number| sent.contains(number)), "{name}");
        let full = run.stats.datagrams_sent - run.stats.retransmitted - run.stats.keep_alives;
        assert!(
            (full - 5..full).contains(&packets),
            "{name}: {packets} of {full}, the SYN and the FIN apart"
        );
    }
}

#[test]
fn full_disk_is_reported_at_finish() {
    let (simulation, sender) = native(Algorithm::Cubic, LossDetection::Rack);
    let run = traced(simulation, sender, 10_000);
    assert_eq!(run.finished.unwrap_err().kind(), io::ErrorKind::StorageFull);
    assert!(run.events.len() > 10, "what fitted is there, record by record");
}
