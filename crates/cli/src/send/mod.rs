//! `rdt-send`: runs one transfer, with an embedded receiver if HOST is `local`.

pub(crate) mod app;
pub(crate) mod config;
mod error_text;
pub(crate) mod local;
pub(crate) mod native;
pub(crate) mod sending;
pub(crate) mod transfer;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use rdt_program::{Console, Stop};
use rdt_transport::{InitiatorConfig, Sender, SenderConfig, SenderStats};
use rdt_trust::{Dialer, TrustError, os_entropy};
use rdt_udp::{UdpOptions, clock};

use crate::Failure;
use crate::args::form::Form;
use crate::args::target::Target;
use crate::args::{Format, SendArgs, Switch};
use crate::data::Data;
use crate::host::{lookup, surroundings};
use crate::measure::{Measure, Wanted};
use crate::output::qlog_file;
use crate::output::status::{Status, Style};
use crate::output::summary::Summary;
use crate::parallel::{self, Ended};
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
    let data = Data::parse(args, form.stdin)?;
    qlog_file::check_outputs(args, &data)?;
    let start = clock::now();
    let console = Console::default();
    let status = Status::new(console.clone(), Style::of(args), start, &config, form.format);
    status.parameters(&config);
    data.announce(&status);

    let host = form.host_name();
    let unopened = |failure| {
        let status = Status::new(console.clone(), Style::of(args), start, &config, form.format);
        unopened(&host, &config, &status, form.format, failure)
    };
    let receiver = Receiver::find(args, &form, &config, &status, start).map_err(unopened)?;
    let options = UdpOptions {
        by_reference: args.zero_copy == Switch::On,
        ..socket::of_sender(&config, args.socket_buffer, args.offload.options())
    };
    let initiator = receiver.initiator();
    let Receiver { addresses, dialer, local } = receiver;
    let remote = Remote { host: &host, addresses: &addresses, options };
    let dialer = dialer.map(Arc::new);
    let stop = Stop::default();
    stop.on_interrupt();
    let plan = |config, data, status| {
        let (dialer, stop) = (dialer.clone(), stop.clone());
        Plan { format: form.format, config, dialer, data, status, start, stop }
    };
    if args.parallel > 1 {
        let plan = || {
            let config = configure(args, &form)?;
            let silent = Status::new(Console::default(), Style::Silent, start, &config, form.format);
            Ok(plan(config, Data::parse(args, form.stdin)?, silent))
        };
        run_parallel(args, &form, &status, remote, (plan, initiator, local))?;
        return console.finish(args.json).map_err(Failure::stdout);
    }
    let plan = plan(config.clone(), data, status);
    let ended = match form.format {
        Format::Native => open_native(args, remote, plan, initiator).map(|it| run(it, local)),
        Format::Classic => open_classic(args, remote, plan).map(|it| run(it, local)),
    };
    ended.map_err(unopened)??;
    console.finish(args.json).map_err(Failure::stdout)
}

/// Prints the summary of a transfer that failed before it was opened.
fn unopened(host: &str, config: &SenderConfig, status: &Status, format: Format, failure: Failure) -> Failure {
    let summary = Summary {
        host,
        address: None,
        config,
        stats: &SenderStats::default(),
        measure: &Measure::new(Wanted::default()),
        status,
        socket: None,
        failure: Some(&failure),
        crc_received: None,
        is_confirmed: false,
        protection: None,
        format,
        receiver: None,
    };
    status.summary(summary.json());
    failure
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

/// Runs `--parallel` transfers, and prints their sum.
fn run_parallel(
    args: &SendArgs,
    form: &Form<'_>,
    status: &Status,
    remote: Remote<'_>,
    (plan, initiator, local): (
        impl Fn() -> Result<Plan, Failure> + Sync,
        InitiatorConfig,
        Option<LocalReceiver>,
    ),
) -> Result<(), Failure> {
    let ended = parallel::run_all(args.parallel, || {
        let (plan, initiator) = (plan()?, initiator.clone());
        Ok(match plan.format {
            Format::Native => to_end(&mut open_native(args, remote, plan, initiator)?, local.as_ref()),
            Format::Classic => to_end(&mut open_classic(args, remote, plan)?, local.as_ref()),
        })
    });
    let receiver = local.map(LocalReceiver::finish).transpose()?;
    parallel::conclude(args, (&form.host_name(), form.format.name()), status, ended, receiver.as_ref())
}

fn to_end(transfer: &mut Transfer<impl Sending>, local: Option<&LocalReceiver>) -> Ended {
    if let Some(local) = local {
        transfer.socket.limit(Arc::clone(&local.occupancy));
    }
    let end = transfer.run();
    transfer.end(end, None)
}

/// Where the transfer goes.
struct Receiver {
    addresses: Vec<SocketAddr>,
    /// Keys and known hosts; `None` without encryption, and for HOST `local`.
    dialer: Option<Dialer>,
    local: Option<LocalReceiver>,
}

impl Receiver {
    /// Resolves HOST and reads the files of keys, or starts the embedded receiver.
    fn find(
        args: &SendArgs,
        form: &Form<'_>,
        config: &SenderConfig,
        status: &Status,
        start: Instant,
    ) -> Result<Self, Failure> {
        match &form.host.value {
            Target::Local => {
                let seed = args.seed.unwrap_or_else(draw_seed);
                let options = socket::of_receiver(1, args.socket_buffer, args.offload.options());
                let local =
                    LocalReceiver::start(seed, (form.format, args.insecure), config, &args.native, options)?;
                Ok(Self { addresses: vec![local.address], dialer: None, local: Some(local) })
            }
            Target::Ticket(ticket) => {
                let dialer = args.trust.dialer(ticket, &surroundings())?;
                Ok(Self { addresses: ticket.addresses(), dialer: Some(dialer), local: None })
            }
            Target::Remote { host, port } => {
                let mut addresses = lookup(host, *port, status, start)?;
                if form.format == Format::Classic {
                    // Classic senders take the first one, as the reference does.
                    addresses.truncate(1);
                }
                let remote = rdt_trust::Remote::Host { host: host.clone(), port: *port };
                let dial = || args.trust.dialer(&remote, &surroundings());
                let has_keys = form.format == Format::Native && !args.insecure;
                let dialer = has_keys.then(dial).transpose()?;
                Ok(Self { addresses, dialer, local: None })
            }
        }
    }

    /// Returns the keys for a connection. Without encryption, any key of the receiver is good.
    fn initiator(&self) -> InitiatorConfig {
        let local_key = || self.local.as_ref().and_then(|local| local.key);
        self.dialer.as_ref().map_or_else(
            || InitiatorConfig { remote: local_key(), ..InitiatorConfig::default() },
            Dialer::initiator,
        )
    }
}

fn run(mut transfer: Transfer<impl Sending>, local: Option<LocalReceiver>) -> Result<(), Failure> {
    if let Some(local) = &local {
        transfer.socket.limit(Arc::clone(&local.occupancy));
    }
    let end = transfer.run();
    let receiver = local.map(LocalReceiver::finish).transpose()?;
    transfer.conclude(end, receiver.as_ref())
}
