//! Error messages of a failed transfer, with a remedy.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use rdt_transport::wire::native::CloseReason;
use rdt_transport::{
    Closed, Phase, ReceiverConfig, RefuseReason, SenderConfig, SenderStats, TransferError, Wire,
};
use rdt_trust::services::Speaker;
use rdt_udp::{Shown, UdpStats};

use crate::connection::idle_timeout;

/// State of a transfer at its failure, from which the message is chosen.
pub(super) struct ErrorContext<'a> {
    pub(super) host: &'a str,
    pub(super) address: SocketAddr,
    pub(super) config: &'a SenderConfig,
    pub(super) stats: SenderStats,
    pub(super) socket: UdpStats,
    pub(super) syns: u64,
    pub(super) all_read: bool,
}

impl ErrorContext<'_> {
    /// Translates the end of a connection to the failure of its transfer.
    pub(super) fn closed(&self, closed: &Closed) -> (Phase, TransferError, String) {
        let (stats, is_connected) = (&self.stats, self.stats.handshake_rtt.is_some());
        let attempts = if is_connected { 1 } else { u32::try_from(self.syns).unwrap_or(u32::MAX) };
        let timeout = TransferError::Timeout { packet: stats.snd_una, attempts };
        let phase = match closed {
            Closed::TimedOut(phase) => *phase,
            Closed::Refused(_) | Closed::Version(_) | Closed::NotTrusted(_) | Closed::Handshake => {
                Phase::Connect
            }
            _ if !is_connected => Phase::Connect,
            _ if self.all_read && stats.bytes_acked == stats.bytes_written => Phase::Close,
            _ => Phase::Send,
        };
        let error = match closed {
            Closed::Peer { reason, .. } => TransferError::Closed(*reason),
            Closed::Refused(RefuseReason::Busy) => TransferError::Closed(CloseReason::Refused),
            Closed::Refused(reason) => TransferError::Closed(CloseReason::from_code(reason.code())),
            Closed::Reset => TransferError::Closed(CloseReason::NoConnection),
            Closed::Unreachable => TransferError::Gone,
            Closed::NoProgress(limit) => TransferError::NoProgress(*limit),
            Closed::InvalidAcks => TransferError::InvalidAcks,
            Closed::Version(versions) => TransferError::Version(*versions),
            Closed::TimedOut(_) | Closed::Idle => timeout,
            _ => TransferError::Protocol,
        };
        let sentence = match closed {
            Closed::Idle => self.silence_of(idle_timeout(self.config), ""),
            Closed::AeadLimit => {
                format!("the transfer to {} ended: {closed}", self.receiver())
            }
            // The text of a peer is escaped.
            Closed::Peer { text, .. } if !text.is_empty() => {
                format!("the receiver at {} closed the transfer: {}", self.receiver(), text.escape_debug())
            }
            Closed::Refused(RefuseReason::OtherService(service)) => {
                format!("{} is {}", self.receiver(), Speaker(*service))
            }
            Closed::Refused(RefuseReason::Unencrypted) => format!(
                "the receiver at {} takes encrypted transfers alone: leave out --insecure, or start it with --insecure, too",
                self.receiver()
            ),
            _ => self.sentence(&error),
        };
        (phase, error, sentence)
    }

    fn receiver(&self) -> String {
        format!("{} ({})", self.host, Shown(self.address))
    }

    pub(super) fn sentence(&self, error: &TransferError) -> String {
        let receiver = self.receiver();
        let arrived = arrived(&self.stats, self.all_read);
        match error {
            TransferError::Timeout { packet, attempts } => self.timeout(*packet, *attempts),
            // The receiver stores nothing before the FIN arrives.
            TransferError::Closed(reason) => closed(&receiver, *reason, &arrived),
            TransferError::Gone if self.stats.handshake_rtt.is_none() => nobody_listens(&receiver),
            TransferError::Gone => {
                format!("no program listens at {receiver} any more: rdt-recv ended there; {arrived}")
            }
            TransferError::NoProgress(limit) => format!(
                "the receiver at {receiver} answers, but took nothing for {:.0} s: what does it wait for? --no-progress allows more time; {arrived}",
                limit.as_secs_f64(),
            ),
            TransferError::InvalidAcks => format!(
                "the receiver at {receiver} acknowledged packets that it cannot have: it is broken, or cheats; {arrived}"
            ),
            TransferError::Version(versions) => format!(
                "{receiver} speaks {versions} of the native format, which this program does not: update the older of the two"
            ),
            TransferError::Protocol => format!("the receiver at {receiver} broke the protocol; {arrived}"),
            TransferError::FailedSend(number) | TransferError::FailedRecv(number) => {
                format!("{receiver}: {}", io::Error::from_raw_os_error(*number))
            }
            other => other.to_string(),
        }
    }

    fn timeout(&self, packet: u64, attempts: u32) -> String {
        let (Self { host, config, socket, .. }, receiver) = (self, self.receiver());
        if socket.lost_too_big > 0 {
            let size = config.packet_size;
            return format!(
                "packets of {size} bytes do not fit the network to {host}: choose a smaller --packet-size"
            );
        }
        if *host == "local" {
            let native = config.wire == Wire::Native;
            let times = if native { String::new() } else { format!(" in {attempts} attempts") };
            return format!("the link that was asked for let no answer through{times}");
        }
        if self.stats.handshake_rtt.is_some() {
            return self.silence(packet, attempts);
        }
        if socket.unreachable > 0 && socket.no_route {
            return format!("the network reports that it has no way to {receiver}: check the address");
        }
        if socket.unreachable > 0 {
            return nobody_listens(&receiver);
        }
        if let Some(number) = socket.refusal.filter(|_| socket.sent == 0) {
            let error = io::Error::from_raw_os_error(number);
            return format!("this host could not send to {receiver}: {error}. It was tried {attempts} times");
        }
        let hint = match config.wire {
            Wire::Classic => {
                "An rdt-recv that stores files takes classic transfers only with its option --insecure"
            }
            Wire::Native => "A receiver of the classic protocol alone wants --wire classic",
        };
        format!(
            "no answer from {receiver} after {attempts} attempts: is rdt-recv running there, and does the path let UDP through? {hint}"
        )
    }

    fn silence_of(&self, time: Duration, gone: &str) -> String {
        format!(
            "the receiver at {} stopped answering: no answer for {:.1} s, {} bytes were acknowledged{gone}",
            self.receiver(),
            time.as_secs_f64(),
            self.stats.bytes_acked
        )
    }

    fn silence(&self, packet: u64, attempts: u32) -> String {
        let Self { config, stats, socket, .. } = self;
        let (receiver, size) = (self.receiver(), config.packet_size);
        // ICMP errors of earlier SYNs may date from before the receiver's start; the answered SYN
        // caused none. So as many errors as SYNs show that the receiver ended later.
        let gone = socket.unreachable >= self.syns;
        if !gone && stats.snd_una == 0 && stats.snd_nxt > 0 && size > ReceiverConfig::REFERENCE_DATAGRAM {
            return format!(
                "no answer from {receiver} to packets of {size} bytes: more than {} needs rdt-recv --no-link or --dummy",
                ReceiverConfig::REFERENCE_DATAGRAM,
            );
        }
        let gone = match socket.no_route {
            true if gone => "; the network reports that it has no way there",
            false if gone => "; it is gone",
            _ => "",
        };
        if config.wire != Wire::Classic {
            return self.silence_of(config.give_up, gone);
        }
        format!(
            "the receiver at {receiver} stopped answering: no answer to packet {packet} after {attempts} attempts{gone}"
        )
    }
}

