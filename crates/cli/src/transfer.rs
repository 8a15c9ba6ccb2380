//! One transfer: the machine, its socket and its application, and what there is to say when it is over.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use rdt_driver::{Connected, SocketError, UdpIo, UdpOptions, Waiter, clock, run, send_rest};
use rdt_transport::wire::native::CloseReason;
use rdt_transport::{
    Observer, Phase, ReceiverConfig, Sender, SenderConfig, SenderStats, TransferError, Wire,
};

use crate::console::{Console, talk};
use crate::data::Data;
use crate::debug_log::DebugLog;
use crate::figures::{idle_line, idle_share, link_lines};
use crate::format::megabytes;
use crate::interrupt::Stop;
use crate::local::LocalEnd;
use crate::qlog::{self, QlogFile};
use crate::receive::LAST_WORDS;
use crate::round_trips::RoundTrips;
use crate::send::failed;
use crate::sending::{End, Sending};
use crate::socket::overflow_line;
use crate::status::Status;
use crate::usage::{received_line, sent_line, warnings};
use crate::{Failure, SendArgs, memory};

/// Where and when the lines of a transfer are printed.
pub(crate) struct Pace {
    pub(crate) status: Status,
    pub(crate) interval: Duration,
    pub(crate) start: Instant,
}

/// Whom a transfer is for, and the socket towards it.
#[derive(Clone, Copy)]
pub(crate) struct Remote<'a> {
    pub(crate) host: &'a str,
    pub(crate) address: SocketAddr,
    pub(crate) options: UdpOptions,
}

/// The machine, its socket and its application.
pub(crate) struct Transfer {
    pub(crate) host: String,
    pub(crate) address: SocketAddr,
    pub(crate) sender: Sender,
    pub(crate) socket: Connected,
    waiter: Waiter,
    pub(crate) sending: Sending,
    input: String,
    /// Of `--json`.
    pub(crate) round_trips: Option<RoundTrips>,
    qlog: Option<QlogFile>,
}

impl Transfer {
    pub(crate) fn open(
        args: &SendArgs,
        remote: Remote<'_>,
        config: SenderConfig,
        data: Data,
        pace: Pace,
    ) -> Result<Self, Failure> {
        let Remote { host, address, options } = remote;
        let Pace { status, interval, start } = pace;
        let any: SocketAddr = if address.is_ipv4() {
            (Ipv4Addr::UNSPECIFIED, 0).into()
        } else {
            (Ipv6Addr::UNSPECIFIED, 0).into()
        };
        let io = UdpIo::bind(any, options)?;
        let waiter = Waiter::new(io.socket(), Duration::ZERO).map_err(SocketError::Receive)?;
        let stop = Stop::default();
        stop.add(waiter.waker());
        stop.on_interrupt();
        let input = data.name();
        let source =
            data.source(waiter.waker()).map_err(|error| Failure::Input { name: input.clone(), error })?;
        let mut socket = Connected::new(io, address);
        let mut sender = Sender::with_memory(config, socket.memory())?;
        let mut observers: Vec<Box<dyn Observer>> = Vec::new();
        if args.debug {
            let console = Console::default();
            observers.push(Box::new(DebugLog { console, start, peer: address }));
        }
        let qlog = args.qlog.as_deref().map(|path| QlogFile::create(path, start, address, sender.config()));
        let qlog = qlog.transpose()?;
        observers.extend(qlog.as_ref().map(QlogFile::observer));
        let round_trips = args.json.then(RoundTrips::default);
        if let Some(round_trips) = &round_trips {
            observers.push(Box::new(round_trips.recorder()));
        }
        if !observers.is_empty() {
            sender.observe(Box::new(observers));
        }
        let sending = Sending {
            host: host.into(),
            source: Some(source),
            stop,
            status,
            start,
            opened_at: start,
            syns: 0,
            interval,
            next_line: None,
            end: None,
        };
        Ok(Self { host: host.into(), address, sender, socket, waiter, sending, input, round_trips, qlog })
    }

