//! Status lines of the sender, in the formats of the reference sender or as JSON. Keeps the state
//! from which the next line computes differences. The same as a table (`--csv`).

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rdt_program::Console;
use rdt_program::Failure;
use rdt_program::files::create_private;
use rdt_program::json::{EventStamp, nanos};
use rdt_transport::congestion::Algorithm;
use rdt_transport::{Phase, SenderConfig, SenderStats, Wire};
use serde_json::{Value, json};

use crate::args::SendArgs;
use crate::connection::{Protection, payload_size};
use crate::output::format::{g, rate_bps, seconds_and_kbps, short};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// Lines in the formats of the reference sender; with `quiet` only the last two.
    Text { quiet: bool },
    /// One JSON object per line; with `quiet` only the summary.
    Json { quiet: bool },
    /// No output: one of several transfers, whose sum is printed.
    Silent,
}

/// Columns of a status line that have a value. Only measured transfers, on Linux, lack some.
#[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "see above"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Columns {
    All,
    /// Columns that a sender without ACKs (UDP) can fill.
    Sent,
    /// Columns that a receiver (`--reverse`) can fill.
    Received,
}

impl Style {
    pub(crate) fn of(args: &SendArgs) -> Self {
        let quiet = args.quiet;
        if args.json { Self::Json { quiet } } else { Self::Text { quiet } }
    }
}

pub(crate) struct Status {
    console: Console,
    style: Style,
    pub(crate) start: Instant,
    stamp: EventStamp,
    packet_size: usize,
    payload_size: usize,
    wire: Wire,
    congestion: Algorithm,
    /// Payload rate of the requested link, bits per second; infinite without a request.
    link_bps: f64,
    /// End of the handshake, to which the times in status lines are relative.
    connected_at: Instant,
    /// Oldest unacknowledged number, and time, of the last status line.
    last: (u64, Instant),
    pub(crate) columns: Columns,
    /// Table of the intervals; `None` without `--csv`.
    pub(crate) csv: Option<CsvFile>,
}

impl Status {
    pub(crate) fn new(console: Console, style: Style, start: Instant, config: &SenderConfig) -> Self {
        let payload_size = payload_size(config);
        #[allow(clippy::cast_precision_loss, reason = "a rate is printed to two decimals")]
        let link_bps = match (config.wire, config.link_request) {
            (Wire::Classic, _) => f64::from(config.link.speed_bps),
            (Wire::Native, link) => link.map_or(f64::INFINITY, |link| link.rate_bps as f64),
        } * payload_size as f64
            / config.packet_size as f64;
        Self {
            console,
            style,
            start,
            stamp: EventStamp::new(start),
            packet_size: config.packet_size,
            payload_size,
            wire: config.wire,
            congestion: config.congestion,
            link_bps,
            connected_at: start,
            last: (0, start),
            columns: Columns::All,
            csv: None,
        }
    }

    /// Sets the size of a full packet of a wire without headers of its own, bytes.
    #[cfg(target_os = "linux")]
    pub(crate) fn set_packet(&mut self, size: usize) {
        (self.packet_size, self.payload_size) = (size, size);
    }

    /// Converts a sequence number (classic: packets, native: bytes) to full packets, rounded up.
    pub(crate) fn packets(&self, number: u64) -> u64 {
        match self.wire {
            Wire::Classic => number,
            Wire::Native => number.div_ceil(self.payload_size as u64),
        }
    }

    /// Converts a sequence number to bytes, assuming full packets.
    fn bytes(&self, number: u64) -> u64 {
        match self.wire {
            Wire::Classic => number * self.payload_size as u64,
            Wire::Native => number,
        }
    }

    pub(crate) fn is_quiet(&self) -> bool {
        !matches!(self.style, Style::Text { quiet: false })
    }

