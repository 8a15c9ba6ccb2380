//! Command-line arguments. Each argument has a parser that converts its text into the type that the
//! programs use. `form` and `send::config` check rules about two arguments.

pub(crate) mod form;
mod link;
pub(crate) mod native;
mod positional;
mod recv;
mod send;
pub(crate) mod target;
mod values;

use clap::ValueEnum;
use rdt_program::Failure;
use rdt_udp::UdpOptions;

pub(crate) use link::LinkArgs;
pub(crate) use native::NativeArgs;
pub(crate) use positional::Positional;
pub(crate) use recv::RecvArgs;
pub(crate) use send::SendArgs;
pub(crate) use values::share;

/// State of a feature that a user can turn off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    /// Used if the system supports it.
    On,
    /// Not used.
    Off,
}

#[derive(Debug, clap::Args)]
pub(crate) struct OffloadArgs {
    /// Segmentation offload (GSO): many datagrams in one call
    #[arg(long, value_enum, default_value_t = Switch::On)]
    gso: Switch,
    /// Receive offload (GRO): the kernel coalesces datagrams
    #[arg(long, value_enum, default_value_t = Switch::On)]
    gro: Switch,
}

impl OffloadArgs {
    pub(crate) fn options(&self) -> UdpOptions {
        UdpOptions { gso: self.gso == Switch::On, gro: self.gro == Switch::On, ..UdpOptions::default() }
    }
}

/// When a receiver acknowledges packets that arrive in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AckEvery {
    #[value(name = "1")]
    One,
    Batch,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum WireArg {
    /// Byte offsets, selective ACKs, congestion control; encrypted without --insecure.
    Native,
    /// The protocol of the reference programs: numbered packets, a fixed window.
    Classic,
    /// TCP of the kernel, to measure beside the others; not encrypted (Linux).
    Tcp,
    /// UDP at the constant rate of --max-rate; not encrypted (Linux).
    Udp,
}

impl WireArg {
    /// Returns the transport of the kernel; `None` for formats of rdt.
    fn kernel(self) -> Option<Wire> {
        match self {
            Self::Native | Self::Classic => None,
            Self::Tcp => Some(Wire::Tcp),
            Self::Udp => Some(Wire::Udp),
        }
    }
}

/// Transport of a transfer that is measured and not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    /// TCP of the kernel.
    Tcp,
    /// UDP of the kernel, at a constant rate.
    Udp,
    /// Connection of rdt, whose responder sends.
    Native,
}

impl Wire {
    /// Returns the name in options and in JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Native => "native",
        }
    }
}

/// Returns the names of the options on the command line.
fn given_options(command: &clap::Command, matches: &clap::ArgMatches) -> Vec<String> {
    let is_given = |arg: &&clap::Arg| {
        matches.value_source(arg.get_id().as_str()) == Some(clap::parser::ValueSource::CommandLine)
    };
    let given = command.get_arguments().filter(is_given);
    given.filter_map(|arg| arg.get_long()).map(str::to_owned).collect()
}

/// Value of an argument, with its text for error messages that quote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Given<T> {
    pub(crate) text: String,
    pub(crate) value: T,
}

/// Wraps a value parser, so that its result includes the text of the argument.
fn given<T>(
    parse: fn(&str) -> Result<T, Failure>,
) -> impl Fn(&str) -> Result<Given<T>, Failure> + Clone + Send + Sync + 'static
where
    T: 'static,
{
    move |text| Ok(Given { text: text.into(), value: parse(text)? })
}

pub(crate) fn usage(sentence: impl std::fmt::Display) -> Failure {
    Failure::usage(sentence)
}
