//! `rdt-send --wire tcp`, `--wire udp` and `--reverse`: one or several transfers, last lines.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Instant;

use rdt_program::{Console, Failure, Stop, talk};
use rdt_transport::SenderConfig;
use rdt_udp::{PollSet, clock};
use serde_json::Value;

use super::datagram::MIN_BYTES;
use super::message::{CONGESTION, Request};
use super::options::check_send;
use super::transfer::MeasuredTransfer;
use super::{Wire, native_client, recv, tcp_client, udp_client};
use crate::args::target::Target;
use crate::args::{Given, NativeArgs, SendArgs};
use crate::data::Data;
use crate::exit::Broken;
use crate::frame::{self, Kind};
use crate::host::{Found, Local};
use crate::lines::Lines;
use crate::output::limit::Limited;
use crate::output::qlog_file::or_unwritten;
use crate::output::status::{Columns, CsvFile, Status, Style};
use crate::parallel::Ended;
use crate::source::DwordArray;

pub(crate) fn command(args: &SendArgs, wire: Wire) -> Result<(), Failure> {
    check_send(args, wire)?;
    let Some(host) = &args.host else { return Ok(()) };
    frame::run(&Measured { args, host, wire, start: clock::now() })
}

struct Measured<'a> {
    args: &'a SendArgs,
    host: &'a Given<Target>,
    wire: Wire,
    start: Instant,
}

impl Measured<'_> {
    fn transfer(&self, address: SocketAddr, status: Status, stop: Stop) -> MeasuredTransfer<'_> {
        let lines = Lines::new(self.args, address, status);
        MeasuredTransfer::new(self.args, config_of(self.args, self.wire), lines, stop)
    }
}

impl Kind for Measured<'_> {
    fn args(&self) -> (&SendArgs, bool) {
        (self.args, false)
    }

    fn host(&self) -> &Given<Target> {
        self.host
    }

    fn wire(&self) -> &'static str {
        self.wire.name()
    }

    fn is_encrypted(&self) -> bool {
        self.wire == Wire::Native && !self.args.insecure
    }

    fn status(&self, console: Console, style: Style) -> Status {
        let config = config_of(self.args, self.wire);
        let mut status = Status::new(console, style, self.start, &config);
        status.columns = match (self.wire, self.args.reverse) {
            (_, true) => Columns::Received,
            (Wire::Tcp | Wire::Native, false) => Columns::All,
            (Wire::Udp, false) => Columns::Sent,
        };
        status
    }

    fn announce(&self, status: &Status, data: &Data) -> Result<(), Failure> {
        let Self { args, wire, .. } = self;
        if *wire == Wire::Udp && data.bytes().is_some_and(|bytes| bytes < MIN_BYTES) {
            return Err(Failure::usage(format_args!(
                "--wire udp sends at least {MIN_BYTES} bytes: those of its headers"
            )));
        }
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
        Ok(())
    }

    fn start_local(&self) -> Result<Local, Failure> {
        recv::start_local(self.wire, self.args.socket_buffer, self.args.insecure)
    }

    fn run(&self, found: &Found, mut status: Status, data: Data, stop: &Stop) -> Result<Ended, Failure> {
        let Self { args, wire, .. } = self;
        status.csv = args.csv.as_deref().map(|path| CsvFile::create(path, args.force)).transpose()?;
        let mut transfer = self.transfer(found.addresses[0], status, stop.clone());
        transfer.input = data.name();
        let request = request(args, *wire, &data);
        let result = run(&mut transfer, *wire, found, &request, data);
        Ok(conclude(transfer, *wire, result))
    }

    fn unopened(&self, status: Status, failure: &Failure) -> Value {
        let none = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        let transfer = self.transfer(none, status, Stop::default());
        let mut summary = transfer.summary(self.wire, &transfer.counted(self.wire), Some(failure));
        summary["address"] = Value::Null;
        summary
    }
}

/// Returns a native sender's configuration by these options: it names the limits of the transfer.
fn config_of(args: &SendArgs, wire: Wire) -> SenderConfig {
    let native = SenderConfig::native(0);
    let NativeArgs { cc, give_up, connect_give_up, .. } = args.native;
    SenderConfig {
        congestion: cc.unwrap_or(native.congestion),
        give_up: give_up.unwrap_or(native.give_up),
        handshake_give_up: connect_give_up.or(give_up).unwrap_or(native.handshake_give_up),
        packet_size: if wire == Wire::Udp { args.packet_size } else { native.packet_size },
        max_rate: args.max_rate,
        ..native
    }
}

fn run(
    transfer: &mut MeasuredTransfer<'_>,
    wire: Wire,
    far: &Found,
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
        Wire::Native => native_client::run(transfer, request, far),
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
            transfer.lines.status.finished_as(&counted, &remark, &line);
            None
        }
        Err(failure) => {
            if failure.is_interrupted() {
                transfer.lines.status.interrupted(now, &all);
            } else if let Some(broken) = failure.cause::<Broken>() {
                transfer.lines.status.failed(broken.phase, &failure);
            }
            Some(failure)
        }
    };
    let failure = or_unwritten(failure, transfer.lines.status.finish_csv(now, &all));
    let is_sender = wire == Wire::Tcp && !transfer.args.reverse;
    let limited = Limited::of(&transfer.config, &counted).filter(|_| is_open && is_sender);
    if let Some(limited) = limited.filter(|_| !transfer.lines.status.is_quiet()) {
        talk(&limited.sentence_of_kernel());
    }
    let summary = transfer.summary(wire, &counted, failure.as_ref());
    transfer.lines.status.summary(summary.clone());
    Ended { counted, limited, rtt: transfer.lines.measure.rtt().quantiles(), summary, failure }
}
