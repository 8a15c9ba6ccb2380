//! One transfer with its sender, socket and application. Prints the last lines, and maps the
//! outcome to an exit code.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdt_endpoint::thread::{run, send_memory, send_rest};
use rdt_program::{Console, Failure, Stop, talk};
use rdt_transport::{
    Closed, ConfigError, FramePool, InitiatorConfig, Observer, Phase, SenderConfig, SenderStats,
    TransferError, Wire,
};
use rdt_trust::{ADDRESS_GIVE_UP, Attempt, AttemptEnd, Candidates, ChangedKeyProof, Dialer, bind_towards};
use rdt_udp::{Connected, SocketError, UdpIo, UdpOptions, UdpStats, Waiter, clock};

use super::app::SenderApp;
use super::error_text::ErrorContext;
use super::sending::{Outcome, Sending};
use crate::args::SendArgs;
use crate::args::Switch;
use crate::data::Data;
use crate::exit::{CHECKSUM, transfer_failure};
use crate::host::Found;
use crate::lines::Lines;
use crate::output::counters::{idle_line, idle_share};
use crate::output::format::{megabytes, ms};
use crate::output::limit::Limited;
use crate::output::packet_log::PacketLog;
use crate::output::qlog_file::{self, QlogFile, or_unwritten};
use crate::output::receiver_report::ReceiverReport;
use crate::output::rtt_histogram::RttQuantiles;
use crate::output::sockets::{sent_line, warnings};
use crate::output::status::CsvFile;
use crate::output::status::Status;
use crate::output::summary::{ChecksumCheck, Summary};
use crate::output::transfer_bar::TransferBar;
use crate::parallel::Ended;
use crate::socket::FLUSH_TIMEOUT;
use crate::{resources, socket};

pub(crate) struct Transfer<S> {
    candidates: Candidates<Closed>,
    key_proof: ChangedKeyProof<Closed>,
    is_debug: bool,
    is_local: bool,
    config: SenderConfig,
    /// Check of the receiver's key; `None` without encryption, and for HOST `local`.
    dialer: Option<Arc<Dialer>>,
    sender: S,
    pub(crate) socket: Connected,
    /// Counters of the socket when the present address was first tried.
    earlier: UdpStats,
    waiter: Waiter,
    sending: SenderApp,
    input: String,
    qlog: Option<QlogFile>,
}

impl<S: Sending> Transfer<S> {
    /// Prepares a transfer. `open` creates its sender, which gives the first address so much time
    /// for an answer. Its stream takes frames from the pool. Ctrl-C sets `stop`.
    pub(crate) fn open(
        args: &SendArgs,
        found: &Found,
        config: SenderConfig,
        (data, mut status, stop): (Data, Status, Stop),
        open: impl FnOnce(SenderConfig, Duration, FramePool) -> Result<S, ConfigError>,
    ) -> Result<Self, Failure> {
        let options = socket_options(args, &config);
        let addresses = match config.wire {
            // As the reference does.
            Wire::Classic => &found.addresses[..1],
            Wire::Native => &found.addresses[..],
        };
        let io = bind_towards(addresses, |any| UdpIo::bind(any, options))?;
        let is_ipv4 = io.local_addr().is_ok_and(|local| local.is_ipv4());
        let reached: Vec<_> = addresses.iter().copied().filter(|to| to.is_ipv4() || !is_ipv4).collect();
        let candidates = Candidates::new(clock::now(), &reached, config.handshake_give_up)
            .ok_or_else(|| Failure::usage("the receiver has no address"))?;
        let Attempt { address, give_up } = candidates.current();
        let waiter = Waiter::new(io.socket(), Duration::ZERO).map_err(SocketError::Receive)?;
        stop.add(waiter.waker());
        let input = data.name();
        let bar = bar(args, config.wire, &data);
        let source = data.source(waiter.waker()).map_err(|error| Failure::input(&input, &error))?;
        let mut socket = Connected::new(io, address);
        let sender = open(config.clone(), give_up, send_memory(&mut socket)).map_err(Failure::usage)?;
        let create = |path| QlogFile::create(path, args.force, status.start, &reached, &config);
        let qlog = args.qlog.as_deref().map(create).transpose()?;
        status.csv = args.csv.as_deref().map(|path| CsvFile::create(path, args.force)).transpose()?;
        let mut lines = Lines::new(args, address, status);
        lines.show(bar);
        let source = Some(lines.measure.gated(source));
        let mut transfer = Self {
            candidates,
            key_proof: ChangedKeyProof::default(),
            is_debug: args.debug,
            is_local: found.local.is_some(),
            config,
            dialer: found.dialer.clone(),
            sender,
            socket,
            earlier: UdpStats::default(),
            waiter,
            sending: SenderApp { lines, source, stop, syns: 0, end: None },
            input,
            qlog,
        };
        transfer.observe();
        Ok(transfer)
    }