    /// Prints the first line, with the parameters of the transfer.
    pub(crate) fn parameters(&self, config: &SenderConfig) {
        let window = match config.congestion {
            Algorithm::Fixed(packets) => packets.to_string(),
            other => other.to_string(),
        };
        let (rtt_s, forward, reverse, bps) = match (config.wire, &config.link_request) {
            (Wire::Classic, _) => {
                let link = &config.link;
                let bps = f64::from(link.speed_bps);
                (f64::from(link.rtt_s), short(link.loss_forward), short(link.loss_reverse), bps)
            }
            (Wire::Native, None) => {
                return self.text(&format!("Main:\tsender W = {window}, no link asked for"));
            }
            #[allow(clippy::cast_precision_loss, reason = "printed without decimals")]
            (Wire::Native, Some(link)) => (
                f64::from(link.rtt_us) / 1e6,
                f64::from(link.loss_forward_ppb) / 1e9,
                f64::from(link.loss_reverse_ppb) / 1e9,
                link.rate_bps as f64,
            ),
        };
        self.text(&format!(
            "Main:\tsender W = {window}, RTT {rtt_s:.3} sec, loss {} / {}, link {:.0} Mbps",
            g(forward),
            g(reverse),
            bps / 1e6,
        ));
    }

    /// Prints a line that has no counterpart in JSON.
    pub(crate) fn text(&self, line: &str) {
        if self.style == (Style::Text { quiet: false }) {
            self.console.line(line);
        }
    }

    pub(crate) fn connected(
        &mut self,
        now: Instant,
        host: &str,
        took: Duration,
        protection: Option<Protection>,
    ) {
        self.begin(now);
        self.text(&format!(
            "Main:\tconnected to {host} in {:.3} sec, pkt size {} bytes",
            took.as_secs_f64(),
            self.packet_size
        ));
        self.json(now, json!({
            "event": "connected", "host": host, "connect_ns": nanos(took), "packet_size_bytes": self.packet_size,
            "receiver_key": protection.and_then(|protection| protection.receiver).map(|key| key.to_string()),
        }));
    }

    pub(crate) fn begin(&mut self, now: Instant) {
        (self.connected_at, self.last.1) = (now, now);
    }

    /// Prints a status line. The rate S is measured over the actual time since the last one.
    pub(crate) fn interval(&mut self, now: Instant, stats: &SenderStats) {
        let (time, bps) = self.measure(now, stats);
        self.text(&match self.columns {
            Columns::All => self.all_columns(stats, time, bps),
            Columns::Sent => self.one_way_columns("N", stats.snd_nxt, time, bps),
            Columns::Received => self.one_way_columns("B", stats.snd_una, time, bps),
        });
        let event = self.interval_event(stats, time, bps);
        if let Some(csv) = &mut self.csv {
            csv.row(&self.stamp.at(now, event.clone()));
        }
        self.json(now, event);
    }

    #[allow(clippy::cast_precision_loss, reason = "printed to three decimals")]
    fn all_columns(&self, stats: &SenderStats, time: Duration, bps: Option<f64>) -> String {
        let una = self.packets(stats.snd_una);
        format!(
            "[{:3.0}] B {:6} ({:5.1} MB) N {:6} T {} F {} W {} S {:.3} Mbps RTT {:.3}",
            time.as_secs_f64(),
            una,
            una as f64 * self.packet_size as f64 / 1e6,
            self.packets(stats.snd_nxt),
            stats.timeouts,
            stats.fast_retransmits,
            stats.window,
            bps.unwrap_or(0.0) / 1e6,
            stats.srtt.unwrap_or_default().as_secs_f64(),
        )
    }

    /// Returns the line of one direction: its packets under the name of their column, and the rate.
    #[allow(clippy::cast_precision_loss, reason = "printed to three decimals")]
    fn one_way_columns(&self, column: &str, number: u64, time: Duration, bps: Option<f64>) -> String {
        format!(
            "[{:3.0}] {column} {:6} ({:5.1} MB) S {:.3} Mbps",
            time.as_secs_f64(),
            self.packets(number),
            number as f64 / 1e6,
            bps.unwrap_or(0.0) / 1e6,
        )
    }

    /// Begins the next interval. Returns the time since the handshake, and the last rate.
    fn measure(&mut self, now: Instant, stats: &SenderStats) -> (Duration, Option<f64>) {
        let (base, at) = self.last;
        self.last = (stats.snd_una, now);
        let payload = self.bytes(stats.snd_una) - self.bytes(base);
        let bps = rate_bps(payload, now.saturating_duration_since(at));
        (now.saturating_duration_since(self.connected_at), bps)
    }

