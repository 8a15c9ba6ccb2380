//! `rdt-send`: runs one transfer, with an embedded receiver if HOST is `local`.

mod app;
mod config;
mod error_text;
mod local;
mod native;
mod sending;
mod transfer;

use std::sync::Arc;
use std::time::{Duration, Instant};

use rdt_program::{Console, Failure, Stop};
use rdt_transport::{ConfigError, FramePool, Sender, SenderConfig, SenderStats, Wire};
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
use crate::measure::{Measure, Wanted};
use crate::output::status::{Status, Style};
use crate::output::summary::Summary;
use crate::parallel::Ended;
use config::configure;
use native::NativeSender;
use sending::Sending;
use transfer::Transfer;

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
        let Self { args, form, start, .. } = self;
        let config = configure(args, form)?;
        let parts = (data, status, stop.clone());
        match config.wire {
            Wire::Native => {
                let entropy = os_entropy().map_err(TrustError::Entropy)?;
                let initiator = found.initiator.clone();
                let open = |sender, give_up, memory| {
                    let config = native::config_of(sender, args.insecure);
                    NativeSender::open(*start, config, initiator, give_up, (entropy, memory))
                };
                to_end(Transfer::open(args, found, config, parts, open)?, found, args)
            }
            Wire::Classic => to_end(Transfer::open(args, found, config, parts, open_classic)?, found, args),
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

fn open_classic(config: SenderConfig, _: Duration, memory: FramePool) -> Result<Sender, ConfigError> {
    let mut sender = Sender::with_memory(config, memory)?;
    // Cannot fail: the sender was not opened before.
    let _ = sender.open();
    Ok(sender)
}

fn to_end(mut transfer: Transfer<impl Sending>, found: &Found, args: &SendArgs) -> Result<Ended, Failure> {
    let local = found.local.as_ref();
    if let Some(occupancy) = local.and_then(|local| local.occupancy.as_ref()) {
        transfer.socket.limit(Arc::clone(occupancy));
    }
    let end = transfer.run();
    // Of several transfers, the sum has the report.
    let receiver = match local {
        Some(local) if args.parallel == 1 => local.finish()?,
        _ => None,
    };
    Ok(transfer.end(end, receiver.as_ref()))
}
