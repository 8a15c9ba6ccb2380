//! Signals that are read from a descriptor: signalfd(2).

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{getpid, getsid};

const REQUESTS: [Signal; 4] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Came {
    pub(crate) number: u8,
    /// True if the kernel sent the signal to all programs in the foreground, as for Ctrl-C.
    pub(crate) from_terminal: bool,
}

/// Signals that this process reads. They are blocked here, and must not be in started programs.
pub(crate) struct Signals {
    fd: SignalFd,
    came: VecDeque<Came>,
}

impl Signals {
    /// Reads the signals that request the end. Must be called before any thread is started.
    pub(crate) fn requests() -> io::Result<Self> {
        Self::of(&REQUESTS.into_iter().collect())
    }

    /// Reads the signals of [`requests`](Self::requests), and SIGCHLD, which ends a wait but is not
    /// returned as a signal.
    pub(crate) fn requests_and_children() -> io::Result<Self> {
        Self::of(&REQUESTS.into_iter().chain([Signal::SIGCHLD]).collect())
    }

    /// Queues a signal that arrived as a message.
    pub(crate) fn push(&mut self, number: u8) {
        self.came.push_back(Came { number, from_terminal: false });
    }

    pub(crate) fn next(&mut self) -> Option<Came> {
        self.read();
        self.came.pop_front()
    }

    /// Returns true if a signal is pending. Reads SIGCHLD too, so that it ends one wait only.
    pub(crate) fn any(&mut self) -> bool {
        self.read();
        !self.came.is_empty()
    }

    /// Restores the default effect of signals that request the end. Pending signals are discarded.
    pub(crate) fn release(mut self) {
        while self.next().is_some() {}
        if let Err(error) = REQUESTS.into_iter().collect::<SigSet>().thread_unblock() {
            tracing::debug!(%error, "requests to end stay blocked");
        }
    }

    fn read(&mut self) {
        while let Ok(Some(info)) = self.fd.read_signal() {
            if info.ssi_signo != Signal::SIGCHLD as u32 {
                // Signal numbers are at most 64.
                let number = u8::try_from(info.ssi_signo).unwrap_or(u8::MAX);
                let is_hangup = info.ssi_signo == Signal::SIGHUP as u32 && is_session_leader();
                let from_terminal = info.ssi_code == libc::SI_KERNEL && !is_hangup;
                self.came.push_back(Came { number, from_terminal });
            }
        }
    }

    fn of(set: &SigSet) -> io::Result<Self> {
        set.thread_block()?;
        let fd = SignalFd::with_flags(set, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        Ok(Self { fd, came: VecDeque::new() })
    }
}

/// Returns true if this process leads its session, as a program that a terminal window or
/// `ssh -t` starts. The hangup of the terminal is then sent to this process alone (setsid(2)).
fn is_session_leader() -> bool {
    getsid(None).is_ok_and(|session| session == getpid())
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
