//! `rdt-send`: runs one transfer, with an embedded receiver if HOST is `local`.

pub(crate) mod app;
mod config;
mod data;
mod error_text;
pub(crate) mod local;
mod qlog_file;
pub(crate) mod transfer;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use rdt_driver::{UdpOptions, clock};
use rdt_transport::{Phase, TransferError};

use crate::Failure;
use crate::args::form::Form;
use crate::args::target::{self, Target};
use crate::args::{SendArgs, Switch};
use crate::output::status::{Status, Style};
use crate::recv::draw_seed;
use crate::socket;
use config::configure;
use data::Data;
use local::LocalReceiver;
use rdt_program::Console;
use transfer::{Remote, Transfer};

pub(crate) fn command(args: &SendArgs) -> Result<(), Failure> {
    let form = Form::new(args)?;
    let target = &form.host.value;
    let config = configure(args, &form)?;
    if args.seed.is_some() && *target != Target::Local {
        return Err(Failure::Usage(
            "--seed is for HOST local: the link of another receiver is seeded there, with rdt-recv --seed"
                .into(),
        ));
    }
    let buffer = args.socket_buffer;
    let data = Data::parse(args, form.stdin)?;
    args.qlog.as_deref().map_or(Ok(()), |path| qlog_file::check(path, &data))?;
    let style = if args.json { Style::Json { quiet: args.quiet } } else { Style::Text { quiet: args.quiet } };
    let start = clock::now();
    let console = Console::default();
    let status = Status::new(console.clone(), style, start, &config);
    status.parameters(&config);
    data.announce(&status);

    let (address, local) = match target {
        Target::Local => {
            let seed = args.seed.unwrap_or_else(draw_seed);
            let options = socket::of_receiver(1, buffer, args.offload.options());
            let local = LocalReceiver::start(seed, &config, args.native.rwnd, args.native.ack, options)?;
            (local.address, Some(local))
        }
        Target::Remote { host, port } => (lookup(host, *port, &status, start)?, None),
    };
    let options = UdpOptions {
        by_reference: args.by_reference == Switch::On,
        ..socket::of_sender(&config, buffer, args.offload.options())
    };
    let remote = Remote { host: &form.host.text, address, options };
    let mut transfer = Transfer::open(args, remote, config, data, status, start)?;
    if let Some(local) = &local {
        transfer.socket.limit(Arc::clone(&local.occupancy));
    }
    let end = transfer.run();
    let receiver = local.map(LocalReceiver::finish).transpose()?;
    transfer.conclude(end, receiver.as_ref())?;
    console.finish().map_err(Failure::stdout)
}

fn lookup(host: &str, port: u16, status: &Status, start: Instant) -> Result<SocketAddr, Failure> {
    target::resolve(host, port).ok_or_else(|| {
        let time = clock::now().saturating_duration_since(start).as_secs_f64();
        status.text(&format!("[{time:.3}]\ttarget {host} is invalid"));
        status.failed(
            Phase::Connect,
            TransferError::InvalidName(host.into()),
            format!("no such host: {host}"),
        )
    })
}