fn nobody_listens(receiver: &str) -> String {
    format!("no program listens at {receiver}: start rdt-recv there, or check the port")
}

fn closed(receiver: &str, reason: CloseReason, arrived: &str) -> String {
    if reason == CloseReason::NoConnection {
        return format!(
            "the receiver at {receiver} no longer knows this transfer: it was restarted, or got no packet for its idle timeout; {arrived}"
        );
    }
    let help = match reason {
        CloseReason::Refused => ": try again later, or raise its --max-peers",
        CloseReason::Version => ": one of the two programs is too old",
        CloseReason::Storage => ": see what it printed",
        CloseReason::Idle => ": this program was stopped, or the path was broken for long",
        CloseReason::Aborted => &format!(": it was stopped, or had to end; {arrived}"),
        _ => "",
    };
    format!("the receiver at {receiver} closed the transfer: {reason}{help}")
}

/// Describes the delivered bytes of an unfinished transfer. If `all` (the source was read to its
/// end) and every byte was acknowledged, the receiver may have stored the transfer.
fn arrived(stats: &SenderStats, all: bool) -> String {
    if all && stats.bytes_acked == stats.bytes_written {
        format!(
            "all {} bytes sent had arrived, but it is not known whether they were stored: look there before you send them again",
            stats.bytes_acked
        )
    } else {
        format!("{} bytes had arrived, which are not all: send everything again", stats.bytes_acked)
    }
}

