//! Transfer to a receiver that may store it: its state machine and socket, trace file, last lines
//! and summary.

use std::io;

use rdt_program::{Console, Failure, talk};
use rdt_transport::{
    Closed, InitiatorConfig, Observer, Phase, SenderConfig, SenderStats, TransferError, Wire,
};
use rdt_trust::Attempt;
use rdt_udp::{SocketError, UdpOptions, clock};
use serde_json::Value;

use super::error_text::ErrorContext;
use crate::args::{SendArgs, Switch};
use crate::data::Data;
use crate::exit::{CHECKSUM, transfer_failure};
use crate::host::Found;
use crate::lines::Lines;
use crate::output::counters::{idle_line, idle_share};
use crate::output::format::{megabytes, ms};
use crate::output::limit::Limited;
use crate::output::packet_log::PacketLog;
use crate::output::qlog_file::{self, QlogFile};
use crate::output::receiver_report::ReceiverReport;
use crate::output::rtt_histogram::RttQuantiles;
use crate::output::sockets::{sent_line, warnings};
use crate::output::summary::{ChecksumCheck, Summary};
use crate::output::transfer_bar::TransferBar;
use crate::packets::{Machine, Packets};
use crate::transfer::{Carrier, End, Outcome, Watch};
use crate::{resources, socket};

pub(super) struct Stored<'a, M> {
    pub(super) args: &'a SendArgs,
    pub(super) found: &'a Found,
    pub(super) config: SenderConfig,
    pub(super) packets: Packets<M>,
    pub(super) qlog: Option<QlogFile>,
}

impl<M: Machine> Stored<'_, M> {
    fn observers(&self, lines: &Lines) -> Box<dyn Observer> {
        let mut observers: Vec<Box<dyn Observer>> = Vec::new();
        if self.args.debug {
            let (start, peer) = (lines.status.start, lines.address);
            observers.push(Box::new(PacketLog { console: Console::default(), start, peer }));
        }
        observers.extend(self.qlog.as_ref().map(QlogFile::observer));
        observers.push(Box::new(lines.measure.rtt().recorder()));
        Box::new(observers)
    }

    fn error_context<'b>(&'b self, watch: &'b Watch) -> ErrorContext<'b> {
        ErrorContext {
            host: &watch.lines.host,
            address: watch.lines.address,
            config: &self.config,
            stats: self.packets.machine.stats(),
            socket: self.packets.socket_stats(),
            syns: self.packets.syns(),
            all_read: watch.source.is_none(),
        }
    }

    fn socket_failure(&self, lines: &Lines, error: &SocketError) -> Outcome {
        let stats = self.packets.machine.stats();
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
        let time = clock::now().saturating_duration_since(lines.status.start).as_secs_f64();
        if let TransferError::FailedSend(number) | TransferError::FailedRecv(number) = error {
            lines.status.text(&format!("[{time:6.3}] {arrow} failed {verb} with {number}"));
        }
        Outcome::Failed { phase, error }
    }
}

impl<M: Machine> Carrier for Stored<'_, M> {
    fn run(&mut self, watch: &mut Watch, attempt: Attempt, keys: Option<InitiatorConfig>) -> Outcome {
        let observers = self.observers(&watch.lines);
        let ended = self.packets.run(watch, attempt, keys, Some(observers));
        let outcome = ended.unwrap_or_else(|error| self.socket_failure(&watch.lines, &error));
        if let Outcome::Finished { crc } = outcome {
            watch.lines.status.fin_ack(clock::now(), &self.stats(), crc);
        }
        outcome
    }

    fn stats(&self) -> SenderStats {
        self.packets.machine.stats()
    }

    fn failed(&self, watch: &Watch, phase: Phase, error: TransferError) -> Failure {
        let sentence = self.error_context(watch).sentence(&error);
        transfer_failure(phase, error, sentence)
    }

    fn closed(&self, watch: &Watch, closed: &Closed) -> (Phase, Failure) {
        let (phase, error, sentence) = self.error_context(watch).closed(closed);
        let refusal = self.found.refusal(&watch.lines.host, closed);
        (phase, refusal.unwrap_or_else(|| transfer_failure(phase, error, sentence)))
    }

    fn finished(&self, lines: &Lines, counted: &SenderStats, crc: Option<u32>) -> Option<Failure> {
        lines.status.finished(counted, self.packets.machine.protection());
        check_sum(counted.crc, crc?)
    }

    fn finish_files(&mut self, failure: Option<Failure>) -> Option<Failure> {
        qlog_file::finish(self.qlog.take(), failure)
    }

    fn limited(&self, counted: &SenderStats) -> Option<Limited> {
        Limited::of(&self.config, counted)
    }

    fn remark(&self, lines: &Lines, end: &End<'_>) {
        for line in end.receiver.map(ReceiverReport::lines).unwrap_or_default() {
            talk(&line);
        }
        let idle = |report: &ReceiverReport| idle_share(&self.config, end.counted, &report.stats.forward);
        if let Some(share) = end.receiver.and_then(idle) {
            talk(&idle_line(share));
        }
        if let Some(limited) = &end.limited {
            talk(&limited.sentence());
        }
        if let Some(loaded) = lines.measure.rtt().quantiles() {
            talk(&rtt_line(lines.measure.idle(), &loaded));
        }
        if let Some(peak) = resources::memory().peak {
            talk(&format!("peak memory of the process: {:.2} MB", megabytes(peak)));
        }
        let io = self.packets.socket.io();
        let (stats, offload) = (io.stats(), io.offload());
        for line in warnings(&stats, &offload).into_iter().chain(sent_line(&stats, &offload)) {
            talk(&line);
        }
    }

    fn summary(&self, lines: &Lines, end: &End<'_>) -> Value {
        let summary = Summary {
            host: &lines.host,
            address: Some(lines.address),
            config: &self.config,
            stats: end.counted,
            measure: &lines.measure,
            status: &lines.status,
            socket: Some(&self.packets.socket),
            failure: end.failure,
            crc_received: end.crc,
            is_confirmed: end.is_confirmed,
            protection: self.packets.machine.protection(),
            receiver: end.receiver,
        };
        summary.json()
    }
}

pub(super) fn socket_options(args: &SendArgs, config: &SenderConfig) -> UdpOptions {
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
pub(super) fn bar(args: &SendArgs, wire: Wire, data: &Data) -> Option<TransferBar> {
    let Data::File { name, bytes, .. } = data else { return None };
    let has_lines = args.interval.is_some() || args.debug || args.json;
    let is_wanted = wire == Wire::Native && !has_lines && !args.quiet && args.parallel == 1;
    is_wanted.then(|| TransferBar::on_terminal(name, *bytes)).flatten()
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
