//! Why a published value is outside of its tolerance: the condition that it implies, computed from
//! the cell, or else the sentence of the experiment's file.

use crate::claim::{Expectation, Expression, Fit};
use crate::experiment::{Compare, Expect};
use crate::flow::{Flow, FlowKind};
use crate::results::Results;
use crate::theory::{Conditions, PACKETS_PER_GROWTH, cubic_bps, model, pftk_bps};

use super::super::scale::{Unit, significant};

/// Share by which a value exceeds a limit before the limit speaks against it.
const CLEARLY: f64 = 1.02;

/// Returns a sentence about a value outside of its tolerance. `None` for other values, and if
/// nothing is known.
pub fn reason(expect: &Expect, it: &Expectation, results: &Results) -> Option<String> {
    if it.fit != Fit::Outside {
        return None;
    }
    let implied = implied(expect, it, results);
    let sentence = implied.as_ref().and_then(Implied::sentence);
    sentence.or_else(|| expect.why.clone()).or_else(|| implied?.share())
}

/// Returns a published rate or time beside the conditions of the only cell that it is for.
fn implied<'a>(expect: &Expect, it: &'a Expectation, results: &'a Results) -> Option<Implied<'a>> {
    let Expression::Metric(metric) = &expect.expression else { return None };
    if expect.compare != Compare::Absolute {
        return None;
    }
    let cells: Vec<_> = results.cells(it.engine, &it.levels).collect();
    let [cell] = cells[..] else { return None };
    let (owner, word) = metric.name.rsplit_once('.').unwrap_or(("", &metric.name));
    let mut flows = cell.physics.flows.iter();
    let flow = flows.find(|flow| owner.is_empty() || flow.name == owner)?;
    let conditions = Conditions::of(&cell.physics, flow)?;
    let bps = |value: f64| match word {
        "goodput" => Some(value),
        "completion" => Some(conditions.bytes? * 8.0 / value),
        _ => None,
    };
    let (published, measured) = (bps(it.expected)?, bps(it.measured?.estimate)?);
    Some(Implied { it: conditions, flow, published, measured })
}

/// A published rate beside the conditions of the flow, bits per second of payload.
struct Implied<'a> {
    it: Conditions,
    flow: &'a Flow,
    published: f64,
    measured: f64,
}

impl Implied<'_> {
    fn sentence(&self) -> Option<String> {
        let carried = self.carried();
        if let Some(most) = carried.filter(|most| self.published > most * 1.000_5) {
            let (most, share) = (rate(most), Unit::Share.text(self.it.payload / self.it.on_link));
            return Some(format!(
                "It is more than the link carries: {most} of payload, which is {share} of a packet with its headers."
            ));
        }
        if self.it.is_udp {
            return None;
        }
        self.beside_datagrams()
            .or_else(|| if self.published > self.measured { self.too_fast() } else { self.too_slow(carried) })
    }

    /// Returns the payload that the link or the air carries.
    fn carried(&self) -> Option<f64> {
        let airtime = || Some((model("airtime")?.predict)(&self.it)?.value);
        self.it.link_goodput_bps().or_else(airtime)
    }

    fn window(&self) -> Option<f64> {
        Some(self.it.window? * 8.0 / self.it.idle_rtt_s())
    }

    /// Returns the rate that losses allow in a round trip, and the name of the model.
    fn by_loss(&self, loss: f64, rtt_s: f64) -> Option<(f64, &'static str)> {
        let (payload, rto_s) = (self.it.payload, self.it.min_rto_s.max(rtt_s));
        let reno = || pftk_bps(payload, rtt_s, PACKETS_PER_GROWTH, loss, rto_s, f64::INFINITY);
        // TCP uses CUBIC unless a flow names another.
        let tcp = (self.flow.kind == FlowKind::Tcp).then_some("cubic");
        match self.flow.cc.as_deref().or(tcp) {
            _ if loss <= 0.0 || loss >= 1.0 => None,
            Some("reno") => Some((reno(), "PFTK")),
            Some("cubic") => Some((cubic_bps(payload, rtt_s, loss), "RFC 9438")),
            _ => None,
        }
    }

    fn beside_datagrams(&self) -> Option<String> {
        let fair = (model("fair-share")?.predict)(&self.it).filter(|_| self.it.datagrams_bps > 0.0)?.value;
        let left = self.it.rate_bps? - self.published * self.it.sharers * self.it.on_link / self.it.payload;
        Some(format!(
            "Datagrams of {} on the link leave {} to this flow; the published rate leaves them {}.",
            rate(self.it.datagrams_bps),
            rate(fair),
            rate(left.max(0.0))
        ))
    }

    fn too_fast(&self) -> Option<String> {
        let rtt_s = self.it.idle_rtt_s();
        let by_loss = self.by_loss(self.it.loss, rtt_s).filter(|(bps, _)| self.published > bps * CLEARLY);
        let window = self.window().filter(|bps| self.published > bps * CLEARLY);
        match (window, by_loss) {
            (Some(bps), by_loss) if by_loss.is_none_or(|(other, _)| bps <= other) => Some(format!(
                "A window of {} in {} allows {}: the published rate needs {} in flight, or a round trip of {}.",
                Unit::Bytes.text(self.it.window?),
                Unit::Time.text(rtt_s),
                rate(bps),
                Unit::Bytes.text(self.published * rtt_s / 8.0),
                Unit::Time.text(self.it.window? * 8.0 / self.published)
            )),
            (_, Some((bps, name))) => Some(format!(
                "By {name}, a loss of {} in {} allows {}: the published rate needs a loss of {}.",
                Unit::Share.text(self.it.loss),
                Unit::Time.text(rtt_s),
                rate(bps),
                Unit::Share.text(self.loss_of_published()?)
            )),
            _ => None,
        }
    }

    /// Returns the loss at which the response function gives the published rate.
    fn loss_of_published(&self) -> Option<f64> {
        let rtt_s = self.it.idle_rtt_s();
        argument(1e-9, self.it.loss, |loss| Some(self.by_loss(loss, rtt_s)?.0 >= self.published))
    }

    fn too_slow(&self, carried: Option<f64>) -> Option<String> {
        let rtt_s = self.it.idle_rtt_s();
        let path = format!("where the path has {}", Unit::Time.text(rtt_s));
        let most = carried.unwrap_or(f64::INFINITY);
        let by_loss = self.by_loss(self.it.loss, rtt_s).filter(|(bps, _)| *bps <= most);
        if let Some(bps) = self.window().filter(|bps| *bps <= most.min(by_loss.map_or(most, |it| it.0))) {
            let rtt = Unit::Time.text(rtt_s * bps / self.published);
            let window = Unit::Bytes.text(self.it.window?);
            return Some(format!("It is a window of {window} in a round trip of {rtt}, {path}."));
        }
        let is_slower = |rtt_s: f64| Some(self.by_loss(self.it.loss, rtt_s)?.0 >= self.published);
        let slower = argument(rtt_s, rtt_s * 1e4, is_slower);
        if let (Some((bps, name)), Some(rtt_s)) = (by_loss, slower)
            && bps > self.published
        {
            let rtt = Unit::Time.text(rtt_s);
            let loss = Unit::Share.text(self.it.loss);
            return Some(format!("By {name}, it is a loss of {loss} in a round trip of {rtt}, {path}."));
        }
        if let Some(rtt_s) = self.rtt_of_transfer() {
            return Some(format!(
                "It is this transfer in a round trip of {}, {path}.",
                Unit::Time.text(rtt_s)
            ));
        }
        None
    }

    /// Returns the share of the link, which says least.
    fn share(&self) -> Option<String> {
        let carried = self.carried()?;
        let share = significant(self.published / carried * 100.0, 3);
        Some(format!("It is {share} % of what the link carries, {} of payload.", rate(carried)))
    }

    /// Returns the round trip in which the model of slow start gives the published time.
    fn rtt_of_transfer(&self) -> Option<f64> {
        let wanted = self.it.bytes? * 8.0 / self.published;
        let time = |rtt_s: f64| {
            let conditions = Conditions { rtt_s, ..self.it.clone() };
            Some((model("slow-start")?.predict)(&conditions)?.value)
        };
        let (least, most) = (self.it.rtt_s.max(1e-5), self.it.rtt_s.max(0.001) * 1000.0);
        if time(least)? > wanted || time(most)? < wanted {
            return None;
        }
        argument(least, most, |rtt_s| Some(time(rtt_s)? < wanted))
    }
}