    pub(crate) fn run(&mut self) -> Result<(), SocketError> {
        self.sending.lines.opened(clock::now(), self.is_local);
        loop {
            run(&mut self.sender, &mut self.socket, &mut self.sending, &mut self.waiter)?;
            if !self.try_again() {
                break;
            }
        }
        // Sends the CLOSE of an interrupted transfer even if the socket is full.
        send_rest(&mut self.sender, &mut self.socket, &mut self.waiter, FLUSH_TIMEOUT);
        Ok(())
    }

    /// Opens the transfer to the next address, if the receiver did not answer at the present one.
    /// The last address may get a further attempt ([`ChangedKeyProof`]). Returns false if there is
    /// none.
    fn try_again(&mut self) -> bool {
        let Some(Outcome::Closed(closed)) = &self.sending.end else { return false };
        if self.sender.stats().handshake_rtt.is_some() {
            // The address answered, and may have data of the source.
            return false;
        }
        let (now, mut failure) = (clock::now(), closed.clone());
        if !self.key_proof.has_begun() {
            match self.candidates.next(now, AttemptEnd::of(closed), failure) {
                Ok(attempt) => {
                    self.open_again(now, attempt, None);
                    return true;
                }
                Err(last) => (self.sending.lines.address, failure) = last,
            }
        }
        match self.key_proof.next(self.dialer.as_deref(), failure, |closed| Some(closed)) {
            Ok(keys) => {
                let attempt = Attempt { address: self.sending.lines.address, give_up: ADDRESS_GIVE_UP };
                self.open_again(now, attempt, Some(keys));
                true
            }
            Err(closed) => {
                self.sending.end = Some(Outcome::Closed(closed));
                false
            }
        }
    }

    fn open_again(&mut self, now: Instant, attempt: Attempt, keys: Option<InitiatorConfig>) {
        let Attempt { address, give_up } = attempt;
        self.sending.end = None;
        self.sending.lines.address = address;
        self.sending.lines.opened(now, self.is_local);
        self.earlier = self.socket.io().stats();
        self.socket.set_peer(address);
        self.sender.open_again(now, give_up, keys);
        self.observe();
    }

    fn observe(&mut self) {
        let mut observers: Vec<Box<dyn Observer>> = Vec::new();
        if self.is_debug {
            let (start, peer) = (self.sending.lines.status.start, self.sending.lines.address);
            observers.push(Box::new(PacketLog { console: Console::default(), start, peer }));
        }
        observers.extend(self.qlog.as_ref().map(QlogFile::observer));
        observers.push(Box::new(self.sending.lines.measure.rtt().recorder()));
        self.sender.observe(Box::new(observers));
    }

    pub(crate) fn end(&mut self, end: Result<(), SocketError>, receiver: Option<&ReceiverReport>) -> Ended {
        let stats = self.sender.stats();
        let end = match end {
            Ok(()) => self.sending.end.take().unwrap_or(Outcome::Interrupted),
            Err(error) => self.socket_failure(&error, &stats),
        };
        let (is_confirmed, crc_received) = match end {
            Outcome::Finished { crc } => (true, crc),
            _ => (false, None),
        };
        let counted = self.sending.lines.measure.counted(stats.clone());
        let failure = self.failure(end, &counted);
        let failure = qlog_file::finish(self.qlog.take(), failure);
        let failure = or_unwritten(failure, self.sending.lines.status.finish_csv(clock::now(), &stats));
        let ran = stats.handshake_rtt.is_some() || receiver.is_some();
        if ran && !self.sending.lines.status.is_quiet() {
            self.print_report(&counted, receiver);
        }
        let summary = Summary {
            host: &self.sending.lines.host,
            address: Some(self.sending.lines.address),
            config: &self.config,
            stats: &counted,
            measure: &self.sending.lines.measure,
            status: &self.sending.lines.status,
            socket: Some(&self.socket),
            failure: failure.as_ref(),
            crc_received,
            is_confirmed,
            protection: self.sender.protection(),
            receiver,
        };
        let summary = summary.json();
        self.sending.lines.status.summary(summary.clone());
        let limited = Limited::of(&self.config, &counted);
        let rtt = self.sending.lines.measure.rtt().quantiles();
        Ended { counted, limited, rtt, summary, failure }
    }

