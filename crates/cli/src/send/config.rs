//! Configuration of the sender, from the command-line arguments.

use std::path::Path;

use rdt_endpoint::files::suggested_name;
use rdt_program::Failure;
use rdt_transport::congestion::Algorithm;
use rdt_transport::{ConfigError, MAX_DATAGRAM, SenderConfig, StreamName, Wire};

use crate::args::form::Form;
use crate::args::native::MAX_GIVE_UP;
use crate::args::target::Target;
use crate::args::{Positional, SendArgs, usage};

/// Smallest datagram of the native format, bytes: room for a SYN.
const MIN_NATIVE_DATAGRAM: usize = 128;

pub(super) fn configure(args: &SendArgs, form: &Form<'_>) -> Result<SenderConfig, Failure> {
    if args.seed.is_some() && form.host.value != Target::Local {
        return Err(usage(
            "--seed is for HOST local: the link of another receiver is seeded there, with rdt-recv --seed",
        ));
    }
    match (form.format, &form.positional) {
        (Wire::Classic, Some(positional)) => classic(args, positional),
        _ => native(args, form.positional.as_ref()),
    }
}

fn classic(args: &SendArgs, positional: &Positional) -> Result<SenderConfig, Failure> {
    let mut config = SenderConfig::new(positional.window, positional.link);
    config.packet_size = args.packet_size;
    config.attempts = args.attempts.unwrap_or_default();
    config.memory_limit = args.memory;
    config.no_progress = args.no_progress;
    config.max_rate = args.max_rate;
    match config.validate() {
        Ok(()) => Ok(config),
        Err(error @ ConfigError::WindowTooLarge { .. }) => {
            Err(usage(format!("{error}; a smaller W or a larger --memory helps")))
        }
        Err(error) => Err(usage(error)),
    }
}

/// Returns the name to suggest for the stream: that of `--name`, or of the file.
fn stream_name(args: &SendArgs) -> Option<StreamName> {
    if args.no_name {
        return None;
    }
    let of_file = || {
        let path = args.file.as_ref().filter(|path| *path != Path::new("-"))?;
        suggested_name(path)
    };
    args.name.clone().or_else(of_file)
}

fn native(args: &SendArgs, positional: Option<&Positional>) -> Result<SenderConfig, Failure> {
    let packet_size = args.packet_size;
    let link_request = match positional {
        Some(positional) => {
            let mut request = positional.link_request(packet_size)?;
            request.queue_bytes = args.link.queue_bytes(&request, packet_size).unwrap_or(request.queue_bytes);
            request.validate().map_err(usage)?;
            Some(request)
        }
        None => args.link.request(packet_size)?,
    };
    if !(MIN_NATIVE_DATAGRAM..=MAX_DATAGRAM).contains(&packet_size) {
        return Err(usage(format!(
            "the packet size must be from {MIN_NATIVE_DATAGRAM} to {MAX_DATAGRAM} bytes in the native format, not {packet_size}"
        )));
    }
    let mut config = SenderConfig {
        link_request,
        packet_size,
        memory_limit: args.memory,
        no_progress: args.no_progress,
        max_rate: args.max_rate,
        name: stream_name(args),
        ..SenderConfig::native(rand::random())
    };
    args.native.apply(&mut config, positional.map(|positional| positional.window))?;
    if config.give_up > MAX_GIVE_UP {
        return Err(usage("--give-up of a native transfer is at most a day (86400s)"));
    }
    match config.validate() {
        Ok(()) => Ok(config),
        Err(ConfigError::ZeroWindow) if !matches!(config.congestion, Algorithm::Fixed(_)) => {
            Err(usage("--memory must hold a packet at least"))
        }
        Err(error @ ConfigError::WindowTooLarge { .. }) => {
            Err(usage(format!("{error}; a smaller window or a larger --memory helps")))
        }
        Err(error) => Err(usage(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_that_of_file_unless_told_otherwise() {
        for (options, name) in [
            ("", None),
            ("--file /tmp/a/b.txt", Some("b.txt")),
            ("--file -", None),
            ("--file b.txt --no-name", None),
            ("--file b.txt --name c", Some("c")),
            ("--name ../c", Some("../c")),
        ] {
            let line = format!("rdt-send local {options}");
            let args = SendArgs::read(line.split_whitespace().map(Into::into)).unwrap();
            let config = configure(&args, &Form::new(&args).unwrap()).unwrap();
            assert_eq!(config.name.as_ref().map(StreamName::as_str), name, "{options}");
        }
    }

    #[test]
    fn handshake_timeout_follows_give_up_unless_set() {
        let seconds = |options: &str| {
            let line = format!("rdt-send local {options}");
            let args = SendArgs::read(line.split_whitespace().map(Into::into)).unwrap();
            let config = configure(&args, &Form::new(&args).unwrap()).unwrap();
            (config.give_up.as_secs(), config.handshake_give_up.as_secs())
        };
        assert_eq!(seconds(""), (100, 180));
        assert_eq!(seconds("--give-up 5s"), (5, 5));
        assert_eq!(seconds("--connect-give-up 7s"), (100, 7));
        assert_eq!(seconds("--give-up 5s --connect-give-up 7s"), (5, 7));
    }
}
