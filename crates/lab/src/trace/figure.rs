//! Graphs of one direction: time-sequence, round-trip times, bytes in flight, throughput.

use super::connection::{Connection, Event};
use super::direction::Kind;
use super::sequence::{Ack, number, seconds};
use crate::report::figure::{Column, EventTimes, Quantity, TimePanel, time_series};
use crate::report::scale::{Axis, Unit};
use crate::report::scene::{Mark, Origin, Panel, Row, Scene};

/// Heights of the time-sequence graph and of the graph of round-trip times, pixels.
const SEQUENCE_HEIGHT: f64 = 360.0;
const RTT_HEIGHT: f64 = 140.0;
/// Largest number of bins of a series.
const MAX_BINS: f64 = 300.0;
/// Contiguous segments closer than this share of the time shown are drawn as one line.
const RESOLUTION: f64 = 1.0 / 2000.0;

/// Part of one direction of a connection that graphs show.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// The connection.
    pub connection: &'a Connection,
    /// The end that sends the data: 0 or 1.
    pub sender: usize,
    /// Identifier of the figures: letters, digits and hyphens.
    pub id: &'a str,
    /// Begin and end, seconds from the first packet.
    pub between: (f64, f64),
}

impl View<'_> {
    fn name(&self) -> &'static str {
        if self.sender == 0 { "a\u{2192}b" } else { "b\u{2192}a" }
    }

    fn at(&self, event: &Event) -> f64 {
        seconds(event.at_ns.saturating_sub(self.connection.first_ns))
    }

    fn events(&self) -> impl Iterator<Item = (f64, &Event)> {
        let (begin, end) = self.between;
        let timed = self.connection.events.iter().map(|event| (self.at(event), event));
        timed.filter(move |(at, _)| (begin..=end).contains(at))
    }

    /// Returns the sequence number at which the stream begins.
    fn base(&self) -> u64 {
        let mine = &self.connection.directions[self.sender];
        let first = || self.connection.events.iter().find(|event| event.from == self.sender);
        mine.syn.map_or_else(|| first().map_or(0, |event| event.start), |syn| syn + 1)
    }

    fn scene(&self, what: &str, title: &str) -> Scene {
        Scene::new(&format!("{}-{what}", self.id), &format!("{title}, {}", self.name()))
    }
}

/// Returns all graphs of a direction.
pub fn scenes(view: &View<'_>) -> Vec<Scene> {
    vec![sequence(view), round_trips(view), series(view)]
}

/// Layers of a time-sequence graph, in the order of drawing.
#[derive(Default)]
struct Layers {
    window: Vec<Row>,
    ack: Vec<Row>,
    sack: Vec<Row>,
    sent: Vec<Row>,
    repeated: Vec<Row>,
    zero: Vec<Row>,
    probes: Vec<Row>,
}

/// Appends `[low, high)`, or lengthens the last row if both are contiguous and close in time.
fn push(rows: &mut Vec<Row>, at: f64, low: f64, high: f64, resolution: f64) {
    if let Some(last) = rows.last_mut()
        && at - last.x < resolution
        && last.high == Some(low)
    {
        last.high = Some(high);
        last.y = high;
        return;
    }
    rows.push(Row { low: Some(low), high: Some(high), ..Row::at(at, high) });
}

impl Layers {
    fn of(view: &View<'_>) -> Self {
        let base = view.base();
        let place = |at: u64| number(at.saturating_sub(base));
        let resolution = (view.between.1 - view.between.0) * RESOLUTION;
        let mut it = Self::default();
        let mut edge = 0;
        for (at, event) in view.events() {
            if event.from == view.sender {
                let (low, high) = (place(event.start), place(event.end));
                match event.kind {
                    Kind::Probe | Kind::KeepAlive => it.probes.push(Row::at(at, high)),
                    Kind::Retransmission | Kind::OutOfOrder if high > low => {
                        push(&mut it.repeated, at, low, high, resolution);
                    }
                    _ if high > low => push(&mut it.sent, at, low, high, resolution),
                    _ => {}
                }
                continue;
            }
            let Some(ack) = event.ack.filter(|ack| *ack >= base) else { continue };
            edge = edge.max(ack + u64::from(event.window));
            if event.window == 0 {
                edge = ack;
                it.zero.push(Row::at(at, place(ack)));
            }
            step(&mut it.ack, at, place(ack));
            step(&mut it.window, at, place(edge));
            for (start, end) in &event.sack {
                push(&mut it.sack, at, place(*start), place(*end), 0.0);
            }
        }
        it
    }
}

/// Appends a step up. Smaller values, as of old ACKs, are no steps.
fn step(rows: &mut Vec<Row>, at: f64, value: f64) {
    if rows.last().is_none_or(|last| value > last.y) {
        rows.push(Row::at(at, value));
    }
}

