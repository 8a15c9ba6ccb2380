//! The terminal, and which process group is in the foreground there.
//!
//! A shell makes it its own, and cannot give it back to a group that has no number in its namespace
//! of processes. So CMD gets a group of its own with the terminal, as a shell would give it, and
//! when it stops the run stops as well. Where CMD shares the standard input or output with others
//! (`| less`), it stays in their group, and the terminal theirs.

use std::io::{self, IsTerminal};
use std::os::fd::OwnedFd;

use nix::sys::signal::{SigSet, SigmaskHow, Signal as Number};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, getpgrp, kill_current_process_group, test_kill_process_group};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

/// The terminal that this process belongs to.
pub(crate) struct Terminal(OwnedFd);

impl Terminal {
    pub(crate) fn open() -> Option<Self> {
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        rustix::fs::open("/dev/tty", flags, Mode::empty()).ok().map(Self)
    }

    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// Returns true if this process group is in the foreground.
    pub(crate) fn is_with(&self, group: Pid) -> bool {
        tcgetpgrp(&self.0) == Ok(group)
    }

    /// Puts a group into the foreground, from wherever. Makes system calls only.
    pub(crate) fn give_to(&self, group: Pid) -> rustix::io::Result<()> {
        // Who asks for it from the background is stopped, unless that signal is blocked.
        let stop: SigSet = [Number::SIGTTOU].into_iter().collect();
        let before = stop.thread_swap_mask(SigmaskHow::SIG_BLOCK);
        let given = tcsetpgrp(&self.0, group);
        // It cannot fail if the other did not.
        let _ = before.and_then(|before| before.thread_set_mask());
        given
    }
}

/// The terminal of a run that began in the foreground; none otherwise.
pub(crate) struct Foreground(Option<Terminal>);

impl Foreground {
    pub(crate) fn look() -> Self {
        Self(Terminal::open().filter(|terminal| terminal.is_with(getpgrp())))
    }

    /// CMD gets the terminal for itself.
    pub(crate) fn is_for_command(&self) -> bool {
        self.0.is_some() && io::stdin().is_terminal() && io::stdout().is_terminal()
    }

    /// CMD has stopped, and had the terminal or wants it: stops this group too, unless it is in the
    /// foreground and CMD can have it. Returns when the run is to go on: whether in the foreground.
    pub(crate) fn stop(&self, had_terminal: bool) -> bool {
        let Some(terminal) = &self.0 else { return false };
        if !had_terminal && terminal.is_with(getpgrp()) {
            return true;
        }
        if had_terminal {
            log(terminal.give_to(getpgrp()));
        }
        // Where no shell could let it go on, the kernel lets it do so at once.
        log(kill_current_process_group(Signal::TSTP));
        terminal.is_with(getpgrp())
    }

    /// Puts this process group into the foreground again, if the group there has ended. A shell
    /// outside that has taken the terminal keeps it.
    pub(crate) fn take_back(&self) {
        let Some(terminal) = &self.0 else { return };
        let is_gone = |group| test_kill_process_group(group) == Err(Errno::SRCH);
        if tcgetpgrp(&terminal.0).is_ok_and(is_gone) {
            log(terminal.give_to(getpgrp()));
        }
    }
}

fn log(result: rustix::io::Result<()>) {
    if let Err(error) = result {
        tracing::debug!(%error, "the terminal stays as it is");
    }
}
