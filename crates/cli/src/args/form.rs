//! What the arguments of `rdt-send` ask for as a whole: which format, and whether the five arguments of the
//! course or the options describe the link. What was said twice, or makes no sense together, is refused here.

use crate::args::WireArg;
use crate::{Failure, SendArgs};

/// The arguments after HOST in the course's form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Positional<'a> {
    pub(crate) window: &'a str,
    pub(crate) rtt_s: &'a str,
    pub(crate) loss: &'a str,
    pub(crate) link_mbps: &'a str,
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mode<'a> {
    pub(crate) host: &'a str,
    pub(crate) wire: WireArg,
    pub(crate) course: Option<Positional<'a>>,
    /// The standard input is sent, because of a `-`.
    pub(crate) stdin: bool,
}

impl<'a> Mode<'a> {
    pub(crate) fn parse(args: &'a SendArgs) -> Result<Self, Failure> {
        let Some(host) = args.host.as_deref() else {
            return Err(usage(
                "the following arguments are missing: <HOST> <W> <RTT> <LOSS> <LINKMBPS>, or <HOST> alone; see --help",
            ));
        };
        let short_form = args.window.as_deref() == Some("-") && args.rtt_s.is_none();
        let stdin = short_form || args.stdin.is_some();
        let course = if short_form { None } else { course(args)? };
        if short_form && (args.power.is_some() || args.bytes.is_some() || args.file.is_some()) {
            return Err(usage("- and --power, --bytes or --file both say what to send: choose one"));
        }
        let wire = match (args.wire, course) {
            (Some(wire), _) => wire,
            (None, Some(_)) => WireArg::Classic,
            (None, None) => WireArg::Native,
        };
        let mode = Self { host, wire, course, stdin };
        mode.check(args)?;
        Ok(mode)
    }

    fn check(&self, args: &SendArgs) -> Result<(), Failure> {
        if let Some(course) = &self.course {
            refuse_twice("RTT", course.rtt_s, "--rtt", args.rtt.as_deref())?;
            refuse_twice("LOSS", course.loss, "--loss", args.loss.as_deref())?;
            refuse_twice("LINKMBPS", course.link_mbps, "--rate", args.rate.as_deref())?;
        }
        if let (Some(queue), Some(buffer)) = (&args.queue, args.buffer) {
            return Err(usage(format!("the buffer is given twice: --buffer {buffer} and --queue {queue}")));
        }
        if self.course.is_none() && args.buffer.is_some() {
            return Err(usage("--buffer goes with W RTT LOSS LINKMBPS; without them write --queue 100p"));
        }
        if args.rwnd.is_some() && self.host != "local" {
            return Err(usage(
                "--rwnd is for HOST local: the window of another receiver is set there, with rdt-recv --rwnd",
            ));
        }
        match self.wire {
            WireArg::Native if args.attempts.is_some() => {
                Err(usage("--attempts is for --wire classic; the native format has --give-up TIME"))
            }
            WireArg::Native => Ok(()),
            WireArg::Classic => self.check_classic(args),
        }
    }

    fn check_classic(&self, args: &SendArgs) -> Result<(), Failure> {
        if self.course.is_none() {
            return Err(usage("--wire classic needs <W> <RTT> <LOSS> <LINKMBPS> after HOST"));
        }
        let options = [
            ("--cc", args.cc.is_some()),
            ("--recovery", args.recovery.is_some()),
            ("--sack", args.sack.is_some()),
            ("--initial-window", args.initial_window.is_some()),
            ("--pacing", args.pacing.is_some()),
            ("--ecn", args.ecn.is_some()),
            ("--rwnd", args.rwnd.is_some()),
            ("--give-up", args.give_up.is_some()),
            ("--connect-give-up", args.connect_give_up.is_some()),
            ("--queue", args.queue.is_some()),
        ];
        match options.iter().find(|(_, given)| *given) {
            Some((name, _)) => Err(usage(format!(
                "{name} is for the native format, and HOST W RTT LOSS LINKMBPS is classic unless --wire native is given"
            ))),
            None => Ok(()),
        }
    }
}

/// All of the course's arguments, or none.
fn course(args: &SendArgs) -> Result<Option<Positional<'_>>, Failure> {
    let given = [&args.window, &args.rtt_s, &args.loss_p, &args.link_mbps];
    match given.map(Option::as_deref) {
        [Some(window), Some(rtt_s), Some(loss), Some(link_mbps)] => {
            Ok(Some(Positional { window, rtt_s, loss, link_mbps }))
        }
        [None, ..] => Ok(None),
        given => {
            let names = ["<W>", "<RTT>", "<LOSS>", "<LINKMBPS>"];
            let missing = names.iter().zip(given).filter(|(_, given)| given.is_none());
            let missing: Vec<_> = missing.map(|(name, _)| *name).collect();
            Err(usage(format!(
                "after W the following arguments are missing: {}; see --help",
                missing.join(" ")
            )))
        }
    }
}

fn refuse_twice(name: &str, value: &str, option: &str, other: Option<&str>) -> Result<(), Failure> {
    match other {
        Some(other) => Err(usage(format!("{name} is given twice: as {value} and as {option} {other}"))),
        None => Ok(()),
    }
}

fn usage(sentence: impl Into<String>) -> Failure {
    Failure::Usage(sentence.into())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    fn parse(line: &str) -> Result<(WireArg, bool, bool), String> {
        let args = SendArgs::try_parse_from(format!("rdt-send {line}").split_whitespace()).unwrap();
        let mode = Mode::parse(&args).map_err(|failure| failure.to_string())?;
        Ok((mode.wire, mode.course.is_some(), mode.stdin))
    }

    #[test]
    fn the_form_decides_the_format_unless_it_is_named() {
        use WireArg::{Classic, Native};
        for (line, mode) in [
            ("h", (Native, false, false)),
            ("h -", (Native, false, true)),
            ("h --wire native --rtt 1s", (Native, false, false)),
            ("h 1 0 0 1", (Classic, true, false)),
            ("h 1 0 0 1 -", (Classic, true, true)),
            ("h 1 0 0 1 - --wire native", (Native, true, true)),
            ("h 1 0 0 1 --wire native --queue 3p", (Native, true, false)),
        ] {
            assert_eq!(parse(line), Ok(mode), "{line}");
        }
    }
}