    fn interval_event(&self, stats: &SenderStats, time: Duration, bps: Option<f64>) -> Value {
        let mut event = json!({ "event": "interval", "elapsed_ns": nanos(time), "rate_bps": bps });
        if self.columns != Columns::Sent {
            event["base_packets"] = json!(self.packets(stats.snd_una));
        }
        if self.columns != Columns::Received {
            event["next_packets"] = json!(self.packets(stats.snd_nxt));
        }
        if self.columns == Columns::All {
            event["timeouts"] = json!(stats.timeouts);
            event["fast_retransmits"] = json!(stats.fast_retransmits);
            event["window_packets"] = json!(stats.window);
            event["srtt_ns"] = json!(stats.srtt.map(nanos));
        }
        event
    }

    /// Writes the last row of `--csv`, with the rest. Returns the first failed write.
    pub(crate) fn finish_csv(&mut self, now: Instant, stats: &SenderStats) -> Result<(), Failure> {
        let Some(mut csv) = self.csv.take() else { return Ok(()) };
        if self.last.0 != stats.snd_una {
            let (time, bps) = self.measure(now, stats);
            csv.row(&self.stamp.at(now, self.interval_event(stats, time, bps)));
        }
        csv.finish()
    }

    /// Prints the line of the FIN-ACK. `crc` is the CRC-32 in it, in a format that has one.
    pub(crate) fn fin_ack(&self, now: Instant, stats: &SenderStats, crc: Option<u32>) {
        let time = now.saturating_duration_since(self.start).as_secs_f64();
        let crc = crc.map(|crc| format!(" window {crc:X}")).unwrap_or_default();
        self.text(&format!("[{time:6.3}] <-- FIN-ACK {}{crc}", self.packets(stats.snd_nxt)));
    }

    pub(crate) fn finished(&self, stats: &SenderStats, protection: Option<Protection>) {
        let ideal = match self.ideal_bps(stats) {
            // The reference sender has always printed a rate.
            None if self.wire == Wire::Classic => Some(0.0),
            ideal => ideal,
        };
        let ideal = ideal.map(|bps| format!(", ideal rate {:.2} Kbps", bps / 1e3));
        let rtt = format!(
            "Main:\testRTT {:.3}{}",
            stats.srtt.unwrap_or_default().as_secs_f64(),
            ideal.unwrap_or_default(),
        );
        let remark = match protection {
            Some(protection) => protection.remark(),
            None => format!("checksum {:X}", stats.crc),
        };
        self.finished_as(stats, &remark, &rtt);
    }

    /// Prints the last two lines: the rate with a remark, and `line`.
    pub(crate) fn finished_as(&self, stats: &SenderStats, remark: &str, line: &str) {
        if !matches!(self.style, Style::Text { .. }) {
            return;
        }
        let (seconds, kbps) = seconds_and_kbps(stats.bytes_acked, stats.elapsed());
        self.console.line(&format!("Main:\ttransfer finished in {seconds:.3} sec, {kbps:.2} Kbps, {remark}"));
        self.console.line(line);
    }

    pub(crate) fn interrupted(&mut self, now: Instant, stats: &SenderStats) {
        self.interval(now, stats);
        if !matches!(self.style, Style::Text { .. }) {
            return;
        }
        let (bytes, (seconds, kbps)) =
            (stats.bytes_acked, seconds_and_kbps(stats.bytes_acked, stats.elapsed()));
        self.console.line(&format!(
            "Main:\tinterrupted after {seconds:.3} sec, {bytes} bytes acknowledged, {kbps:.2} Kbps"
        ));
    }

    /// Returns the ideal rate, bits per second: the payload of the window W per round trip, at most
    /// the payload rate of the requested link. `None` where the model does not apply: with
    /// congestion control, and without a requested link, whose rate could be less.
    #[allow(clippy::cast_precision_loss, reason = "a rate is printed to two decimals")]
    pub(crate) fn ideal_bps(&self, stats: &SenderStats) -> Option<f64> {
        let Algorithm::Fixed(packets) = self.congestion else { return None };
        let srtt = stats.srtt.filter(|_| self.link_bps.is_finite())?;
        let bits = f64::from(packets) * self.payload_size as f64 * 8.0;
        Some((bits / srtt.as_secs_f64()).min(self.link_bps))
    }

