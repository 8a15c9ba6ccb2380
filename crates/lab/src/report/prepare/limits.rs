//! The limit that binds each flow most, and the number that would lift it.

use crate::cell::{Cell, EngineKind};
use crate::flow::Flow;
use crate::statistics::mean;
use crate::theory::{Conditions, PACKETS_PER_GROWTH, cubic_bps, pftk_bps};

use super::super::scale::{Unit, significant};
use super::Subject;
use super::select::values;
use super::words::levels;

/// Parts of a flow's life in the order in which a bar shows them, with their names for readers.
pub const LIMITS: [(&str, &str); 7] = [
    ("window", "receiver window"),
    ("cwnd", "congestion window"),
    ("link", "link"),
    ("recovery", "loss recovery"),
    ("application", "application"),
    ("start", "start"),
    ("host", "host"),
];

/// Parts of the life of one flow in one cell.
#[derive(Debug, Clone, PartialEq)]
pub struct Bound {
    /// Name of the flow.
    pub flow: String,
    /// Levels of the cell.
    pub levels: String,
    /// Engine of the cell.
    pub engine: EngineKind,
    /// Shares of the flow's life, 0 to 1, in the order of [`LIMITS`].
    pub shares: [f64; 7],
    /// The number that would lift the largest limit, as a clause. `None` if no model gives one.
    pub remedy: Option<String>,
}

impl Bound {
    /// Returns the largest limit by its name for readers, and its share.
    pub fn largest(&self) -> (&'static str, f64) {
        let all = LIMITS.iter().zip(self.shares);
        let most = all.max_by(|a, b| a.1.total_cmp(&b.1));
        most.map_or(("nothing", 0.0), |((_, name), share)| (*name, share))
    }

    /// Returns a sentence: `a (window 16kib, virtual): receiver window for 88 % of the time (...)`.
    pub fn sentence(&self) -> String {
        let (name, share) = self.largest();
        let remedy = self.remedy.as_ref().map_or_else(String::new, |remedy| format!(" ({remedy})"));
        let share = Unit::Share.text(share);
        format!("{} ({}, {}): {name} for {share} of the time{remedy}.", self.flow, self.levels, self.engine)
    }
}

/// Returns the limits of all flows in all cells that have them.
pub fn limits(subject: &Subject<'_>) -> Vec<Bound> {
    let cells = subject.results.cells.iter();
    cells.flat_map(|cell| cell.physics.flows.iter().filter_map(|flow| bound(subject, cell, flow))).collect()
}

fn bound(subject: &Subject<'_>, cell: &Cell, flow: &Flow) -> Option<Bound> {
    let metric = |word: &str| mean(&values(subject, &[cell], &format!("{}.{word}", flow.name)));
    let shares = LIMITS.map(|(word, _)| metric(&format!("limit.{word}")));
    shares.iter().flatten().next()?;
    let shares = shares.map(|share| share.unwrap_or(0.0));
    let bound = Bound {
        flow: flow.name.clone(),
        levels: levels(cell),
        engine: cell.physics.engine,
        shares,
        remedy: None,
    };
    let conditions = Conditions::of(&cell.physics, flow);
    let remedy = conditions.and_then(|it| match bound.largest().0 {
        "receiver window" => window(&it, metric("rtt-mean")),
        "congestion window" => congestion(&it, flow, metric("cwnd-mean")),
        // Neither data nor its acknowledgements tell why nothing arrived.
        "loss recovery" if metric("bytes") == Some(0.0) => {
            Some("nothing arrived: the path loses all packets or all answers".to_owned())
        }
        "loss recovery" => loss(&it, flow),
        "link" => link(&it),
        "application" => it.offered_bps.map(|bps| format!("it offers {}", Unit::Rate.text(bps))),
        "start" => Some(format!("a round trip of {} before the first byte", Unit::Time.text(it.rtt_s))),
        _ => None,
    });
    Some(Bound { remedy, ..bound })
}

/// Returns the bytes in flight that fill the link, and its rate.
fn full(it: &Conditions) -> Option<(String, String)> {
    Some((Unit::Bytes.text(full_window(it)?), Unit::Rate.text(it.rate_bps?)))
}

/// `rtt_s` is the measured round trip, in which flows that share the link have their queue.
fn window(it: &Conditions, rtt_s: Option<f64>) -> Option<String> {
    let window = it.window?;
    let is_shared = it.sharers > 1.0;
    let rtt_s = rtt_s.filter(|_| is_shared).unwrap_or_else(|| it.idle_rtt_s());
    let (rtt, allowed) = (Unit::Time.text(rtt_s), Unit::Rate.text(window * 8.0 / rtt_s));
    let mut text = format!("{window} bytes in a round trip of {rtt} allow {allowed}");
    if is_shared {
        if let Some(bps) = it.link_goodput_bps().map(|bps| bps / it.sharers) {
            let (bytes, share) = (Unit::Bytes.text(bps * rtt_s / 8.0), Unit::Rate.text(bps));
            put!(text, "; {bytes} would take an equal share of this link, {share}");
        }
    } else if let Some((bytes, rate)) = full(it) {
        put!(text, "; {bytes} would fill this link of {rate}");
    }
    Some(text)
}

