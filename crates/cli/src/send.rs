//! `rdt-send`: runs one transfer, with an embedded receiver if HOST is `local`.

pub(crate) mod app;
pub(crate) mod config;
mod error_text;
pub(crate) mod local;
pub(crate) mod native;
pub(crate) mod sending;
pub(crate) mod transfer;

use std::sync::Arc;
use std::time::Instant;

use rdt_program::{Console, Stop};
use rdt_transport::{InitiatorConfig, Sender, SenderConfig, SenderStats};
use rdt_trust::{TrustError, os_entropy};
use rdt_udp::{UdpOptions, clock};
use serde_json::Value;

use crate::Failure;
use crate::args::form::Form;
use crate::args::{Format, SendArgs, Switch};
use crate::data::Data;
use crate::frame::{self, Kind};
use crate::host::{Found, find};
use crate::measure::{Measure, Wanted};
use crate::output::receiver_report::ReceiverReport;
use crate::output::status::{Status, Style};
use crate::output::summary::Summary;
use crate::parallel::Ended;
use crate::recv::draw_seed;
use crate::socket;
use config::configure;
use local::LocalReceiver;
use native::NativeSender;
use sending::Sending;
use transfer::{Plan, Remote, Transfer};

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
    type Local = LocalReceiver;

    fn args(&self) -> (&SendArgs, bool) {
        (self.args, self.form.stdin)
    }

    fn names(&self) -> (String, &'static str) {
        (self.form.host.name(), self.form.format.name())
    }

    fn status(&self, console: Console, style: Style) -> Status {
        Status::new(console, style, self.start, &self.config, self.form.format)
    }

    fn announce(&self, status: &Status, data: &Data) -> Result<(), Failure> {
        status.parameters(&self.config);
        data.announce(status);
        Ok(())
    }

    fn find(&self, status: &Status) -> Result<Found<LocalReceiver>, Failure> {
        let Self { args, form, config, start } = self;
        let start_local = || {
            let seed = args.seed.unwrap_or_else(draw_seed);
            let options = socket::of_receiver(1, args.socket_buffer, args.offload.options());
            let local =
                LocalReceiver::start(seed, (form.format, args.insecure), config, &args.native, options)?;
            let (address, key) = (local.address, local.key);
            Ok((local, address, key))
        };
        let is_encrypted = form.format == Format::Native && !args.insecure;
        let mut found = find(args, &form.host.value, is_encrypted, (status, *start), start_local)?;
        if form.format == Format::Classic {
            // Classic senders try the first address alone, as the reference does.
            found.addresses.truncate(1);
        }
        Ok(found)
    }

    fn run(
        &self,
        found: &Found<LocalReceiver>,
        status: Status,
        data: Data,
        stop: &Stop,
    ) -> Result<Ended, Failure> {
        let Self { args, form, start, .. } = self;
        let config = configure(args, form)?;
        let options = UdpOptions {
            by_reference: args.zero_copy == Switch::On,
            ..socket::of_sender(&config, args.socket_buffer, args.offload.options())
        };
        let remote = Remote { host: &form.host.name(), addresses: &found.addresses, options };
        let (dialer, stop) = (found.dialer.clone(), stop.clone());
        let plan = Plan { format: form.format, config, dialer, data, status, start: *start, stop };
        match form.format {
            Format::Native => {
                let transfer = open_native(args, remote, plan, found.initiator.clone())?;
                to_end(transfer, found.local.as_ref(), args)
            }
            Format::Classic => to_end(open_classic(args, remote, plan)?, found.local.as_ref(), args),
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
            format: self.form.format,
            receiver: None,
        };
        summary.json()
    }

    fn finish(local: &LocalReceiver) -> Result<Option<ReceiverReport>, Failure> {
        Ok(local.finish()?)
    }
}

fn open_native(
    args: &SendArgs,
    remote: Remote<'_>,
    plan: Plan,
    initiator: InitiatorConfig,
) -> Result<Transfer<NativeSender>, Failure> {
    let entropy = os_entropy().map_err(TrustError::Entropy)?;
    let start = plan.start;
    let open = |sender, give_up, memory| {
        let config = native::config_of(sender, args.insecure);
        NativeSender::open(start, config, initiator, give_up, (entropy, memory))
    };
    Transfer::open(args, remote, plan, open)
}

fn open_classic(args: &SendArgs, remote: Remote<'_>, plan: Plan) -> Result<Transfer<Sender>, Failure> {
    Transfer::open(args, remote, plan, |config, _, memory| {
        let mut sender = Sender::with_memory(config, memory)?;
        // Cannot fail: the sender was not opened before.
        let _ = sender.open();
        Ok(sender)
    })
}

fn to_end(
    mut transfer: Transfer<impl Sending>,
    local: Option<&LocalReceiver>,
    args: &SendArgs,
) -> Result<Ended, Failure> {
    if let Some(local) = local {
        transfer.socket.limit(Arc::clone(&local.occupancy));
    }
    let end = transfer.run();
    // Of several transfers, the sum has the report.
    let receiver = match local {
        Some(local) if args.parallel == 1 => local.finish()?,
        _ => None,
    };
    Ok(transfer.end(end, receiver.as_ref()))
}
