//! Programs as child processes, killed when the test ends.

use std::io::{BufRead as _, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use rdt_udp::clock;
use serde_json::Value;

use crate::raw::WAIT_LIMIT;

/// A running program, killed on drop.
pub(crate) struct Program {
    child: Child,
    out: Receiver<String>,
    err: Receiver<String>,
}

#[derive(Debug)]
#[expect(dead_code, reason = "all of it is in the message of a test that fails")]
pub(crate) struct Outcome {
    pub(crate) code: Option<i32>,
    pub(crate) out: Vec<String>,
    pub(crate) err: Vec<String>,
}

impl Program {
    pub(crate) fn start(path: &str, args: &[&str]) -> Self {
        let mut command = Command::new(path);
        command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let out = lines(child.stdout.take().expect("it is piped"));
        let err = lines(child.stderr.take().expect("it is piped"));
        Self { child, out, err }
    }

    pub(crate) fn line(&self) -> String {
        let line = self.out.recv_timeout(WAIT_LIMIT);
        line.unwrap_or_else(|_| panic!("no line; errors: {:?}", self.err.try_iter().collect::<Vec<_>>()))
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("the child is ours").is_some()
    }

    pub(crate) fn finish(mut self) -> Outcome {
        let (out, err) = (rest(&self.out), rest(&self.err));
        let end = clock::now() + WAIT_LIMIT;
        while !self.has_ended() {
            assert!(
                clock::now() < end,
                "the program closed its output and goes on; it printed {out:#?} {err:#?}"
            );
            thread::park_timeout(Duration::from_millis(1));
        }
        let code = self.child.wait().expect("the child is ours").code();
        Outcome { code, out, err }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Outcome {
    pub(crate) fn expect(&self, code: i32) -> &Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    pub(crate) fn printed(&self, line: &str) -> &Self {
        assert!(self.out.iter().any(|found| found == line), "no line {line:?} in {self:#?}");
        self
    }
}

fn lines(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

fn rest(lines: &Receiver<String>) -> Vec<String> {
    let mut all = Vec::new();
    loop {
        match lines.recv_timeout(WAIT_LIMIT) {
            Ok(line) => all.push(line),
            Err(RecvTimeoutError::Disconnected) => return all,
            Err(RecvTimeoutError::Timeout) => panic!("the program does not end; it printed {all:#?}"),
        }
    }
}

/// An `rdt-recv` on a free port.
pub(crate) struct Recv {
    program: Program,
    pub(crate) address: SocketAddr,
}

impl Recv {
    pub(crate) fn start(args: &[&str]) -> Self {
        let fixed = ["--bind", "127.0.0.1:0", "--json", "--faithful"];
        let program = Program::start(env!("CARGO_BIN_EXE_rdt-recv"), &[&fixed, args].concat());
        let started = event(&program, "initialized");
        let address = started["address"].as_str().and_then(|text| text.parse().ok());
        Self { program, address: address.expect("the address that it is bound to") }
    }

    pub(crate) fn event(&self, name: &str) -> Value {
        event(&self.program, name)
    }
}

fn event(program: &Program, name: &str) -> Value {
    loop {
        let value: Value = serde_json::from_str(&program.line()).expect("one object a line");
        if value["event"] == name {
            return value;
        }
    }
}
