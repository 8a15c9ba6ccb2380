//! Terminal and its foreground process group.
//!
//! If CMD is an interactive shell, it puts its own process group into the foreground of the
//! terminal. It cannot restore the group outside, which has no id in its process namespace. So CMD
//! starts in a foreground group of its own, and when CMD stops, the run stops too. If CMD shares
//! its standard input or output with other programs (`| less`), it stays in their group, which
//! remains in the foreground.

use std::io::{self, IsTerminal};
use std::os::fd::OwnedFd;

use nix::sys::signal::{SigSet, SigmaskHow, Signal as Number};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, getpgrp, kill_current_process_group, test_kill_process_group};
use rustix::termios::{tcgetpgrp, tcsetpgrp};

pub(crate) struct Terminal(OwnedFd);

impl Terminal {
    pub(crate) fn open() -> Option<Self> {
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        rustix::fs::open("/dev/tty", flags, Mode::empty()).ok().map(Self)
    }

    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    pub(crate) fn is_with(&self, group: Pid) -> bool {
        tcgetpgrp(&self.0) == Ok(group)
    }

    /// Puts a group into the foreground, even if the caller is in the background. Makes only system
    /// calls, so that a forked child may call it.
    pub(crate) fn give_to(&self, group: Pid) -> rustix::io::Result<()> {
        // In the background, tcsetpgrp raises SIGTTOU, which stops the process unless the signal is
        // blocked.
        let stop: SigSet = [Number::SIGTTOU].into_iter().collect();
        let before = stop.thread_swap_mask(SigmaskHow::SIG_BLOCK);
        let given = tcsetpgrp(&self.0, group);
        // Cannot fail, because the first change of the mask succeeded.
        let _ = before.and_then(|before| before.thread_set_mask());
        given
    }
}

/// Terminal of a run that was started in the foreground; `None` for other runs.
pub(crate) struct Foreground(Option<Terminal>);

impl Foreground {
    pub(crate) fn look() -> Self {
        Self(Terminal::open().filter(|terminal| terminal.is_with(getpgrp())))
    }

    /// Returns true if CMD gets a foreground group of its own.
    pub(crate) fn is_for_command(&self) -> bool {
        self.0.is_some() && io::stdin().is_terminal() && io::stdout().is_terminal()
    }

    /// Handles a stop of CMD, which was in the foreground (`had_terminal`) or needs to be. Stops
    /// this group too, unless it is in the foreground and CMD may have the terminal. Returns when
    /// the run is resumed: true if in the foreground.
    pub(crate) fn stop(&self, had_terminal: bool) -> bool {
        let Some(terminal) = &self.0 else { return false };
        if !had_terminal && terminal.is_with(getpgrp()) {
            return true;
        }
        if had_terminal {
            log(terminal.give_to(getpgrp()));
        }
        // The kernel ignores this signal in an orphaned process group, which no shell could resume.
        log(kill_current_process_group(Signal::TSTP));
        terminal.is_with(getpgrp())
    }

    /// Puts this group into the foreground again if the foreground group has ended. The terminal is
    /// left to a shell outside that has taken it.
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