    pub(crate) fn run(&mut self) -> Result<(), SocketError> {
        // A new sender can be opened.
        let _ = self.sender.open();
        self.sending.opened_at = clock::now();
        run(&mut self.sender, &mut self.socket, &mut self.sending, &mut self.waiter)?;
        // A socket that is full when the user interrupts must not keep the news of it from the receiver.
        send_rest(&mut self.sender, &mut self.socket, &mut self.waiter, LAST_WORDS);
        Ok(())
    }

    /// Prints the last lines and decides how the program ends.
    pub(crate) fn conclude(
        &mut self,
        end: Result<(), SocketError>,
        receiver: Option<&LocalEnd>,
    ) -> Result<(), Failure> {
        let stats = self.sender.stats();
        let end = match end {
            Ok(()) => self.sending.end.take().unwrap_or(End::Interrupted),
            Err(error) => self.socket_failure(&error, &stats),
        };
        let now = clock::now();
        let mut received = None;
        let status = &mut self.sending.status;
        let failure = match end {
            End::Finished { crc } => {
                status.finished(&stats);
                received = Some(crc);
                match Verdict::of(stats.crc, crc) {
                    Verdict::Agreed => None,
                    Verdict::Unchecked => {
                        talk("the receiver did not check the data: it answered checksum 0");
                        None
                    }
                    Verdict::Wrong => Some(Failure::Checksum { ours: stats.crc, theirs: crc }),
                }
            }
            End::Failed { phase, error } => {
                let sentence = self.sentence(&error);
                Some(failed(&self.sending.status, phase, error, sentence))
            }
            End::Unreadable(error) => Some(Failure::Input { name: self.input.clone(), error }),
            End::Interrupted => {
                status.interrupted(now, &stats);
                Some(Failure::Interrupted)
            }
        };
        let failure = qlog::finish(self.qlog.take(), failure);
        let ran = stats.handshake_rtt.is_some() || receiver.is_some();
        if ran && !self.sending.status.is_quiet() {
            talk_about(receiver, self.idle_share(&stats, receiver));
            self.talk_about_socket();
        }
        self.sending.status.summary(&self.summary(&stats, failure.as_ref(), received, receiver));
        failure.map_or(Ok(()), Err)
    }

    /// How its datagrams left.
    fn talk_about_socket(&self) {
        let io = self.socket.io();
        let (stats, offload) = (io.stats(), io.offload());
        for line in warnings(&stats, &offload).into_iter().chain(sent_line(&stats, &offload)) {
            talk(&line);
        }
    }

    fn socket_failure(&self, error: &SocketError, stats: &SenderStats) -> End {
        let phase = match (stats.handshake_rtt, stats.snd_una == stats.snd_nxt) {
            (None, _) => Phase::Connect,
            (_, false) => Phase::Send,
            (_, true) => Phase::Close,
        };
        let number = |e: &io::Error| e.raw_os_error().unwrap_or(0);
        let (arrow, verb, error) = match error {
            SocketError::Send(e) => ("-->", "sendto", TransferError::FailedSend(number(e))),
            SocketError::Receive(e) => ("<--", "recvfrom", TransferError::FailedRecv(number(e))),
            other => unreachable!("a bound socket does not fail to bind: {other}"),
        };
        let time = clock::now().saturating_duration_since(self.sending.start).as_secs_f64();
        if let TransferError::FailedSend(number) | TransferError::FailedRecv(number) = error {
            self.sending.status.text(&format!("[{time:6.3}] {arrow} failed {verb} with {number}"));
        }
        End::Failed { phase, error }
    }

