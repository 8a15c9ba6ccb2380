//! Programs under test, with folders for their keys.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use rdt_program_testing::home;
pub(crate) use rdt_program_testing::programs::{Ended, Program, WAIT_LIMIT};
use serde_json::Value;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_rdt-tunnel");

/// Folder of the keys of a test's programs.
pub(crate) struct Home(home::Home);

impl Home {
    pub(crate) fn new() -> Self {
        Self(home::Home::new(PROGRAM))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path(name)
    }

    /// Writes a file that others may not read.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        self.0.write_secret(name, text)
    }

    /// Returns a command whose arguments are separated by blanks. `user` has a folder of keys of
    /// its own.
    pub(crate) fn command(&self, user: &str, args: &str) -> Command {
        self.0.command(user, args.split_whitespace())
    }

    /// Runs a program to its end.
    pub(crate) fn run(&self, user: &str, args: &str) -> Ended {
        Program::start(&mut self.command(user, args)).ended()
    }

    /// Starts `serve` for a target, on a free port of the loopback interface.
    pub(crate) fn serve(&self, target: SocketAddr, options: &str) -> Serve {
        let args = format!("serve --to {target} --listen 127.0.0.1:0 --json {options}");
        let program = Program::start(&mut self.command("server", &args));
        let listening = program.event("listening");
        let address = listening["address"].as_str().unwrap().parse().unwrap();
        let tickets = home::tickets(&listening);
        let metrics = metrics(&listening);
        Serve { program, address, tickets, metrics }
    }

    /// Starts `connect` on a free TCP port.
    pub(crate) fn connect(&self, user: &str, remote: &str, options: &str) -> Connect {
        let args = format!("connect {remote} --listen 127.0.0.1:0 --json {options}");
        Connect::of(Program::start(&mut self.command(user, &args)))
    }

    /// Starts the same with a limit on descriptors.
    pub(crate) fn connect_limited(&self, descriptors: u32, user: &str, remote: &str) -> Connect {
        let args = ["connect", remote, "--listen", "127.0.0.1:0", "--json"];
        Connect::of(Program::start(&mut self.0.limited(descriptors, user, args)))
    }
}

impl Connect {
    fn of(program: Program) -> Self {
        let listening = program.event("listening");
        let address = listening["address"].as_str().unwrap().parse().unwrap();
        Self { program, address, metrics: metrics(&listening) }
    }
}

fn metrics(listening: &Value) -> Option<SocketAddr> {
    listening["metrics"].as_str().map(|address| address.parse().unwrap())
}

pub(crate) struct Serve {
    pub(crate) program: Program,
    pub(crate) address: SocketAddr,
    pub(crate) tickets: Vec<String>,
    /// Address of `--metrics`.
    pub(crate) metrics: Option<SocketAddr>,
}

pub(crate) struct Connect {
    pub(crate) program: Program,
    pub(crate) address: SocketAddr,
    /// Address of `--metrics`.
    pub(crate) metrics: Option<SocketAddr>,
}

/// Asserts that the lines of a program are events that fit the schema.
pub(crate) fn check_events(ended: &Ended) {
    home::check_events("rdt-tunnel.json", ended);
}
