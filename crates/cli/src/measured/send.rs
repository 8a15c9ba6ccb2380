//! `rdt-send --wire tcp`, `--wire udp` and `--reverse`: one or several transfers, last lines.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Instant;

use rdt_program::{Console, Stop, talk};
use rdt_transport::{InitiatorConfig, SenderConfig};
use rdt_trust::{Dialer, Remote};
use rdt_udp::{PollSet, clock};
use serde_json::Value;

use super::datagram::MIN_BYTES;
use super::message::{CONGESTION, Request};
use super::native_client::Keys;
use super::options::check_send;
use super::recv::Embedded;
use super::transfer::MeasuredTransfer;
use super::{Wire, native_client, tcp_client, udp_client};
use crate::Failure;
use crate::args::target::Target;
use crate::args::{Format, SendArgs};
use crate::data::Data;
use crate::exit::Broken;
use crate::host::{lookup, surroundings};
use crate::output::limit::Limited;
use crate::output::qlog_file::{check_outputs, or_unwritten};
use crate::output::status::{Columns, CsvFile, Status, Style};
use crate::parallel;
use crate::parallel::Ended;
use crate::source::DwordArray;

pub(crate) fn command(args: &SendArgs, wire: Wire) -> Result<(), Failure> {
    check_send(args, wire)?;
    let Some(host) = &args.host else { return Ok(()) };
    let start = clock::now();
    let data = Data::parse(args, false)?;
    check_outputs(args, &data)?;
    // Caught only now: before, Ctrl-C ends a program that waits for the writer of a named pipe.
    let stop = Stop::default();
    stop.on_interrupt();
    if wire == Wire::Udp && data.bytes().is_some_and(|bytes| bytes < MIN_BYTES) {
        return Err(Failure::usage(format_args!(
            "--wire udp sends at least {MIN_BYTES} bytes: those of its headers"
        )));
    }
    let console = Console::default();
    let status = new_status(args, wire, console.clone(), Style::of(args), start);
    announce(args, wire, &status, &data);
    let target = &host.value;
    let host = match target {
        // The text of a ticket is a secret.
        Target::Ticket(ticket) => ticket.name(),
        Target::Local | Target::Remote { .. } => host.text.clone(),
    };
    let far = find(args, wire, target, &status, start).map_err(|failure| {
        let status = new_status(args, wire, console.clone(), Style::of(args), start);
        unopened(args, wire, &host, status, failure)
    })?;
    let ended = if args.parallel > 1 {
        let one = || {
            let silent = new_status(args, wire, Console::default(), Style::Silent, start);
            let data = Data::parse(args, false)?;
            Ok(run_transfer(args, wire, (&host, &far), silent, data, &stop))
        };
        let ended = parallel::run_all(args.parallel, one);
        parallel::conclude(args, (&host, wire.name()), &status, ended, None)
    } else {
        let mut status = status;
        status.csv = args.csv.as_deref().map(|path| CsvFile::create(path, args.force)).transpose()?;
        let ended = run_transfer(args, wire, (&host, &far), status, data, &stop);
        ended.failure.map_or(Ok(()), Err)
    };
    if let Some(embedded) = far.embedded {
        embedded.finish();
    }
    ended?;
    console.finish(args.json).map_err(Failure::stdout)
}

/// Receiver of requests.
struct Far {
    /// At least one.
    addresses: Vec<SocketAddr>,
    keys: Keys,
    embedded: Option<Embedded>,
}

/// Resolves HOST and reads the files of keys, or starts the embedded receiver.
fn find(args: &SendArgs, wire: Wire, host: &Target, status: &Status, start: Instant) -> Result<Far, Failure> {
    let remote = match host {
        Target::Local => {
            let embedded = Embedded::start(wire, args.socket_buffer, args.insecure)?;
            let initiator = InitiatorConfig { remote: embedded.key, ..InitiatorConfig::default() };
            let keys = Keys { initiator, dialer: None };
            return Ok(Far { addresses: vec![embedded.address], keys, embedded: Some(embedded) });
        }
        Target::Ticket(ticket) => ticket.clone(),
        Target::Remote { host, port } => Remote::Host { host: host.clone(), port: *port },
    };
    let addresses = match host {
        Target::Remote { host, port } => lookup(host, *port, status, start)?,
        Target::Local | Target::Ticket(_) => remote.addresses(),
    };
    let dial = || args.trust.dialer(&remote, &surroundings());
    let dialer = (wire == Wire::Native && !args.insecure).then(dial).transpose()?;
    let initiator = dialer.as_ref().map(Dialer::initiator).unwrap_or_default();
    Ok(Far { addresses, keys: Keys { initiator, dialer }, embedded: None })
}

/// Returns the configuration of a native sender whose options are those of the command line: it
/// names the limits of the transfer.
fn config_of(args: &SendArgs, wire: Wire) -> SenderConfig {
    let native = SenderConfig::native(0);
    SenderConfig {
        congestion: args.native.cc.unwrap_or(native.congestion),
        packet_size: if wire == Wire::Udp { args.packet_size } else { native.packet_size },
        max_rate: args.max_rate,
        ..native
    }
}

