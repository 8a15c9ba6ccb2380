//! Congestion controllers by name, and the factory for a controller from outside this crate.
//!
//! A new built-in controller has a variant here, a `mod` line in `congestion.rs` and a line in the
//! `--cc` help text. A user's own controller needs no edit: see [`ControllerFactory`].

use std::fmt;
use std::str::FromStr;

use std::time::Duration;

use super::bbr::{Bbr, BbrConfig};
use super::{Controller, Cubic, Fixed, Reno};

/// Built-in controller; option values: `fixed:N`, `reno`, `cubic`, `bbr`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Algorithm {
    /// A constant window, in packets.
    Fixed(u32),
    /// RFC 5681.
    Reno,
    /// RFC 9438 with `HyStart++` (RFC 9406).
    Cubic,
    /// BBR version 3 (draft-ietf-ccwg-bbr).
    #[default]
    Bbr,
}

/// Initial parameters of a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    /// Bytes of stream in a full segment.
    pub mss: u64,
    /// Initial window, packets; `Fixed` ignores it.
    pub initial_window: u32,
    /// Window after a retransmission timeout, packets; `Fixed` and `Bbr` ignore it.
    pub loss_window: u32,
    /// True if the sender paces.
    pub paced: bool,
    /// Handshake RTT, once known.
    pub rtt: Option<Duration>,
    /// Window with which an earlier connection to the same host filled the path, or its share for
    /// this one, bytes; 0 if there was none (RFC 9040). A paced sender may begin with it.
    pub known_window: u64,
    /// Seed of the controller's random choices.
    pub seed: u64,
}

/// Builds the congestion controller of a sender: the plug-in point for algorithms from outside this
/// crate.
///
/// Set it as [`SenderConfig::controller_factory`](crate::SenderConfig::controller_factory).
/// Closures of this signature implement it. Called while the sender or the set of connections is
/// locked: must not wait, and must not call them.
pub trait ControllerFactory: Send + Sync {
    /// Returns a controller in its initial state. A sender calls this twice: before the handshake,
    /// and again when the handshake has measured the path ([`Start::rtt`]).
    fn build(&self, start: Start) -> Box<dyn Controller>;
}

impl<F: Fn(Start) -> Box<dyn Controller> + Send + Sync> ControllerFactory for F {
    fn build(&self, start: Start) -> Box<dyn Controller> {
        self(start)
    }
}

impl fmt::Debug for dyn ControllerFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ControllerFactory")
    }
}

impl Algorithm {
    /// Returns a controller in its initial state.
    pub fn build(self, start: Start) -> Box<dyn Controller> {
        let Start { mss, initial_window, loss_window, paced, rtt, known_window, seed } = start;
        // Without pacing, a larger initial window would be sent as one burst.
        let known_window = if paced { known_window } else { 0 };
        let known_packets = u32::try_from(known_window / mss.max(1)).unwrap_or(u32::MAX);
        let first = initial_window.max(known_packets);
        match self {
            Self::Fixed(packets) => Box::new(Fixed::new(mss, packets)),
            Self::Reno => {
                let mut reno = Reno::new(mss, first);
                (reno.paced, reno.loss_window) = (paced, loss_window.max(1));
                Box::new(reno)
            }
            Self::Cubic => {
                let mut cubic = Cubic::new(mss, first, paced);
                cubic.loss_window = loss_window.max(1);
                Box::new(cubic)
            }
            Self::Bbr => {
                let initial_cwnd = u64::from(initial_window.max(1)) * mss;
                let config = BbrConfig { known_window, ..BbrConfig::new(mss, initial_cwnd, seed) };
                Box::new(Bbr::new(BbrConfig { initial_rtt: rtt, long_start: paced, ..config }))
            }
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(packets) => write!(f, "fixed:{packets}"),
            Self::Reno => f.write_str("reno"),
            Self::Cubic => f.write_str("cubic"),
            Self::Bbr => f.write_str("bbr"),
        }
    }
}

impl FromStr for Algorithm {
    type Err = AlgorithmError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (name, value) = match text.split_once(':') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        let algorithm = match name {
            "fixed" => {
                let packets = value.and_then(|value| value.parse().ok()).filter(|packets| *packets > 0);
                return packets.map(Self::Fixed).ok_or(AlgorithmError::FixedWindow);
            }
            "reno" => Self::Reno,
            "cubic" => Self::Cubic,
            "bbr" => Self::Bbr,
            _ => return Err(AlgorithmError::Unknown(text.to_owned())),
        };
        match value {
            None => Ok(algorithm),
            Some(_) => Err(AlgorithmError::TakesNoValue(algorithm)),
        }
    }
}

/// Parse error of a controller name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AlgorithmError {
    /// `fixed` without a valid number.
    #[error("fixed needs a window in packets, as in fixed:64")]
    FixedWindow,
    /// Value given to a controller that has none.
    #[error("{0} takes no value; write just {0}")]
    TakesNoValue(Algorithm),
    /// Unknown name.
    #[error("there is no congestion control named {0:?}; it is fixed:N, reno, cubic or bbr")]
    Unknown(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for (text, algorithm) in [
            ("fixed:1", Algorithm::Fixed(1)),
            ("fixed:64", Algorithm::Fixed(64)),
            ("reno", Algorithm::Reno),
            ("cubic", Algorithm::Cubic),
            ("bbr", Algorithm::Bbr),
        ] {
            assert_eq!(text.parse(), Ok(algorithm));
            assert_eq!(algorithm.to_string(), text);
        }
    }

    #[test]
    fn parse_errors_name_valid_input() {
        for (text, sentence) in [
            ("fixed", "fixed needs a window in packets, as in fixed:64"),
            ("fixed:", "fixed needs a window in packets, as in fixed:64"),
            ("fixed:0", "fixed needs a window in packets, as in fixed:64"),
            ("fixed:-3", "fixed needs a window in packets, as in fixed:64"),
            ("fixed:4294967296", "fixed needs a window in packets, as in fixed:64"),
            ("reno:3", "reno takes no value; write just reno"),
            ("cubic:", "cubic takes no value; write just cubic"),
            ("Vegas", "there is no congestion control named \"Vegas\"; it is fixed:N, reno, cubic or bbr"),
            ("", "there is no congestion control named \"\"; it is fixed:N, reno, cubic or bbr"),
        ] {
            assert_eq!(text.parse::<Algorithm>().unwrap_err().to_string(), sentence, "{text:?}");
        }
    }

    #[test]
    fn controllers_start_with_requested_window() {
        for (algorithm, cwnd, phase) in [
            (Algorithm::Fixed(64), 64_000, "fixed"),
            (Algorithm::Reno, 10_000, "slow_start"),
            (Algorithm::Cubic, 10_000, "slow_start"),
            (Algorithm::Bbr, 10_000, "startup"),
        ] {
            let start = Start {
                mss: 1000,
                initial_window: 10,
                loss_window: 1,
                paced: true,
                rtt: None,
                known_window: 0,
                seed: 1,
            };
            let controller = algorithm.build(start);
            assert_eq!((controller.cwnd(), controller.phase()), (cwnd, phase), "{algorithm}");
        }
    }
}