    /// What happened and what to do about it.
    fn sentence(&self, error: &TransferError) -> String {
        let (io, stats) = (self.socket.io().stats(), self.sender.stats());
        let (host, address) = (&self.host, self.address);
        match error {
            TransferError::Timeout { .. } if io.lost_too_big > 0 => format!(
                "packets of {} bytes do not fit the network to {host}: choose a smaller --packet-size",
                self.sender.config().packet_size
            ),
            TransferError::Timeout { attempts, .. } if host == "local" => {
                format!("the link that was asked for let no answer through in {attempts} attempts")
            }
            TransferError::Timeout { packet, attempts } if stats.handshake_rtt.is_some() => {
                self.silence(&stats, *packet, *attempts)
            }
            TransferError::Timeout { .. } if io.unreachable > 0 && io.no_way => {
                format!("the network reports that it has no way to {host} ({address}): check the address")
            }
            TransferError::Timeout { .. } if io.unreachable > 0 => {
                format!("nobody listens at {host} ({address}): start rdt-recv there, or check the port")
            }
            TransferError::Timeout { attempts, .. } => {
                let native = self.sender.config().wire != Wire::Classic;
                let hint = if native {
                    " A receiver of the classic protocol alone wants --wire classic"
                } else {
                    ""
                };
                format!(
                    "no answer from {host} ({address}) after {attempts} attempts: is rdt-recv running there, and does the path let UDP through?{hint}"
                )
            }
            // Without a FIN the receiver stores nothing.
            TransferError::Closed(reason) => {
                let arrived = arrived(&stats, self.sending.source.is_none());
                closed(&format!("{host} ({address})"), *reason, &arrived)
            }
            TransferError::Gone => {
                let arrived = arrived(&stats, self.sending.source.is_none());
                format!("nobody listens at {host} ({address}) any more: rdt-recv ended there; {arrived}")
            }
            TransferError::FailedSend(number) | TransferError::FailedRecv(number) => {
                format!("{host} ({address}): {}", io::Error::from_raw_os_error(*number))
            }
            other => other.to_string(),
        }
    }

    /// Why a receiver that answered once may answer no more.
    fn silence(&self, stats: &SenderStats, packet: u64, attempts: u32) -> String {
        let (host, address) = (&self.host, self.address);
        let size = self.sender.config().packet_size;
        // Reports about SYNs may be from before the receiver started; the SYN that it answered has none.
        let gone = self.socket.io().stats().unreachable >= self.sending.syns;
        if !gone && stats.snd_una == 0 && stats.snd_nxt > 0 && size > ReceiverConfig::REFERENCE_DATAGRAM {
            return format!(
                "no answer from {host} ({address}) to packets of {size} bytes: more than {} needs rdt-recv --no-link or --dummy",
                ReceiverConfig::REFERENCE_DATAGRAM,
            );
        }
        let gone = match self.socket.io().stats().no_way {
            true if gone => "; the network reports that it has no way there",
            false if gone => "; it is gone",
            _ => "",
        };
        if self.sender.config().wire != Wire::Classic {
            let silent = self.sender.config().give_up.as_secs_f64();
            return format!(
                "the receiver at {host} ({address}) stopped answering: no answer for {silent:.1} s, {} bytes were acknowledged{gone}",
                stats.bytes_acked
            );
        }
        format!(
            "the receiver at {host} ({address}) stopped answering: no answer to packet {packet} after {attempts} attempts{gone}"
        )
    }

    /// See [`idle_share`]; only of a link in this process is it known what it did.
    pub(crate) fn idle_share(&self, stats: &SenderStats, receiver: Option<&LocalEnd>) -> Option<f64> {
        idle_share(self.sender.config(), stats, &receiver?.stats.forward)
    }
}

