//! `rdt-emu run`: a command in a network of its own.
//!
//! ```text
//! rdt-emu run          relays between the two devices; supervises          this file
//!  `- enter            makes namespaces for users, processes, mounts       enter.rs
//!      `- init         first process inside; makes both networks           init.rs
//!          |- server   in the far network
//!          `- CMD      in the near network
//! ```
//!
//! Each ends when the one above it does, whatever ends that, and with `init` everything that was
//! started inside. The namespaces and devices vanish with the last process and descriptor. A run
//! inside another has no far network of its own: its far device is in the network that it was
//! started in, which passes on what it sends.
//!
//! | noun | file | owns |
//! |---|---|---|
//! | address | `address.rs` | which addresses the ends get |
//! | surroundings | `enclosing.rs` | whether this is inside another run |
//! | network | `network.rs` | devices, addresses, routes |
//! | netlink | `netlink.rs` | saying that to the kernel |
//! | device | `tun.rs`, `ecn.rs` | packets from and to the kernel |
//! | control | `control.rs` | the messages between `run` and `init` |
//! | signals | `signals.rs` | signals as something to wait for |
//! | programs | `programs.rs` | starting CMD and the server |
//! | terminal | `terminal.rs` | who is in the foreground there |
//! | sentences | `permission_errors.rs` | what to say when the host forbids a step |

mod address;
mod control;
mod ecn;
mod enclosing;
mod enter;
mod init;
mod netlink;
mod network;
mod permission_errors;
mod programs;
mod signals;
mod supervise;
mod terminal;
mod tun;

pub(crate) use supervise::run;

use crate::args::InsideArgs;
use crate::failure::Failure;
use crate::talk;
use control::{Control, Message};
use rdt_program::exit;

/// Which part of the program inside the namespaces runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Stage {
    /// Enters new namespaces and starts the other one.
    Enter,
    /// The first process of the namespaces.
    Init,
}

impl Stage {
    /// As it is read from the command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Enter => "enter",
            Self::Init => "init",
        }
    }
}

/// The hidden command. What goes wrong is told outside.
pub(crate) fn inside(args: &InsideArgs) -> u8 {
    let Ok(control) = Control::inherited(args.control) else {
        talk("this command is for `rdt-emu run` to start");
        return exit::USAGE;
    };
    let message = match args.stage {
        Stage::Enter => match enter::enter(args) {
            // The other stage has said how it ended.
            Ok(()) => return 0,
            Err(failure) => failed(&failure),
        },
        Stage::Init => init::init(args, &control).unwrap_or_else(|failure| failed(&failure)),
    };
    // Fails if the outer process is gone: then no report is needed.
    let _ = control.send(&message, &[]);
    // The devices vanish with this process, and with them what was not read from them. The other
    // side hangs up when it has read it.
    while let Ok(Some(_)) = control.receive() {}
    0
}

fn failed(failure: &Failure) -> Message {
    Message::Failed(failure.code(), failure.to_string())
}
