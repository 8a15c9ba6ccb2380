//! Options of the native format. A new option needs a field in [`NativeArgs`] and a line in
//! [`NativeArgs::apply`].

use std::time::Duration;

use clap::Args;
use rdt_program::Failure;
use rdt_transport::congestion::Algorithm;
use rdt_transport::{AckConfig, LossDetection, LossWindow, RtoPolicy, SenderConfig};

use super::{Switch, usage, values};

pub(super) const HEADING: &str = "Options of the native format";

/// Largest idle timeout of a connection.
pub(crate) const MAX_GIVE_UP: Duration = Duration::from_secs(86_400);

#[derive(Debug, Args)]
pub(crate) struct NativeArgs {
    /// Congestion control: fixed:N (packets), reno, cubic or bbr [default: bbr; fixed:W if W is
    /// given]
    #[arg(long, help_heading = HEADING, value_name = "NAME", value_parser = values::congestion)]
    pub(crate) cc: Option<Algorithm>,
    /// Loss detection: rack, sack, newreno, reno, tahoe or base-only [default: rack]
    #[arg(long, help_heading = HEADING, value_name = "NAME", value_parser = values::recovery)]
    pub(crate) recovery: Option<LossDetection>,
    /// Selective ACKs; `off` means --recovery newreno, or the one given that reads none [default:
    /// on]
    #[arg(long, help_heading = HEADING, value_enum, value_name = "on|off", hide_possible_values = true)]
    pub(crate) sack: Option<Switch>,
    /// First congestion window, at least 1 [default: 10]
    #[arg(long, help_heading = HEADING, value_name = "PACKETS", allow_negative_numbers = true, value_parser = values::initial_window)]
    pub(crate) initial_window: Option<u32>,
    /// Congestion window after a timeout, for --cc reno and cubic: one packet (`1`) or the first
    /// window (`initial`) [default: 1]
    #[arg(long, help_heading = HEADING, value_name = "1|initial", value_parser = values::loss_window)]
    pub(crate) loss_window: Option<LossWindow>,
    /// Smallest retransmission timeout, at least 1ms [default: 200ms]
    #[arg(long, help_heading = HEADING, value_name = "TIME", value_parser = values::timeout("--min-rto"))]
    pub(crate) min_rto: Option<Duration>,
    /// Largest retransmission timeout after back-off; a timeout that is longer without back-off
    /// stays (RFC 6298: 60s) [default: 1s]
    #[arg(long, help_heading = HEADING, value_name = "TIME", value_parser = values::timeout("--max-rto"))]
    pub(crate) max_rto: Option<Duration>,
    /// Pacing: packets are spread over the round trip [default: on]
    #[arg(long, help_heading = HEADING, value_enum, value_name = "on|off", hide_possible_values = true)]
    pub(crate) pacing: Option<Switch>,
    /// ECN: routers may mark packets instead of dropping them, if path and receiver support it. Not
    /// with --cc fixed:N [default: on]
    #[arg(long, help_heading = HEADING, value_enum, value_name = "on|off", hide_possible_values = true)]
    pub(crate) ecn: Option<Switch>,
    /// Largest window of the embedded receiver (HOST `local`), at least 1432 (a packet) [default:
    /// 1/8 of its memory]
    #[arg(long, help_heading = HEADING, value_name = "SIZE", value_parser = values::rwnd)]
    pub(crate) rwnd: Option<u64>,
    /// ACKs of the embedded receiver (HOST `local`): one for COUNT packets in order, or TIME after
    /// the first of them, whatever the sender requests: 1/0ms, 2/25ms [default: 2/25ms, or as
    /// requested]
    #[arg(long, help_heading = HEADING, value_name = "COUNT/TIME", value_parser = values::ack)]
    pub(crate) ack: Option<AckConfig>,
    /// Give up after this long without an answer from the receiver (at least 1s) [default: 100s]
    #[arg(long, help_heading = HEADING, value_name = "TIME", value_parser = values::give_up("--give-up"))]
    pub(crate) give_up: Option<Duration>,
    /// Give up after this long without an answer to the SYN (at least 1s) [default: --give-up if
    /// given, else 180s]
    #[arg(long, help_heading = HEADING, value_name = "TIME", value_parser = values::give_up("--connect-give-up"))]
    pub(crate) connect_give_up: Option<Duration>,
}

impl NativeArgs {
    /// Writes the options into `config`. W (`window`) is a fixed window unless `--cc` is given.
    pub(crate) fn apply(&self, config: &mut SenderConfig, window: Option<u32>) -> Result<(), Failure> {
        let congestion = self.cc.unwrap_or_else(|| window.map_or_else(Algorithm::default, Algorithm::Fixed));
        config.congestion = congestion;
        config.recovery = self.recovery()?;
        config.pacing = self.pacing != Some(Switch::Off);
        config.ecn = self.ecn != Some(Switch::Off);
        if let (Some(Switch::On), Algorithm::Fixed(_)) = (self.ecn, congestion) {
            return Err(usage(format!(
                "--ecn on needs congestion control that slows down for marks: it does not go with --cc {congestion}"
            )));
        }
        match (self.initial_window, congestion) {
            (Some(_), Algorithm::Fixed(_)) => {
                return Err(usage(format!(
                    "--initial-window says nothing with --cc {congestion}, whose window is fixed"
                )));
            }
            (initial_window, _) => config.initial_window = initial_window.unwrap_or(config.initial_window),
        }
        self.apply_timeouts(config)?;
        config.handshake_give_up = self.connect_give_up.or(self.give_up).unwrap_or(config.handshake_give_up);
        config.give_up = self.give_up.unwrap_or(config.give_up);
        config.window = match congestion {
            Algorithm::Fixed(packets) => packets,
            _ => config.largest_window(),
        };
        Ok(())
    }

    /// Writes the rules of the retransmission timeout into `config`, whose controller is chosen.
    fn apply_timeouts(&self, config: &mut SenderConfig) -> Result<(), Failure> {
        let congestion = config.congestion;
        if self.loss_window.is_some() && !matches!(congestion, Algorithm::Reno | Algorithm::Cubic) {
            return Err(usage(format!(
                "--loss-window goes with --cc reno or cubic: {congestion} has its own window after a timeout"
            )));
        }
        config.loss_window = self.loss_window.unwrap_or_default();
        if let RtoPolicy::Rfc6298 { min, backoff_max } = config.rto {
            config.rto = RtoPolicy::Rfc6298 {
                min: self.min_rto.unwrap_or(min),
                backoff_max: self.max_rto.unwrap_or(backoff_max),
            };
        }
        Ok(())
    }

    fn recovery(&self) -> Result<LossDetection, Failure> {
        let needs_sack =
            self.recovery.is_none_or(|rule| matches!(rule, LossDetection::Rack | LossDetection::Sack));
        match (self.sack, self.recovery) {
            (Some(Switch::Off), Some(rule)) if needs_sack => Err(usage(format!(
                "--recovery {rule} goes by selective ACKs, which --sack off leaves unread"
            ))),
            (Some(Switch::On), Some(rule)) if !needs_sack => {
                Err(usage(format!("--recovery {rule} reads no selective ACKs: leave --sack on away")))
            }
            (Some(Switch::Off), None) => Ok(LossDetection::NewReno),
            (_, recovery) => Ok(recovery.unwrap_or(LossDetection::Rack)),
        }
    }
}