    /// Prints the status line of a failed transfer in the format of the reference sender.
    pub(crate) fn failed(&self, phase: Phase, failure: &Failure) {
        self.text(&format!("Main:\t{phase} failed with status {}", failure.code()));
    }

    fn json(&self, now: Instant, event: Value) {
        if self.style == (Style::Json { quiet: false }) {
            self.console.line(&self.stamp.at(now, event).to_string());
        }
    }

    pub(crate) fn summary(&self, event: Value) {
        if matches!(self.style, Style::Json { .. }) {
            self.console.line(&self.stamp.now(event).to_string());
        }
    }
}

/// Returns the time of the status line after the one due at `due`. Skips lines missed in a stall.
pub(crate) fn next_line(due: Instant, interval: Duration, now: Instant) -> Instant {
    if now.saturating_duration_since(due) < interval / 2 { due + interval } else { now + interval }
}

const COLUMNS: [&str; 9] = [
    "time_ns",
    "elapsed_ns",
    "base_packets",
    "next_packets",
    "timeouts",
    "fast_retransmits",
    "window_packets",
    "rate_bps",
    "srtt_ns",
];

/// Table of `rdt-send --csv`: a row for each event `interval`, with its keys as columns.
pub(crate) struct CsvFile {
    path: PathBuf,
    file: File,
    /// First failed write, after which nothing is written.
    error: Option<io::Error>,
}

impl CsvFile {
    /// Creates the file, or replaces it with `force`, and writes the names of the columns.
    pub(crate) fn create(path: &Path, force: bool) -> Result<Self, Failure> {
        let file = create_private(path, force).map_err(|error| Failure::output(path.display(), &error))?;
        let mut csv = Self { path: path.to_owned(), file, error: None };
        csv.line(&COLUMNS.join(","));
        Ok(csv)
    }

    /// Writes the row of an event. Unknown values are empty.
    pub(crate) fn row(&mut self, event: &Value) {
        let field = |key: &&str| match &event[*key] {
            Value::Null => String::new(),
            number => number.to_string(),
        };
        self.line(&COLUMNS.iter().map(field).collect::<Vec<_>>().join(","));
    }

    /// Returns the first failed write as the failure of the program.
    pub(crate) fn finish(self) -> Result<(), Failure> {
        self.error.map_or(Ok(()), |error| Err(Failure::output(self.path.display(), &error)))
    }

    fn line(&mut self, line: &str) {
        if self.error.is_none() {
            self.error = writeln!(self.file, "{line}").err();
        }
    }
}

/// Time between two status lines without `--interval`.
pub(crate) const STATUS_INTERVAL: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use rdt_transport::LinkProperties;

    use super::*;

    #[test]
    fn ideal_rate_is_at_most_that_of_link() {
        let link =
            LinkProperties { rtt_s: 0.1, speed_bps: 1e7, loss_forward: 0.0, loss_reverse: 0.0, buffer: 9 };
        let stats = SenderStats { srtt: Some(Duration::from_millis(100)), ..SenderStats::default() };
        for (window, ideal) in [(10, 10.0 * 1464.0 * 80.0), (5000, 1e7 * 1464.0 / 1472.0)] {
            let (config, now) = (SenderConfig::new(window, link), rdt_udp::clock::now());
            let status = Status::new(Console::default(), Style::Silent, now, &config);
            assert!((status.ideal_bps(&stats).unwrap() - ideal).abs() < 1.0, "W = {window}");
        }
    }

    #[test]
    fn stall_skips_missed_status_lines() {
        let (due, interval) = (rdt_udp::clock::now(), Duration::from_secs(2));
        let after = |late| (next_line(due, interval, due + Duration::from_millis(late)) - due).as_millis();
        assert_eq!(after(0), 2000);
        assert_eq!(after(10), 2000, "the usual delays do not add up");
        for late in [1500, 1990, 2000, 7000] {
            assert_eq!(after(late), u128::from(late) + 2000);
        }
    }
}
