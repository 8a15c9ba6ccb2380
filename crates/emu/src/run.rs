//! `rdt-emu run`: a command in its own network.
//!
//! ```text
//! rdt-emu run          relays between the two devices; supervises          supervise.rs
//!  `- enter            makes namespaces for users, processes, mounts       enter.rs
//!      `- init         first process inside; makes both networks           init.rs
//!          |- server   in the far network
//!          `- CMD      in the near network
//! ```
//!
//! Each process is killed when its parent ends, and all inner processes are killed when `init`
//! ends. The kernel removes the namespaces and devices with the last process and descriptor. A
//! nested run has no far network of its own: its far device is in the enclosing network, which
//! forwards its packets. Nor has it a user namespace of its own, so its programs can enter both
//! networks.
//!
//! | noun | file | owns |
//! |---|---|---|
//! | address | `address.rs` | addresses of the ends |
//! | enclosing run | `enclosing.rs` | detection of a nested run |
//! | network | `network.rs` | devices, addresses, routes |
//! | netlink | `netlink.rs` | requests to the kernel for them |
//! | device | `tun.rs`, `ecn.rs` | packets from and to the kernel |
//! | control | `control.rs` | messages between `run` and `init` |
//! | stage | `stage.rs` | arguments of the processes inside |
//! | signals | `signals.rs` | signals through a descriptor |
//! | NAT | `nat.rs`, `tool.rs` | program that connects the far end to the host's network |
//! | programs | `programs.rs` | start of CMD and the server |
//! | resolver | `resolver.rs` | name server of the programs; lookups that fail |
//! | terminal | `terminal.rs` | foreground process group |
//! | permission errors | `permission_errors.rs` | messages when the host denies a step |

mod address;
mod control;
mod ecn;
mod enclosing;
mod enter;
mod init;
mod nat;
mod netlink;
mod network;
mod permission_errors;
mod programs;
mod resolver;
mod signals;
pub(crate) mod stage;
mod supervise;
mod terminal;
mod tool;
mod tun;

pub use netlink::Netlink;
pub(crate) use supervise::run;

use std::io;

use crate::Failure;
use crate::talk;
use control::{Control, Message};
use rdt_program::exit;
use rustix::event::{PollFd, Timespec, poll};
use rustix::io::Errno;
use stage::{InsideArgs, Stage};

/// Runs the hidden `inside` command. Reports errors to the outer process.
pub(crate) fn inside(args: &InsideArgs) -> u8 {
    let Ok(control) = Control::inherited(args.control) else {
        talk("this command is for `rdt-emu run` to start");
        return exit::USAGE;
    };
    let message = match args.stage {
        Stage::Enter => match enter::enter(args, &control) {
            // The `Init` stage has reported the result.
            Ok(()) => return 0,
            Err(failure) => failed(&failure),
        },
        Stage::Init => init::init(args, &control).unwrap_or_else(|failure| failed(&failure)),
    };
    // Fails if the outer process has ended: then no report is needed.
    let _ = control.send(&message, &[]);
    // The kernel removes the devices, with unread packets, when this process ends. So wait until
    // the outer process has read them and closes the socket.
    while let Ok(Some(_)) = control.receive() {}
    0
}

fn failed(failure: &Failure) -> Message {
    Message::Failed(failure.code(), failure.to_string())
}

/// Waits until a descriptor is ready. A signal may end the wait before.
fn wait(fds: &mut [PollFd<'_>], timeout: Option<&Timespec>) -> Result<(), Failure> {
    match poll(fds, timeout) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(Failure::system("cannot wait")(error.into())),
    }
}

/// Returns the failure of a program that cannot be started.
fn not_run(name: &str, error: &io::Error) -> Failure {
    let is_missing = error.kind() == io::ErrorKind::NotFound;
    let code = if is_missing { exit::NOT_FOUND } else { exit::NOT_RUN };
    Failure::new(code, format_args!("cannot run {name}: {error}"))
}

/// Returns the end of a run by a signal that arrived before there was a path.
fn before_start(signal: u8) -> Failure {
    Failure::new(exit::SIGNAL + signal, format_args!("signal {signal} came before CMD was started"))
}
