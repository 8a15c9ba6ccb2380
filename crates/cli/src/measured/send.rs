//! `rdt-send --wire tcp`, `--wire udp` and `--reverse`: one or several transfers, last lines.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Instant;

use rdt_program::{Console, Failure, Stop};
use rdt_transport::SenderConfig;
use rdt_udp::{PollSet, clock};
use serde_json::Value;

use super::datagram::MIN_BYTES;
use super::message::{CONGESTION, Request};
use super::options::check_send;
use super::transfer::MeasuredTransfer;
use super::{Wire, native_client, recv};
use crate::args::target::Target;
use crate::args::{Given, NativeArgs, SendArgs};
use crate::data::Data;
use crate::frame::{self, Kind};
use crate::host::{Found, Local};
use crate::lines::Lines;
use crate::output::status::{Columns, CsvFile, Status, Style};
use crate::parallel::Ended;
use crate::transfer::{Carrier as _, Transfer, Watch};

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
        let mut transfer = self.transfer(Some(found), &data);
        let mut watch = Watch::new(Lines::new(args, found.addresses[0], status), found, stop);
        let mut addresses = found.addresses.clone();
        if *wire == Wire::Native {
            let (packets, reached) = native_client::open(&transfer, found, stop)?;
            (transfer.packets, addresses) = (Some(Box::new(packets)), reached);
        } else if *wire == Wire::Tcp && !args.reverse {
            // The sender looks at the source itself, without a wake-up.
            let source = PollSet::<UdpSocket>::new(1).and_then(|set| data.source(set.waker()));
            watch.source = Some(source.map_err(|error| Failure::input(&transfer.input, &error))?);
        }
        let limit = (&addresses[..], transfer.config.handshake_give_up);
        let input = transfer.input.clone();
        Transfer::new((args, found), limit, transfer, (watch, input))?.run()
    }

    fn unopened(&self, status: Status, failure: &Failure) -> Value {
        let none = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        let (transfer, lines) =
            (self.transfer(None, &Data::Array(None, String::new())), Lines::new(self.args, none, status));
        let mut summary = transfer.summary_of(&lines, &transfer.counted(&lines), Some(failure));
        summary["address"] = Value::Null;
        summary
    }
}

impl Measured<'_> {
    fn transfer<'b>(&'b self, found: Option<&'b Found>, data: &Data) -> MeasuredTransfer<'b> {
        let Self { args, wire, .. } = *self;
        let parts = (request(args, wire, data), config_of(args, wire));
        MeasuredTransfer { input: data.name(), ..MeasuredTransfer::new(args, wire, found, parts) }
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