fn new_status(args: &SendArgs, wire: Wire, console: Console, style: Style, start: Instant) -> Status {
    let mut status = Status::new(console, style, start, &config_of(args, wire), Format::Native);
    status.columns = match (wire, args.reverse) {
        (_, true) => Columns::Received,
        (Wire::Tcp | Wire::Native, false) => Columns::All,
        (Wire::Udp, false) => Columns::Sent,
    };
    status
}

fn announce(args: &SendArgs, wire: Wire, status: &Status, data: &Data) {
    let what = match wire {
        Wire::Tcp => "sending over kernel TCP, not encrypted",
        Wire::Udp => "sending over kernel UDP at a constant rate, not encrypted",
        Wire::Native if args.insecure => "receiving over a connection, not encrypted",
        Wire::Native => "receiving over an encrypted connection",
    };
    let what = if args.reverse { what.replace("sending", "receiving") } else { what.into() };
    status.text(&format!("Main:\t{what}"));
    if !args.reverse {
        data.announce(status);
    }
}

/// Runs one transfer, and prints its last lines.
fn run_transfer(
    args: &SendArgs,
    wire: Wire,
    (host, far): (&str, &Far),
    status: Status,
    data: Data,
    stop: &Stop,
) -> Ended {
    let mut transfer =
        MeasuredTransfer::new(args, host, far.addresses[0], config_of(args, wire), status, stop.clone());
    transfer.input = data.name();
    let request = request(args, wire, &data);
    let result = run(&mut transfer, wire, far, &request, data);
    conclude(transfer, wire, result)
}

/// Prints the summary of a transfer that failed before it had an address.
fn unopened(args: &SendArgs, wire: Wire, host: &str, status: Status, failure: Failure) -> Failure {
    let none = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let transfer = MeasuredTransfer::new(args, host, none, config_of(args, wire), status, Stop::default());
    let mut summary = transfer.summary(wire, &transfer.counted(wire), Some(&failure));
    summary["address"] = Value::Null;
    transfer.status.summary(summary);
    failure
}

fn run(
    transfer: &mut MeasuredTransfer<'_>,
    wire: Wire,
    far: &Far,
    request: &Request,
    data: Data,
) -> Result<(), Failure> {
    match wire {
        Wire::Tcp if transfer.args.reverse => {
            tcp_client::run(transfer, &far.addresses, request, &mut DwordArray::new(0))
        }
        Wire::Tcp => {
            // The sender looks at the source itself, without a wake-up.
            let source = PollSet::<UdpSocket>::new(1).and_then(|set| data.source(set.waker()));
            let mut source = source.map_err(|error| Failure::input(&transfer.input, &error))?;
            tcp_client::run(transfer, &far.addresses, request, &mut *source)
        }
        Wire::Udp => udp_client::run(transfer, &far.addresses, request),
        Wire::Native => native_client::run(transfer, &far.addresses, request, &far.keys),
    }
}

fn request(args: &SendArgs, wire: Wire, data: &Data) -> Request {
    let name = args.native.cc.map(|cc| cc.to_string());
    Request {
        is_reverse: args.reverse,
        congestion: CONGESTION.into_iter().find(|it| name.as_deref() == Some(it)),
        packet_size: match wire {
            Wire::Tcp | Wire::Native => 0,
            Wire::Udp => u16::try_from(args.packet_size).unwrap_or(u16::MAX),
        },
        bytes: data.bytes(),
        time: args.time.unwrap_or_default(),
        omit: args.omit.unwrap_or_default(),
        rate: args.max_rate,
    }
}

/// Prints the last lines of a transfer. Its summary is printed, too, except as one of several.
fn conclude(mut transfer: MeasuredTransfer<'_>, wire: Wire, result: Result<(), Failure>) -> Ended {
    let now = clock::now();
    let all = transfer.stats.clone();
    let counted = transfer.counted(wire);
    let is_open = all.handshake_rtt.is_some();
    let failure = match result {
        Ok(()) => {
            let (remark, line) = transfer.last_lines(wire, &counted);
            transfer.status.finished_as(&counted, &remark, &line);
            None
        }
        Err(failure) => {
            if failure.is_interrupted() {
                transfer.status.interrupted(now, &all);
            } else if let Some(broken) = failure.cause::<Broken>() {
                transfer.status.failed(broken.phase, &failure);
            }
            Some(failure)
        }
    };
    let failure = or_unwritten(failure, transfer.status.finish_csv(now, &all));
    let is_sender = wire == Wire::Tcp && !transfer.args.reverse;
    let limited = Limited::of(&transfer.config, &counted).filter(|_| is_open && is_sender);
    if let Some(limited) = limited.filter(|_| !transfer.status.is_quiet()) {
        talk(&limited.sentence_of_kernel());
    }
    let summary = transfer.summary(wire, &counted, failure.as_ref());
    transfer.status.summary(summary.clone());
    Ended { counted, limited, rtt: transfer.measure.rtt().quantiles(), summary, failure }
}
