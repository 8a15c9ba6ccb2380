//! Form of `rdt-send`'s arguments: the wire format, and whether the link is given by positional
//! arguments or by options. Rejects contradictions between them.

use std::path::Path;

use rdt_program::Failure;
use rdt_transport::Wire as Format;

use super::positional::{Positional, WindowArg};
use super::target::Target;
use super::{Given, SendArgs, WireArg, usage};

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Form<'a> {
    pub(crate) host: &'a Given<Target>,
    pub(crate) format: Format,
    pub(crate) positional: Option<Positional>,
    /// True if a `-` among the arguments selects the standard input.
    pub(crate) stdin: bool,
}

impl<'a> Form<'a> {
    pub(crate) fn new(args: &'a SendArgs) -> Result<Self, Failure> {
        let Some(host) = &args.host else {
            return Err(usage(
                "the following arguments are missing: <HOST> <W> <RTT> <LOSS> <LINKMBPS>, or <HOST> alone; see --help",
            ));
        };
        let host_dash = args.window == Some(WindowArg::Stdin) && args.rtt_s.is_none();
        let stdin = host_dash || args.stdin.is_some();
        let positional = if host_dash { None } else { positional(args)? };
        let other =
            args.power.is_some() || args.bytes.is_some() || args.file.is_some() || args.time.is_some();
        if host_dash && other {
            return Err(usage("- and --power, --bytes, --file or --time both say what to send: choose one"));
        }
        let wire = args.wire.unwrap_or(match positional {
            Some(_) => WireArg::Classic,
            None => WireArg::Native,
        });
        let format = match wire {
            WireArg::Classic => Format::Classic,
            WireArg::Native => Format::Native,
            // These have a form of their own: `SendArgs::kernel_wire`.
            WireArg::Tcp | WireArg::Udp => return Err(usage("the kernel's transports have no form of rdt")),
        };
        if args.reverse {
            return Err(usage(
                "--reverse is for the native format without W, --wire tcp and --wire udp: receivers that store transfers do not send",
            ));
        }
        let form = Self { host, format, positional, stdin };
        form.check(args)?;
        form.check_keys(args)?;
        Ok(form)
    }

    /// Rejects options of keys where there are none.
    fn check_keys(&self, args: &SendArgs) -> Result<(), Failure> {
        let trust = &args.trust;
        let options = [
            ("--identity", trust.identity.is_some()),
            ("--known-hosts", trust.known_hosts.is_some()),
            ("--secret-file", trust.secret_file.is_some()),
            ("a ticket", matches!(self.host.value, Target::Ticket(_))),
        ];
        let given = options.iter().find(|(_, given)| *given).map(|(name, _)| *name);
        match (self.format, given) {
            (Format::Classic, _) if args.insecure => {
                Err(usage("--insecure is for the native format: classic packets are never encrypted"))
            }
            (Format::Classic, Some(name)) => Err(usage(format!(
                "{name} is for encrypted transfers, and classic packets are not encrypted: --wire native"
            ))),
            (Format::Native, Some(name)) if args.insecure => {
                Err(usage(format!("{name} is for encrypted transfers: leave out --insecure")))
            }
            (Format::Native, Some(name)) if self.host.value == Target::Local => Err(usage(format!(
                "{name} is for a receiver on the network: that of HOST local has a key for this run alone"
            ))),
            _ => Ok(()),
        }
    }

    fn check(&self, args: &SendArgs) -> Result<(), Failure> {
        let link = &args.link;
        if self.positional.is_some() {
            refuse_both("RTT", args.rtt_s.as_ref(), "--rtt", link.rtt.as_ref())?;
            refuse_both("LOSS", args.loss_p.as_ref(), "--loss", link.loss.as_ref())?;
            refuse_both("LINKMBPS", args.link_bps.as_ref(), "--rate", link.rate.as_ref())?;
        }
        if let (Some(queue), Some(buffer)) = (&link.queue, args.buffer) {
            return Err(usage(format!(
                "the buffer is given twice: --buffer {buffer} and --queue {}",
                queue.text
            )));
        }
        if self.positional.is_none() && args.buffer.is_some() {
            return Err(usage("--buffer goes with W RTT LOSS LINKMBPS; without them write --queue 100p"));
        }
        self.check_local(args)?;
        self.check_parallel(args)?;
        self.check_format(args)
    }

    /// Rejects options of the embedded receiver for another one.
    fn check_local(&self, args: &SendArgs) -> Result<(), Failure> {
        let is_local = self.host.value == Target::Local;
        if args.native.rwnd.is_some() && !is_local {
            return Err(usage(
                "--rwnd is for HOST local: the window of another receiver is set there, with rdt-recv --rwnd",
            ));
        }
        if args.native.ack.is_some() && !is_local {
            return Err(usage(
                "--ack is for HOST local: the ACKs of another receiver are set there, with rdt-recv --ack",
            ));
        }
        Ok(())
    }