/// What a receiver said when it ended a transfer, what had `arrived` where that matters, and what to do about it.
fn closed(receiver: &str, reason: CloseReason, arrived: &str) -> String {
    if reason == CloseReason::NoConnection {
        return format!(
            "the receiver at {receiver} no longer knows this transfer: it was started anew, or heard nothing from here for too long; {arrived}"
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

/// What is known of a transfer that its receiver did not finish, and what to do about it. `all`: there was nothing more to
/// be sent, so that the receiver may have stored it.
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

/// What the checksum of a FIN-ACK says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Agreed,
    /// A receiver that does not check answers 0.
    Unchecked,
    Wrong,
}

impl Verdict {
    pub(crate) fn of(ours: u32, theirs: u32) -> Self {
        match theirs {
            _ if theirs == ours => Self::Agreed,
            0 => Self::Unchecked,
            _ => Self::Wrong,
        }
    }
}

/// What the embedded receiver's link did, what this host did to it, and what to do about it.
fn receiver_lines(end: &LocalEnd) -> Vec<String> {
    let (forward, reverse) = (&end.stats.forward, &end.stats.reverse);
    let mut lines = if end.seed.is_some() { link_lines(&end.stats) } else { Vec::new() };
    lines.extend(overflow_line("receiver's socket", &end.socket));
    let no_memory = forward.dropped_memory + reverse.dropped_memory;
    if no_memory > 0 {
        lines.push(format!("{no_memory} packets found the link's memory full: a larger --memory holds more"));
    }
    lines.extend(received_line(&end.socket, &end.offload));
    if let Some(seed) = end.seed.filter(|_| forward.dropped_loss + reverse.dropped_loss > 0) {
        lines.push(format!("the same losses again: --seed {seed}"));
    }
    lines
}

/// What the embedded receiver did, and what the process took.
fn talk_about(receiver: Option<&LocalEnd>, idle_share: Option<f64>) {
    for line in receiver.map(receiver_lines).unwrap_or_default() {
        talk(&line);
    }
    if let Some(share) = idle_share {
        talk(&idle_line(share));
    }
    if let Some(peak) = memory::read().peak {
        talk(&format!("peak memory of the process: {:.2} MB", megabytes(peak)));
    }
}

#[cfg(test)]
mod tests {
    use rdt_driver::{GivenUp, Offload, SendCall, UdpStats};
    use rdt_server::{Server, ServerConfig};

    use super::*;

    #[test]
    fn a_receiver_that_answers_0_did_not_check() {
        assert_eq!(Verdict::of(5, 5), Verdict::Agreed);
        assert_eq!(Verdict::of(0, 0), Verdict::Agreed);
        assert_eq!(Verdict::of(5, 0), Verdict::Unchecked);
        assert_eq!(Verdict::of(0, 5), Verdict::Wrong);
    }

    #[test]
    fn what_is_known_of_a_transfer_that_its_receiver_did_not_finish_is_told() {
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

    #[test]
    fn what_this_host_had_no_room_for_is_told_with_its_remedy() {
        let offload = Offload {
            send_call: SendCall::Single,
            send_segments: 1,
            by_reference: false,
            receive_segments: 1,
            given_up: GivenUp::default(),
        };
        let stats = Server::<SocketAddr>::new(ServerConfig::reference(1)).stats();
        let mut end = LocalEnd { seed: Some(1), stats, socket: UdpStats::default(), offload };
        let with = |end: &LocalEnd, word: &str| receiver_lines(end).iter().any(|line| line.contains(word));
        assert!(!with(&end, "--memory") && !with(&end, "sysctl"));
        end.stats.reverse.dropped_memory = 1;
        end.socket.receive_overflow = Some(7);
        assert!(with(&end, "--memory"));
        assert!(with(&end, "7 messages (up to 64 datagrams each) found the receiver's socket buffer"));
        assert_eq!(crate::summary::receiver_json(&end)["socket"]["receive_overflow_messages"], 7);
        assert!(with(&end, "forward link") && crate::summary::receiver_json(&end)["forward"].is_object());
        end.seed = None;
        assert!(!with(&end, "forward link") && crate::summary::receiver_json(&end)["forward"].is_null());
    }
}
