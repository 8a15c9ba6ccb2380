//! The programs in real time over loopback, compared with models: `cargo bench --bench real_time`.
//! Prints tables in about three minutes. `-- --large` adds the checksums of the 2 and 4 GiB arrays.

use std::env;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::process::{Command, Stdio};

use rdt_sim::payload;
use serde_json::Value;

const SEND: &str = env!("CARGO_BIN_EXE_rdt-send");
const ROUNDS: usize = 3;

fn main() {
    rates_by_window();
    rates_by_rtt();
    punctuality();
    real_file();
    if env::args().any(|arg| arg == "--large") {
        large_arrays();
    }
}

fn send(args: &str) -> Vec<Value> {
    let output = Command::new(SEND)
        .args(args.split(' '))
        .arg("--json")
        .stderr(Stdio::inherit())
        .output()
        .expect("rdt-send was built with this bench");
    assert!(output.status.success(), "rdt-send {args}: {}", output.status);
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("each line is an object")).collect();
    let last = lines.last().expect("the summary");
    assert_eq!(last["crc32"], last["crc32_received"], "rdt-send {args}");
    lines
}

fn number(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or(f64::NAN)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let last = values.len() - 1;
    values[last / 2].midpoint(values[last.div_ceil(2)])
}

/// Returns the rate after the window has opened: the median over runs of the median over status
/// lines.
fn steady_rate(args: &str, window: u32) -> f64 {
    let runs = (0..ROUNDS).map(|_| {
        let lines = send(args);
        let open = |line: &&Value| {
            line["event"] == "interval"
                && line["window_packets"] == window
                && number(line, "base_packets") > f64::from(4 * window)
        };
        let rates: Vec<f64> = lines.iter().filter(open).map(|line| number(line, "rate_bps")).collect();
        assert!(!rates.is_empty(), "rdt-send {args}: the window did not open");
        median(rates)
    });
    median(runs.collect())
}

fn row(name: &str, measured: f64, model: f64) {
    println!(
        "| {name} | {:.3} | {:.3} | {:+.2} % |",
        measured / 1e6,
        model / 1e6,
        (measured / model - 1.0) * 100.0
    );
}

fn rates_by_window() {
    println!("\nr(W): RTT 0.1 s, 1000 Mbps, no loss; status lines every 2 s\n");
    println!("| W | measured Mbps | model Mbps | off |\n|---|---|---|---|");
    for window in [1_u32, 16, 128, 1024] {
        // About 7 s after the window has opened, which is dozens of round trips.
        let bytes = u64::from(window) * 1464 * 80;
        let measured = steady_rate(&format!("local {window} 0.1 0 1000 --bytes {bytes}"), window);
        let round_trip = 0.1 + 1484.0 * 8.0 / 1e9;
        row(&window.to_string(), measured, f64::from(window) * 1464.0 * 8.0 / round_trip);
    }
}

fn rates_by_rtt() {
    println!("\nr(RTT): W 30, 1000 Mbps, no loss\n");
    println!("| RTT s | measured Mbps | model Mbps | off |\n|---|---|---|---|");
    for rtt in [0.01, 0.05, 0.2] {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a whole number of bytes"
        )]
        let bytes = (30.0 * 1464.0 * 7.0 / rtt) as u64;
        let measured = steady_rate(&format!("local 30 {rtt} 0 1000 --bytes {bytes}"), 30);
        row(&rtt.to_string(), measured, 30.0 * 1464.0 * 8.0 / (rtt + 1484.0 * 8.0 / 1e9));
    }
}

/// Prints the rate and RTT of a full link of 100 Mbps and 100 ms, and its RTT for one packet at a
/// time.
fn punctuality() {
    println!("\nThe emulator in real time: 100 Mbps, RTT 100 ms\n");
    println!("| what | measured | asked | off | lateness p50 us | p99 us |\n|---|---|---|---|---|---|");
    let show = |what: &str, args: &str, key: &str, asked: f64, scale: f64| {
        let runs: Vec<Value> = (0..ROUNDS).filter_map(|_| send(args).pop()).collect();
        let of = |f: &dyn Fn(&Value) -> f64| median(runs.iter().map(f).collect());
        let measured = of(&|run| number(run, key)) / scale;
        let late = |key: &str| of(&|run| number(&run["receiver"], key)) / 1e3;
        println!(
            "| {what} | {measured:.3} | {asked:.3} | {:+.3} % | {:.0} | {:.0} |",
            (measured / asked - 1.0) * 100.0,
            late("lateness_p50_ns"),
            late("lateness_p99_ns"),
        );
    };
    show(
        "round trip, W 1, ms",
        "local 1 0.1 0 100 --bytes 40000 --quiet",
        "srtt_ns",
        100.0 + 1484.0 * 8.0 / 1e5,
        1e6,
    );
    // The window is 1.7 bandwidth-delay products, so the link is the bottleneck.
    let full = 100.0 * 1464.0 / 1472.0;
    let rate = steady_rate("local 1500 0.1 0 100 --bytes 120000000 --interval 1s", 1500) / 1e6;
    println!(
        "| rate, W 1500, Mbps of payload | {rate:.3} | {full:.3} | {:+.3} % | | |",
        (rate / full - 1.0) * 100.0
    );
    show(
        "round trip under load, W 1500, ms",
        "local 1500 0.1 0 100 --bytes 120000000 --quiet",
        "srtt_ns",
        1500.0 * 1472.0 * 8.0 / 1e5,
        1e6,
    );
}

/// Prints the rate for 1 GiB from a file, without loss or delay.
fn real_file() {
    println!("\n1 GiB from a file over `local`, RTT 0, 10000 Mbps, no loss\n");
    println!("| W | Gbit/s | retransmitted | peak memory MB | checksum |\n|---|---|---|---|---|");
    let directory = env::temp_dir().join(format!("rdt-bench-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a temporary directory can be made");
    let path = directory.join("1gib");
    write_file(&path, 1 << 30).expect("the disk has 1 GiB free");
    for window in [64, 1000] {
        let runs: Vec<Value> = (0..ROUNDS)
            .filter_map(|_| {
                send(&format!("local {window} 0 0 10000 --quiet --file {}", path.display())).pop()
            })
            .collect();
        let of = |key: &str| median(runs.iter().map(|run| number(run, key)).collect());
        let crc = runs[0]["crc32"].as_str().unwrap_or("?");
        println!(
            "| {window} | {:.2} | {} | {:.1} | {crc} |",
            of("goodput_bps") / 1e9,
            of("retransmitted"),
            of("memory_peak_bytes") / 1e6,
        );
    }
    std::fs::remove_dir_all(&directory).expect("what was made can be removed");
}

fn write_file(path: &std::path::Path, bytes: u64) -> std::io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    let mut chunk = vec![0; 1 << 20];
    for offset in (0..bytes).step_by(chunk.len()) {
        payload::fill(offset, &mut chunk);
        file.write_all(&chunk)?;
    }
    file.flush()
}

/// Prints the largest of the published checksums.
fn large_arrays() {
    println!(
        "\nPublished checksums of the large arrays\n\n| 2^K words | checksum | published |\n|---|---|---|"
    );
    for (power, published) in [(23, "d70096ab"), (29, "ef5f9797"), (30, "39f2a0e6")] {
        let summary =
            send(&format!("local 1000 0 0 10000 --quiet --power {power}")).pop().unwrap_or_default();
        println!("| {power} | {} | {published} |", summary["crc32"].as_str().unwrap_or("?"));
    }
}
