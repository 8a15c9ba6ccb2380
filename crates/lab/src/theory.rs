//! Models of goodput and times, to draw beside measurements. Each has its source and the conditions
//! for which it holds. Outside of them it returns a value all the same, marked as not valid.
//!
//! | question | file |
//! |---|---|
//! | conditions of a flow: rate, round trip, loss, window | `conditions.rs` |
//! | limits by window and link | `window.rs` |
//! | limits by random loss | `loss.rs` |
//! | time of a short transfer | `window.rs` |
//! | flows that share a link | `sharing.rs` |
//! | 802.11 airtime | `airtime.rs` |

mod airtime;
mod conditions;
mod loss;
mod sharing;
mod window;

pub use airtime::{AIRTIME_PARTS, airtime_parts};
pub use conditions::Conditions;
pub use loss::{PACKETS_PER_GROWTH, cubic_bps, pftk_bps};

/// Value of a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// The value, in the unit of the metric.
    pub value: f64,
    /// True if the conditions are within the range for which the model holds.
    pub valid: bool,
}

/// A model of one metric of a flow.
#[derive(Debug, Clone, Copy)]
pub struct Model {
    /// Word in experiment files: `theory = ["mathis"]`.
    pub name: &'static str,
    /// What the model is, in the legend of a figure: `window / RTT`.
    pub legend: &'static str,
    /// Metric that the model predicts: `goodput`, `completion`, `rtt-mean`.
    pub metric: &'static str,
    /// Formula in words or symbols.
    pub formula: &'static str,
    /// Where the model is published.
    pub source: &'static str,
    /// Conditions for which the model holds.
    pub range: &'static str,
    /// Returns the prediction. `None` if the model has no value, as a model of loss without loss.
    pub predict: fn(&Conditions) -> Option<Prediction>,
}

/// All models.
pub const MODELS: &[Model] = &[
    Model {
        name: "window",
        legend: "min(window / RTT, link)",
        metric: "goodput",
        formula: "min(W / RTT, C), with whole packets in W, and in RTT the time to send one",
        source: "RFC 9293, section 3.8.6",
        range: "no loss, window fixed",
        predict: window::window,
    },
    Model {
        name: "window-over-rtt",
        legend: "window / RTT",
        metric: "goodput",
        formula: "W / RTT, with the bytes of W and the RTT of the path alone",
        source: "RFC 9293, section 3.8.6, without the time to send a packet",
        range: "no loss, window fixed, link not full",
        predict: window::window_over_rtt,
    },
    Model {
        name: "link",
        legend: "payload that the link carries",
        metric: "goodput",
        formula: "C times the share of payload in a packet on the link",
        source: "lengths of headers",
        range: "one flow without loss whose window fills the link",
        predict: window::link,
    },
    Model {
        name: "rtt-of-window",
        legend: "max(RTT, window / link)",
        metric: "rtt-mean",
        formula: "max(RTT, W / C)",
        source: "Little's law",
        range: "no loss, window fixed, queue deep enough",
        predict: window::rtt_of_window,
    },
    Model {
        name: "mathis",
        legend: "response to loss, Mathis 1997",
        metric: "goodput",
        formula: "MSS / RTT * sqrt(3 / (2 b p)), b = 1",
        source: "Mathis, Semke, Mahdavi, Ott, 1997",
        range: "Reno, 0 < p <= 2 %, no timeouts, link not full",
        predict: loss::mathis,
    },
    Model {
        name: "pftk",
        legend: "response to loss with timeouts, PFTK",
        metric: "goodput",
        formula: "full formula with timeouts and a limit by the receiver's window, b = 1",
        source: "Padhye, Firoiu, Towsley, Kurose, 2000",
        range: "Reno, 0 < p <= 20 %, link not full",
        predict: loss::pftk,
    },
    Model {
        name: "cubic",
        legend: "response of CUBIC to loss, RFC 9438",
        metric: "goodput",
        formula: "max of the CUBIC and the Reno-friendly response",
        source: "RFC 9438, sections 4.3 and 5.1",
        range: "CUBIC, 0 < p <= 2 %, no timeouts, link not full",
        predict: loss::cubic,
    },
    Model {
        name: "slow-start",
        legend: "slow start, Cardwell 2000",
        metric: "completion",
        formula: "handshake + rounds of slow start + rest at the link's rate",
        source: "Cardwell, Savage, Anderson, 2000",
        range: "no loss",
        predict: window::slow_start,
    },
    Model {
        name: "airtime",
        legend: "802.11 airtime",
        metric: "goodput",
        formula: "payload / airtime of the frames of a packet",
        source: "IEEE Std 802.11-2020, clauses 10.3 and 17",
        range: "one saturated UDP flow in an 802.11 cell",
        predict: airtime::airtime,
    },
    Model {
        name: "headers",
        legend: "airtime of 1500 bytes, more or fewer headers",
        metric: "goodput",
        formula: "airtime of a packet of 1500 bytes, with the share of payload in a frame of this length",
        source: "report 003, exercise 4",
        range: "one saturated UDP flow of packets of 1500 bytes; it takes the rate of the air as equal for all lengths",
        predict: airtime::headers,
    },
    Model {
        name: "fragments",
        legend: "mean length of fragments",
        metric: "bytes-per-packet",
        formula: "mean length of the packets of a datagram",
        source: "RFC 8200, section 4.5",
        range: "flows of datagrams",
        predict: airtime::fragments,
    },
    Model {
        name: "fair-share",
        legend: "equal shares of the link",
        metric: "goodput",
        formula: "what datagrams leave of C, divided by the number of flows with feedback",
        source: "Chiu and Jain, 1989; order of arrival in one queue",
        range: "all flows send for the whole run, no loss but in the queue",
        predict: sharing::fair_share,
    },
    Model {
        name: "udp-knee",
        legend: "min(offered, link)",
        metric: "goodput",
        formula: "min(offered, payload that the link or the air carries)",
        source: "lengths of headers; IEEE Std 802.11-2020, clauses 10.3 and 17",
        range: "no send buffer that blocks; fragments only below the knee",
        predict: sharing::udp_knee,
    },
];

/// Returns the model of this name.
pub fn model(name: &str) -> Option<&'static Model> {
    MODELS.iter().find(|model| model.name == name)
}
