//! Stages of the start inside the namespaces, and the arguments of the command that runs them.

use std::ffi::OsString;
use std::net::Ipv4Addr;

use super::tool::Tool;

/// Stage of the start inside the namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Stage {
    /// Creates the namespaces, and starts the `Init` stage in them.
    Enter,
    /// First process of the namespaces.
    Init,
}

/// Arguments of the hidden `inside` command.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct InsideArgs {
    #[arg(long)]
    pub(crate) stage: Stage,
    /// Descriptor of the control socket to `run`.
    #[arg(long, value_parser = clap::value_parser!(i32).range(3..))]
    pub(crate) control: std::os::fd::RawFd,
    #[arg(long)]
    pub(crate) mtu: u32,
    #[arg(long)]
    pub(crate) ipv6: bool,
    /// Creates a user namespace.
    #[arg(long)]
    pub(crate) user_namespace: bool,
    /// Makes the command the foreground process of the terminal.
    #[arg(long)]
    pub(crate) foreground: bool,
    /// Address of the near end, where the command runs.
    #[arg(long)]
    pub(crate) near: Ipv4Addr,
    /// Address of the far end, for the command.
    #[arg(long)]
    pub(crate) peer: Ipv4Addr,
    /// Further addresses of the far end, each as NAME=ADDRESS.
    #[arg(long)]
    pub(crate) also: Vec<String>,
    #[arg(long)]
    pub(crate) internet: Option<Tool>,
    #[arg(long)]
    pub(crate) server: Option<OsString>,
    #[arg(required = true, last = true)]
    pub(crate) command: Vec<OsString>,
}

impl InsideArgs {
    pub(crate) fn to_arguments(&self) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = vec![
            format!("--stage={:?}", self.stage).to_lowercase().into(),
            format!("--control={}", self.control).into(),
            format!("--mtu={}", self.mtu).into(),
            format!("--near={}", self.near).into(),
            format!("--peer={}", self.peer).into(),
        ];
        arguments.extend(self.ipv6.then(|| "--ipv6".into()));
        arguments.extend(self.user_namespace.then(|| "--user-namespace".into()));
        arguments.extend(self.foreground.then(|| "--foreground".into()));
        arguments.extend(self.also.iter().map(|also| format!("--also={also}").into()));
        arguments.extend(self.internet.map(|tool| format!("--internet={}", tool.name()).into()));
        if let Some(server) = &self.server {
            let mut argument = OsString::from("--server=");
            argument.push(server);
            arguments.push(argument);
        }
        arguments.push("--".into());
        arguments.extend(self.command.iter().cloned());
        arguments
    }
}