#[cfg(test)]
mod tests {
    use rdt_transport::wire::native::Versions;
    use rdt_trust::services::COPIES;

    use super::*;

    #[test]
    fn end_of_connection_gives_phase_and_sentence() {
        let config = SenderConfig::native(1);
        let stats = SenderStats {
            handshake_rtt: Some(Duration::from_millis(1)),
            bytes_written: 9,
            bytes_acked: 4,
            ..SenderStats::default()
        };
        let context = ErrorContext {
            host: "h",
            address: "192.0.2.1:1".parse().unwrap(),
            config: &config,
            stats,
            socket: UdpStats::default(),
            syns: 2,
            all_read: true,
        };
        for (end, phase, status, part) in [
            (Closed::Version(Versions::OURS), Phase::Connect, 8, "update the older of the two"),
            (Closed::Refused(RefuseReason::Unencrypted), Phase::Connect, 8, "start it with --insecure, too"),
            (Closed::Refused(RefuseReason::Busy), Phase::Connect, 8, "takes no further transfer"),
            (Closed::Refused(RefuseReason::OtherService(COPIES)), Phase::Connect, 8, "use rdt-copy"),
            (Closed::Handshake, Phase::Connect, 8, "broke the protocol"),
            (Closed::Reset, Phase::Send, 8, "no longer knows this transfer"),
            (Closed::Unreachable, Phase::Send, 5, "no program listens at h"),
            (Closed::Idle, Phase::Send, 5, "no answer for 100.0 s"),
            (Closed::NoProgress(Duration::from_secs(7)), Phase::Send, 5, "took nothing for 7 s"),
            (Closed::InvalidAcks, Phase::Send, 8, "cheats"),
            (Closed::AeadLimit, Phase::Send, 8, "a limit of the encryption"),
            (Closed::TimedOut(Phase::Close), Phase::Close, 5, "stopped answering"),
        ] {
            let (found, error, sentence) = context.closed(&end);
            assert_eq!((found, error.status()), (phase, status), "{end:?}");
            assert!(sentence.contains(part), "{end:?}: {sentence}");
        }
    }

    #[test]
    fn unfinished_transfer_sentence_tells_delivered_bytes() {
        let stats = |acked, written| SenderStats {
            bytes_acked: acked,
            bytes_written: written,
            snd_una: acked,
            snd_nxt: written,
            ..SenderStats::default()
        };
        let not_all = "5 bytes had arrived, which are not all: send everything again";
        assert_eq!([arrived(&stats(5, 9), true), arrived(&stats(5, 5), false)], [not_all, not_all]);
        assert!(arrived(&stats(9, 9), true).starts_with("all 9 bytes sent had arrived, but it is not known"));
        for reason in [CloseReason::NoConnection, CloseReason::Aborted] {
            let sentence = closed("h", reason, not_all);
            assert!(sentence.ends_with(&format!("; {not_all}")), "{sentence}");
        }
        assert!(
            !closed("h", CloseReason::Storage, not_all).contains(not_all),
            "that says why nothing is kept"
        );
    }
}