    fn check_parallel(&self, args: &SendArgs) -> Result<(), Failure> {
        let is_stdin = self.stdin || args.file.as_deref() == Some(Path::new("-"));
        let has_lines = args.debug || args.interval.is_some() || args.qlog.is_some() || args.csv.is_some();
        if args.parallel > 1 && (is_stdin || has_lines) {
            return Err(usage(
                "--parallel goes neither with the standard input nor with --debug, --interval, --qlog or --csv",
            ));
        }
        if args.parallel > 1 && args.idle_rtt.is_some() {
            return Err(usage("--parallel does not go with --idle-rtt: the other transfers load the path"));
        }
        Ok(())
    }

    fn check_format(&self, args: &SendArgs) -> Result<(), Failure> {
        if self.format == Format::Classic && args.idle_rtt.is_some() {
            return Err(usage("--idle-rtt is for the native format: classic packets carry no such probes"));
        }
        if self.format == Format::Classic && (args.name.is_some() || args.no_name) {
            let option = if args.no_name { "--no-name" } else { "--name" };
            return Err(usage(format!("{option} is for the native format: a classic transfer has no name")));
        }
        match (self.format, &args.native_option) {
            (Format::Native, _) if args.attempts.is_some() => {
                Err(usage("--attempts is for --wire classic; the native format has --give-up TIME"))
            }
            (Format::Classic, _) if self.positional.is_none() => {
                Err(usage("--wire classic needs <W> <RTT> <LOSS> <LINKMBPS> after HOST"))
            }
            (Format::Classic, Some(name)) => Err(usage(format!(
                "{name} is for the native format, and HOST W RTT LOSS LINKMBPS is classic unless --wire native is given"
            ))),
            _ => Ok(()),
        }
    }
}

/// Returns the positional arguments after HOST: all or none.
fn positional(args: &SendArgs) -> Result<Option<Positional>, Failure> {
    let Some(window) = args.window else { return Ok(None) };
    match (&args.rtt_s, &args.loss_p, &args.link_bps) {
        (Some(rtt_s), Some(loss), Some(link_bps)) => {
            Ok(Some(Positional::new(args, window.packets()?, rtt_s.value, loss.value, link_bps.value)))
        }
        (rtt_s, loss, _) => {
            let given = [("<RTT>", rtt_s.is_some()), ("<LOSS>", loss.is_some()), ("<LINKMBPS>", false)];
            let missing = given.iter().filter(|(_, given)| !given).map(|(name, _)| *name);
            Err(usage(format!(
                "after W the following arguments are missing: {}; see --help",
                missing.collect::<Vec<_>>().join(" ")
            )))
        }
    }
}

fn refuse_both<A, B>(
    name: &str,
    value: Option<&Given<A>>,
    option: &str,
    other: Option<&Given<B>>,
) -> Result<(), Failure> {
    match (value, other) {
        (Some(value), Some(other)) => {
            Err(usage(format!("{name} is given twice: as {} and as {option} {}", value.text, other.text)))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<(Format, bool, bool), String> {
        let line = format!("rdt-send {line}");
        let args = SendArgs::read(line.split_whitespace().map(Into::into)).unwrap();
        let form = Form::new(&args).map_err(|failure| failure.to_string())?;
        Ok((form.format, form.positional.is_some(), form.stdin))
    }

    #[test]
    fn positional_arguments_select_classic_unless_wire_is_given() {
        use Format::{Classic, Native};
        for (line, form) in [
            ("h", (Native, false, false)),
            ("h -", (Native, false, true)),
            ("h --wire native --rtt 1s", (Native, false, false)),
            ("h 1 0 0 1", (Classic, true, false)),
            ("h 1 0 0 1 -", (Classic, true, true)),
            ("h 1 0 0 1 - --wire native", (Native, true, true)),
            ("h 1 0 0 1 --wire native --queue 3p", (Native, true, false)),
            ("h --insecure", (Native, false, false)),
            ("h 1 0 0 1 --wire native --insecure", (Native, true, false)),
        ] {
            assert_eq!(parse(line), Ok(form), "{line}");
        }
    }

    #[test]
    fn key_options_need_encryption_and_network() {
        for (line, part) in [
            ("h 1 0 0 1 --insecure", "classic packets are never encrypted"),
            ("h 1 0 0 1 --identity k", "--wire native"),
            (
                "h --insecure --known-hosts k",
                "--known-hosts is for encrypted transfers: leave out --insecure",
            ),
            ("local --secret-file s", "a key for this run alone"),
        ] {
            let sentence = parse(line).unwrap_err();
            assert!(sentence.contains(part), "{line}: {sentence}");
        }
        assert!(parse("h --identity k --secret-file s").is_ok());
    }
}
