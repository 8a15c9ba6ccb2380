//! `rdt-send`: runs one transfer, with an embedded receiver if HOST is `local`.

mod config;
mod error_text;
mod local;
mod native;
mod stored;

use std::time::Instant;

use rdt_program::{Console, Failure, Stop};
use rdt_transport::{ConnectionSetConfig, FramePool, Sender, SenderConfig, SenderStats, Wire};
use rdt_trust::{TrustError, os_entropy};
use rdt_udp::clock;
use serde_json::Value;

use crate::args::form::Form;
use crate::args::target::Target;
use crate::args::{Given, SendArgs};
use crate::connection::wire_name;
use crate::data::Data;
use crate::frame::{self, Kind};
use crate::host::{Found, Local};
use crate::lines::Lines;
use crate::measure::{Measure, Wanted};
use crate::native::Native;
use crate::output::qlog_file::QlogFile;
use crate::output::status::{CsvFile, Status, Style};
use crate::output::summary::Summary;
use crate::packets::{self, Machine, Packets};
use crate::parallel::Ended;
use crate::transfer::{Transfer, Watch};
use config::configure;

pub(crate) fn command(args: &SendArgs) -> Result<(), Failure> {
    if let Some(wire) = args.kernel_wire() {
        return crate::measured::send::command(args, wire);
    }
    let form = Form::new(args)?;
    let config = configure(args, &form)?;
    frame::run(&Stored { args, form, config, start: clock::now() })
}

/// Transfers to a receiver that may store them.
struct Stored<'a> {
    args: &'a SendArgs,
    form: Form<'a>,
    config: SenderConfig,
    start: Instant,
}

impl Kind for Stored<'_> {
    fn args(&self) -> (&SendArgs, bool) {
        (self.args, self.form.stdin)
    }

    fn host(&self) -> &Given<Target> {
        self.form.host
    }

    fn wire(&self) -> &'static str {
        wire_name(self.config.wire)
    }

    fn is_encrypted(&self) -> bool {
        self.config.wire == Wire::Native && !self.args.insecure
    }

    fn status(&self, console: Console, style: Style) -> Status {
        Status::new(console, style, self.start, &self.config)
    }

    fn announce(&self, status: &Status, data: &Data) -> Result<(), Failure> {
        status.parameters(&self.config);
        data.announce(status);
        Ok(())
    }

    fn start_local(&self) -> Result<Local, Failure> {
        local::start(self.args, &self.config)
    }

    fn run(&self, found: &Found, status: Status, data: Data, stop: &Stop) -> Result<Ended, Failure> {
        let config = configure(self.args, &self.form)?;
        match config.wire {
            Wire::Native => {
                let entropy = os_entropy().map_err(TrustError::Entropy)?;
                let of_connection = native::config_of(config.clone(), self.args.insecure);
                let parameters = (of_connection, ConnectionSetConfig::default());
                let initiator = found.initiator.clone();
                let create =
                    |memory| Ok(Native::new(native::Sends, parameters, initiator, (entropy, memory)));
                self.transfer(found, (config, status, data), stop, create)?.run()
            }
            Wire::Classic => {
                let sender = config.clone();
                let create = |memory| Sender::with_memory(sender, memory).map_err(Failure::usage);
                self.transfer(found, (config, status, data), stop, create)?.run()
            }
        }
    }

    fn unopened(&self, status: Status, failure: &Failure) -> Value {
        let summary = Summary {
            host: &self.form.host.name(),
            address: None,
            config: &self.config,
            stats: &SenderStats::default(),
            measure: &Measure::new(Wanted::default()),
            status: &status,
            socket: None,
            failure: Some(failure),
            crc_received: None,
            is_confirmed: false,
            protection: None,
            receiver: None,
        };
        summary.json()
    }
}

impl Stored<'_> {
    fn transfer<'b, M: Machine>(
        &'b self,
        found: &'b Found,
        (config, mut status, data): (SenderConfig, Status, Data),
        stop: &Stop,
        create: impl FnOnce(FramePool) -> Result<M, Failure>,
    ) -> Result<Transfer<'b, stored::Stored<'b, M>>, Failure> {
        let args = self.args;
        let addresses = match config.wire {
            // As the reference does.
            Wire::Classic => &found.addresses[..1],
            Wire::Native => &found.addresses[..],
        };
        let (io, reached) = packets::bind(addresses, stored::socket_options(args, &config))?;
        let packets = Packets::new(io, found, stop, create)?;
        let (input, bar) = (data.name(), stored::bar(args, config.wire, &data));
        let source = data.source(packets.waker()).map_err(|error| Failure::input(&input, &error))?;
        let create_qlog = |path| QlogFile::create(path, args.force, status.start, &reached, &config);
        let qlog = args.qlog.as_deref().map(create_qlog).transpose()?;
        status.csv = args.csv.as_deref().map(|path| CsvFile::create(path, args.force)).transpose()?;
        let mut watch = Watch::new(Lines::new(args, found.addresses[0], status), found, stop);
        watch.lines.show(bar);
        watch.source = Some(watch.lines.measure.gated(source));
        let limit = (&reached[..], config.handshake_give_up);
        let carrier = stored::Stored { args, found, config, packets, qlog };
        Transfer::new((args, found), limit, carrier, (watch, input))
    }
}