fn sequence(view: &View<'_>) -> Scene {
    let mut scene = view.scene("sequence", "Time-sequence graph");
    let layers = Layers::of(view);
    let (begin, end) = view.between;
    let mut values: Vec<f64> = Vec::new();
    for rows in [&layers.sent, &layers.repeated, &layers.ack] {
        values.extend(rows.iter().flat_map(|row| [row.low.unwrap_or(row.y), row.y]));
    }
    // A large window would press the data into a line at the bottom.
    let top = values.iter().copied().fold(0.0, f64::max);
    let bottom = values.iter().copied().fold(top, f64::min);
    let room = (top - bottom) * 0.1;
    let mut window = layers.window;
    window.retain(|row| row.y <= top + room.max(65_536.0));
    values.extend(window.iter().map(|row| row.y));
    let y = Axis::linear("sequence number", Unit::Bytes, values, begin <= 0.0);
    let mut panel = Panel::new(SEQUENCE_HEIGHT, Axis::tight("time", Unit::Time, [begin, end]), y);
    let counts = [layers.sent.len(), layers.repeated.len(), layers.sack.len(), layers.zero.len()];
    for (name, look, mark, rows) in [
        ("window", 6, Mark::Steps, window),
        ("acknowledged", 2, Mark::Steps, layers.ack),
        ("SACK blocks", 5, Mark::Segments, layers.sack),
        ("data", 0, Mark::Segments, layers.sent),
        ("retransmitted or out of order", 1, Mark::Segments, layers.repeated),
        ("zero window", 3, Mark::Dots, layers.zero),
        ("probe or keep-alive", 4, Mark::Dots, layers.probes),
    ] {
        let series = scene.series(name, look, Origin::Measured);
        panel.draw(series, mark, rows);
    }
    scene.panels.push(panel);
    let [sent, repeated, sack, zero] = counts;
    scene.description = format!(
        "Sequence numbers over time: {sent} runs of data, {repeated} of retransmitted or reordered data, \
         {sack} SACK blocks, {zero} zero windows."
    );
    scene
}

fn round_trips(view: &View<'_>) -> Scene {
    let mut scene = view.scene("rtt", "Round-trip times by Karn's rule");
    let mut rows = Vec::new();
    for (at, event) in view.events().filter(|(_, event)| event.from != view.sender) {
        if let Ack::Sample(rtt_ns) = event.meaning {
            rows.push(Row::at(at, seconds(rtt_ns)));
        }
    }
    let y = Axis::linear("round-trip time", Unit::Time, rows.iter().map(|row| row.y), true);
    let x = Axis::tight("time", Unit::Time, [view.between.0, view.between.1]);
    let mut panel = Panel::new(RTT_HEIGHT, x, y);
    scene.description = format!("{} samples of the round-trip time.", rows.len());
    let samples = scene.series("sample", 0, Origin::Measured);
    panel.draw(samples, Mark::Dots, rows);
    scene.panels.push(panel);
    scene
}

/// Returns the smallest of 1, 2, 5 times a power of ten seconds that gives at most `MAX_BINS`.
fn bin_width(span: f64) -> f64 {
    let steps = (-3..5).flat_map(|exponent| [1.0, 2.0, 5.0].map(|step| step * 10_f64.powi(exponent)));
    let mut steps = steps.filter(|step| step * MAX_BINS >= span);
    steps.next().unwrap_or(1e5)
}

/// Values of each bin from the begin of the view on.
struct Binned {
    /// Bits per second, with and without retransmissions.
    payload: Vec<f64>,
    unique: Vec<f64>,
    /// Last value in the bin, bytes.
    flight: Vec<Option<f64>>,
    window: Vec<Option<f64>>,
}

impl Binned {
    fn of(view: &View<'_>, bin_s: f64) -> Self {
        let (begin, end) = view.between;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few hundred bins")]
        let bin = |at: f64| ((at - begin) / bin_s) as usize;
        let bins = bin(end) + 1;
        let mut it = Self {
            payload: vec![0.0; bins],
            unique: vec![0.0; bins],
            flight: vec![None; bins],
            window: vec![None; bins],
        };
        let (mut highest, mut acked) = (view.base(), view.base());
        // Earlier segments count for the bytes in flight.
        for event in &view.connection.events {
            let is_data = event.from == view.sender;
            if is_data {
                highest = highest.max(event.end);
            } else {
                acked = acked.max(event.ack.unwrap_or(0));
            }
            let at = view.at(event);
            if !(begin..=end).contains(&at) {
                continue;
            }
            let index = bin(at).min(bins - 1);
            it.flight[index] = Some(number(highest.saturating_sub(acked)));
            if is_data {
                let bits = number(event.end - event.start) * 8.0 / bin_s;
                it.payload[index] += bits;
                if matches!(event.kind, Kind::New | Kind::OutOfOrder) {
                    it.unique[index] += bits;
                }
            } else if event.ack.is_some() {
                it.window[index] = Some(f64::from(event.window));
            }
        }
        it
    }
}

/// Bytes in flight beside the window, and throughput, in bins.
fn series(view: &View<'_>) -> Scene {
    let bin_s = bin_width(view.between.1 - view.between.0);
    let Binned { payload, unique, flight, window } = Binned::of(view, bin_s);
    let column = |name: &str, look, values| Column { name: name.to_owned(), look, values };
    let rates = |values: Vec<f64>| values.into_iter().map(Some).collect();
    let panel = |name: &str, unit, columns: [Column; 2]| TimePanel {
        of: Quantity { name: name.to_owned(), unit },
        at_ends: false,
        columns: columns.into(),
    };
    let zero = view.events().filter(|(_, event)| event.from != view.sender && event.window == 0);
    let zero = zero.filter(|(_, event)| !event.control).map(|(at, _)| at).collect();
    let flight = [column("in flight", 0, carried(flight)), column("peer's window", 6, carried(window))];
    let payload =
        [column("payload", 1, rates(payload)), column("payload without retransmissions", 2, rates(unique))];
    let panels = [panel("bytes", Unit::Bytes, flight), panel("throughput", Unit::Rate, payload)];
    let events = [EventTimes { name: "zero window".to_owned(), look: 3, times: zero }];
    let scene = view.scene("series", "Bytes in flight, window and throughput");
    time_series(scene, (view.between.0, bin_s), &panels, &events)
}

/// Fills bins without a value with the value before.
fn carried(mut values: Vec<Option<f64>>) -> Vec<Option<f64>> {
    let mut last = None;
    for value in &mut values {
        last = value.or(last);
        *value = last;
    }
    values
}
