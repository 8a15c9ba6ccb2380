//! `rdt-send`: its arguments made into a transfer.

pub(crate) mod app;
mod data;
mod error_text;
pub(crate) mod local;
mod qlog_file;
pub(crate) mod transfer;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rdt_driver::{UdpOptions, clock};
use rdt_emulator::{parse_bytes, parse_duration};
use rdt_transport::{Attempts, ConfigError, Phase, SenderConfig, TransferError};

use crate::args::form::{Mode, Positional};
use crate::args::native;
use crate::args::positional::{positional_link, positional_window};
use crate::args::target::{self, Target};
use crate::args::{Switch, WireArg};
use crate::output::status::{Status, Style};
use crate::recv::draw_seed;
use crate::socket;
use crate::{Failure, SendArgs};
use data::Data;
use local::LocalReceiver;
use rdt_program::Console;
use transfer::{Pace, Remote, Transfer};

/// Runs the program.
pub(crate) fn command(args: &SendArgs) -> Result<(), Failure> {
    let mode = Mode::parse(args)?;
    let target = Target::parse(mode.host).map_err(Failure::Usage)?;
    let config = match (mode.wire, &mode.course) {
        (WireArg::Classic, Some(course)) => classic(args, course)?,
        _ => native::configure(args, &mode)?,
    };
    let interval = parse_duration(&args.interval).map_err(|e| Failure::Usage(format!("--interval: {e}")))?;
    if interval < Duration::from_millis(1) {
        return Err(Failure::Usage("--interval must be at least 1ms".into()));
    }
    if args.seed.is_some() && target != Target::Local {
        return Err(Failure::Usage(
            "--seed is for HOST local: the link of another receiver is seeded there, with rdt-recv --seed"
                .into(),
        ));
    }
    let rwnd = args.rwnd.as_deref().map(native::parse_rwnd).transpose()?;
    let buffer = args.socket_buffer.as_deref().map(socket::parse_buffer).transpose()?;
    let data = Data::parse(args, mode.stdin)?;
    args.qlog.as_deref().map_or(Ok(()), |path| qlog_file::check(path, &data))?;
    let style = if args.json { Style::Json { quiet: args.quiet } } else { Style::Text { quiet: args.quiet } };
    let start = clock::now();
    let console = Console::default();
    let status = Status::new(console.clone(), style, start, &config);
    status.parameters(&config);
    data.announce(&status);

    let (address, local) = match &target {
        Target::Local => {
            let seed = args.seed.unwrap_or_else(draw_seed);
            let options = socket::of_receiver(1, buffer, socket::offload(args.gso, args.gro));
            let local = LocalReceiver::start(seed, &config, rwnd, options)?;
            (local.address, Some(local))
        }
        Target::Remote { host, port } => (lookup(host, *port, &status, start)?, None),
    };
    let pace = Pace { status, interval, start };
    let options = UdpOptions {
        by_reference: args.by_reference == Switch::On,
        ..socket::of_sender(&config, buffer, socket::offload(args.gso, args.gro))
    };
    let mut transfer =
        Transfer::open(args, Remote { host: mode.host, address, options }, config, data, pace)?;
    if let Some(local) = &local {
        transfer.socket.limit(Arc::clone(&local.occupancy));
    }
    let end = transfer.run();
    let receiver = local.map(LocalReceiver::finish).transpose()?;
    transfer.conclude(end, receiver.as_ref())?;
    console.finish().map_err(Failure::stdout)
}

fn classic(args: &SendArgs, course: &Positional<'_>) -> Result<SenderConfig, Failure> {
    let window = positional_window(course)?;
    let config = SenderConfig {
        packet_size: args.packet_size,
        attempts: args.attempts.as_deref().map_or(Ok(Attempts::default()), attempts)?,
        memory_limit: parse_bytes(&args.memory).map_err(|e| Failure::Usage(format!("--memory: {e}")))?,
        ..SenderConfig::new(window, positional_link(args, course, window)?)
    };
    match config.validate() {
        Ok(()) => Ok(config),
        Err(error @ ConfigError::WindowTooLarge { .. }) => {
            Err(Failure::Usage(format!("{error}; a smaller W or a larger --memory helps")))
        }
        Err(error) => Err(error.into()),
    }
}

/// Reads `--attempts`. One number is for what can wait long; a handshake that gets no answer should fail soon.
fn attempts(text: &str) -> Result<Attempts, Failure> {
    let count = |text: &str| text.trim().parse::<u32>().ok().filter(|count| *count > 0);
    let counts: Option<Vec<_>> = text.split('/').map(count).collect();
    match counts.as_deref() {
        Some(&[syn, data, fin]) => Ok(Attempts { syn, data, fin }),
        Some(&[both]) => Ok(Attempts { data: both, fin: both, ..Attempts::default() }),
        _ => Err(Failure::Usage(format!(
            "--attempts must be SYN/DATA/FIN or one number, each a whole number, at least 1, not '{text}'"
        ))),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_three_numbers_or_one() {
        let read = |text| attempts(text).ok();
        assert_eq!(read("30/50/50"), Some(Attempts::default()));
        assert_eq!(read("1/2/3"), Some(Attempts { syn: 1, data: 2, fin: 3 }));
        assert_eq!(read("500"), Some(Attempts { syn: 30, data: 500, fin: 500 }));
        for bad in ["", "0", "1/2", "1/2/3/4", "1/0/3", "1//3", "-1", "1.5", "4294967296", "x"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