/// Returns the largest argument between two for which a condition holds, which holds up to it.
fn argument(mut low: f64, mut high: f64, holds: impl Fn(f64) -> Option<bool>) -> Option<f64> {
    for _ in 0..60 {
        let middle = f64::sqrt(low * high);
        if holds(middle)? { low = middle } else { high = middle }
    }
    Some(low)
}

fn rate(bps: f64) -> String {
    Unit::Rate.text(bps)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path() -> Conditions {
        Conditions {
            rate_bps: Some(34e6),
            rtt_s: 0.01,
            payload: 1448.0,
            on_link: 1500.0,
            ack_every: 1.0,
            initial_window: 10.0,
            min_rto_s: 0.2,
            sharers: 1.0,
            ..Conditions::default()
        }
    }

    fn told(it: &Conditions, published: f64, measured: f64) -> String {
        let flow = Flow { cc: Some("reno".to_owned()), ..Flow::new("a") };
        let implied = Implied { it: it.clone(), flow: &flow, published, measured };
        implied.sentence().or_else(|| implied.share()).expect("a sentence")
    }

    #[test]
    fn published_rates_imply_other_conditions() {
        let window = Conditions { window: Some(5000.0), ..path() };
        let text = told(&window, 10.75e6, 2.6e6);
        assert!(text.starts_with("A window of 5000 B in 10.35 ms allows 3.864 Mbit/s: "), "{text}");
        assert!(text.ends_with(" needs 13.91 kB in flight, or a round trip of 3.721 ms."), "{text}");
        let text = told(&window, 2e6, 2.6e6);
        assert_eq!(text, "It is a window of 5000 B in a round trip of 20 ms, where the path has 10.35 ms.");
        let lossy = Conditions { loss: 0.025, ..path() };
        let text = told(&lossy, 20e6, 5e6);
        assert!(text.starts_with("By PFTK, a loss of 2.5 % in 10.35 ms allows "), "{text}");
        let text = told(&lossy, 0.6e6, 1e6);
        assert!(text.starts_with("By PFTK, it is a loss of 2.5 % in a round trip of "), "{text}");
        let text = told(&path(), 33e6, 32.7e6);
        assert!(text.starts_with("It is more than the link carries: 32.82 Mbit/s of payload, "), "{text}");
        let text = told(&path(), 16.41e6, 32.7e6);
        assert_eq!(text, "It is 50 % of what the link carries, 32.82 Mbit/s of payload.");
        let short = Conditions { bytes: Some(1e6), ..path() };
        let text = told(&short, 2e6, 20e6);
        assert!(text.starts_with("It is this transfer in a round trip of "), "{text}");
    }
}