    /// Prints the last lines of an outcome, and returns its failure; `None` for success.
    fn failure(&mut self, outcome: Outcome, stats: &SenderStats) -> Option<Failure> {
        match outcome {
            Outcome::Finished { crc } => {
                self.sending.lines.status.finished(stats, self.sender.protection());
                check_sum(stats.crc, crc?)
            }
            Outcome::Failed { phase, error } => {
                let sentence = self.error_context().sentence(&error);
                let failure = transfer_failure(phase, error, sentence);
                self.sending.lines.status.failed(phase, &failure);
                Some(failure)
            }
            Outcome::Closed(closed) => {
                let (phase, error, sentence) = self.error_context().closed(&closed);
                let refusal =
                    self.dialer.as_ref().and_then(|dialer| dialer.refusal(&self.sending.lines.host, &closed));
                let failure = refusal.map_or_else(|| transfer_failure(phase, error, sentence), Failure::from);
                self.sending.lines.status.failed(phase, &failure);
                Some(failure)
            }
            Outcome::Unreadable(error) => Some(Failure::input(&self.input, &error)),
            Outcome::Interrupted => {
                // The line counts from the line before it, the omitted start included.
                self.sending.lines.status.interrupted(clock::now(), &self.sender.stats());
                Some(Failure::interrupted())
            }
        }
    }

    fn print_report(&self, stats: &SenderStats, receiver: Option<&ReceiverReport>) {
        for line in receiver.map(ReceiverReport::lines).unwrap_or_default() {
            talk(&line);
        }
        let share = receiver.and_then(|end| idle_share(&self.config, stats, &end.stats.forward));
        if let Some(share) = share {
            talk(&idle_line(share));
        }
        if let Some(limited) = Limited::of(&self.config, stats) {
            talk(&limited.sentence());
        }
        if let Some(loaded) = self.sending.lines.measure.rtt().quantiles() {
            talk(&rtt_line(self.sending.lines.measure.idle(), &loaded));
        }
        if let Some(peak) = resources::memory().peak {
            talk(&format!("peak memory of the process: {:.2} MB", megabytes(peak)));
        }
        let io = self.socket.io();
        let (stats, offload) = (io.stats(), io.offload());
        for line in warnings(&stats, &offload).into_iter().chain(sent_line(&stats, &offload)) {
            talk(&line);
        }
    }

    fn error_context(&self) -> ErrorContext<'_> {
        ErrorContext {
            host: &self.sending.lines.host,
            address: self.sending.lines.address,
            config: &self.config,
            stats: self.sender.stats(),
            socket: errors_since(self.earlier, self.socket.io().stats()),
            syns: if self.sending.syns > 0 { self.sending.syns } else { self.sender.syns() },
            all_read: self.sending.source.is_none(),
        }
    }

    fn socket_failure(&self, error: &SocketError, stats: &SenderStats) -> Outcome {
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
        let time = clock::now().saturating_duration_since(self.sending.lines.status.start).as_secs_f64();
        if let TransferError::FailedSend(number) | TransferError::FailedRecv(number) = error {
            self.sending.lines.status.text(&format!("[{time:6.3}] {arrow} failed {verb} with {number}"));
        }
        Outcome::Failed { phase, error }
    }
}

fn socket_options(args: &SendArgs, config: &SenderConfig) -> UdpOptions {
    UdpOptions {
        by_reference: args.zero_copy == Switch::On,
        ..socket::of_sender(config, args.socket_buffer, args.offload.options())
    }
}

fn rtt_line(idle: Option<RttQuantiles>, loaded: &RttQuantiles) -> String {
    let idle = idle.map(|idle| format!("idle {:.3} ms, with load ", ms(idle.p50)));
    format!("round trip {}{loaded}", idle.unwrap_or_default())
}

/// Returns the bar of a native transfer of a file on a terminal, unless options ask for lines.
fn bar(args: &SendArgs, wire: Wire, data: &Data) -> Option<TransferBar> {
    let Data::File { name, bytes, .. } = data else { return None };
    let has_lines = args.interval.is_some() || args.debug || args.json;
    let is_wanted = wire == Wire::Native && !has_lines && !args.quiet && args.parallel == 1;
    is_wanted.then(|| TransferBar::on_terminal(name, *bytes)).flatten()
}

/// Leaves out the ICMP errors until `earlier`, which another address caused.
fn errors_since(earlier: UdpStats, now: UdpStats) -> UdpStats {
    UdpStats { unreachable: now.unreachable - earlier.unreachable, ..now }
}

/// Compares the CRC-32 of both sides. Returns the failure if they differ.
fn check_sum(ours: u32, theirs: u32) -> Option<Failure> {
    match ChecksumCheck::of(ours, theirs) {
        ChecksumCheck::Agreed => None,
        ChecksumCheck::Unchecked => {
            talk("the receiver did not check the data: it answered checksum 0");
            None
        }
        ChecksumCheck::Wrong => Some(Failure::new(
            CHECKSUM,
            format_args!(
                "the receiver's checksum {theirs:X} is not the sender's {ours:X}: what arrived is wrong"
            ),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_earlier_address_do_not_count() {
        let stats = |unreachable| UdpStats { unreachable, lost_too_big: 1, ..UdpStats::default() };
        let since = errors_since(stats(2), stats(3));
        assert_eq!((since.unreachable, since.lost_too_big), (1, 1));
    }
}