fn congestion(it: &Conditions, flow: &Flow, cwnd: Option<f64>) -> Option<String> {
    if it.loss > 0.0 {
        return loss(it, flow);
    }
    if let Some(bytes) = it.bytes.filter(|bytes| full_window(it).is_none_or(|full| *bytes < full)) {
        let packets = significant((bytes / it.payload).ceil(), 6);
        return Some(format!("an initial window of {packets} packets would send all in one round trip"));
    }
    let (bytes, rate) = full(it)?;
    // A window that is large enough on average limits the flow only at its start.
    if cwnd.is_some_and(|cwnd| full_window(it).is_some_and(|full| cwnd >= full)) {
        return None;
    }
    let had = cwnd.map_or_else(String::new, |cwnd| format!("{} on average; ", Unit::Bytes.text(cwnd)));
    Some(format!("{had}{bytes} would fill this link of {rate}"))
}

fn full_window(it: &Conditions) -> Option<f64> {
    Some(it.rate_bps? * it.idle_rtt_s() / 8.0)
}

/// Returns the loss at which the response function of the flow's congestion control fills the link.
fn loss(it: &Conditions, flow: &Flow) -> Option<String> {
    let goal = it.link_goodput_bps()?;
    let rtt_s = it.idle_rtt_s();
    let rto_s = it.min_rto_s.max(rtt_s);
    let bps = |loss: f64| match flow.cc.as_deref() {
        Some("reno") => Some(pftk_bps(it.payload, rtt_s, PACKETS_PER_GROWTH, loss, rto_s, f64::INFINITY)),
        Some("cubic") => Some(cubic_bps(it.payload, rtt_s, loss)),
        _ => None,
    };
    if it.loss <= 0.0 || bps(it.loss)? >= goal {
        return None;
    }
    // Response functions fall with the loss.
    let (mut low, mut high) = (1e-9, it.loss);
    for _ in 0..60 {
        let middle = (low * high).sqrt();
        if bps(middle)? >= goal { low = middle } else { high = middle }
    }
    let model = if flow.cc.as_deref() == Some("reno") { "PFTK" } else { "RFC 9438" };
    let now = Unit::Share.text(it.loss);
    let (wanted, link) = (Unit::Share.text(low), Unit::Rate.text(it.rate_bps?));
    Some(format!("{now} of the packets are lost; at {wanted} it would fill this link of {link}, by {model}"))
}

fn link(it: &Conditions) -> Option<String> {
    let most = Unit::Rate.text(it.link_goodput_bps()?);
    let next = it.window.map(|window| window * 8.0 / it.idle_rtt_s());
    let next = next.map_or_else(String::new, |next| {
        format!("; above {} the receiver's window would limit the flow", Unit::Rate.text(next))
    });
    Some(format!("it carries {most} of payload{next}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theory::Conditions;

    fn lossy() -> Conditions {
        Conditions {
            rate_bps: Some(8e6),
            rtt_s: 0.01,
            loss: 0.025,
            payload: 1444.0,
            on_link: 1500.0,
            ack_every: 2.0,
            initial_window: 10.0,
            min_rto_s: 0.2,
            ..Conditions::default()
        }
    }

    #[test]
    fn loss_that_would_fill_the_link_is_named() {
        let flow = Flow { cc: Some("reno".to_owned()), ..Flow::new("a") };
        let text = loss(&lossy(), &flow).expect("a remedy");
        assert!(text.starts_with("2.5 % of the packets are lost; at 1."), "{text}");
        assert!(text.ends_with(" % it would fill this link of 8 Mbit/s, by PFTK"), "{text}");
        let none = Conditions { loss: 1e-7, ..lossy() };
        assert_eq!(loss(&none, &flow), None, "the loss does not limit");
        assert_eq!(loss(&lossy(), &Flow::new("a")), None, "no response function is known");
    }

    #[test]
    fn bytes_that_would_fill_the_link_are_named() {
        let it = Conditions { loss: 0.0, window: Some(5000.0), ..lossy() };
        let text = window(&it, Some(0.05)).expect("a remedy");
        let expected = "5000 bytes in a round trip of 11.5 ms allow 3.478 Mbit/s; \
                        11.5 kB would fill this link of 8 Mbit/s";
        assert_eq!(text, expected);
        let shared = Conditions { sharers: 2.0, ..it };
        let text = window(&shared, Some(0.05)).expect("a remedy");
        let expected = "5000 bytes in a round trip of 50 ms allow 800 kbit/s; \
                        24.07 kB would take an equal share of this link, 3.851 Mbit/s";
        assert_eq!(text, expected);
        let short = Conditions { loss: 0.0, bytes: Some(10_000.0), ..lossy() };
        let text = congestion(&short, &Flow::new("a"), None).expect("a remedy");
        assert_eq!(text, "an initial window of 7 packets would send all in one round trip");
        let long = Conditions { loss: 0.0, ..lossy() };
        let text = congestion(&long, &Flow::new("a"), Some(5000.0)).expect("a remedy");
        assert_eq!(text, "5000 B on average; 11.5 kB would fill this link of 8 Mbit/s");
        assert_eq!(congestion(&long, &Flow::new("a"), Some(12_000.0)), None, "it does fill the link");
    }
}
