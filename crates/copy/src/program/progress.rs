//! Bar on a terminal: bytes, share, rate, remaining time, files and the name of one. Hidden where
//! it cannot be drawn.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use rdt_program::{progress, talk};

use super::printable;
use crate::{Event, Kind};

const TICK: Duration = Duration::from_millis(200);
/// Before the number of bytes is known.
const LISTING: &str = "{spinner} {decimal_bytes}  {rate}  {prefix}  {wide_msg}";
const BAR: &str =
    "{decimal_bytes}/{decimal_total_bytes} [{bar:20}] {percent:>3} %  {rate}  {left}  {prefix}  {wide_msg}";

#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    is_listed: AtomicBool,
    files: AtomicU64,
    ended_files: AtomicU64,
    /// Bytes that need not be sent: they would make the rate meaningless.
    left_out: AtomicU64,
}

impl Progress {
    /// Creates a bar on the standard error. Without `show` it is never drawn.
    pub(crate) fn new(show: bool) -> Self {
        let is_drawn = show && progress::can_draw();
        let target = if is_drawn { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target).with_style(style(LISTING));
        let zero = || AtomicU64::new(0);
        Self { bar, is_listed: AtomicBool::new(false), files: zero(), ended_files: zero(), left_out: zero() }
    }

    pub(crate) fn start(&self) {
        if !self.bar.is_hidden() {
            self.bar.enable_steady_tick(TICK);
        }
    }

    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }

    /// Returns a function that prints a line above the bar, or without one.
    pub(crate) fn talk(&self) -> Arc<dyn Fn(&str) + Send + Sync> {
        let bar = self.bar.clone();
        Arc::new(move |line| bar.suspend(|| talk(line)))
    }

    pub(crate) fn event(&self, event: &Event<'_>) {
        match *event {
            Event::Total { files, bytes } => {
                self.files.store(files, Relaxed);
                self.is_listed.store(true, Relaxed);
                self.bar.set_style(style(BAR));
                self.bar.set_length(bytes.saturating_sub(self.left_out.load(Relaxed)));
                self.count(0);
            }
            Event::Progress { bytes } => self.bar.inc(bytes),
            Event::FileStarted { path, .. } if !self.bar.is_hidden() => {
                self.bar.set_message(printable::path(path));
            }
            Event::Resumed { offset, .. } => self.leave_out(offset),
            Event::Skipped { kind, bytes, .. } => {
                self.leave_out(bytes);
                self.count(u64::from(kind == Kind::File));
            }
            Event::Failed { kind, missing_bytes, .. } => {
                self.leave_out(missing_bytes);
                self.count(u64::from(kind == Some(Kind::File)));
            }
            Event::Done { kind: Kind::File, .. } => self.count(1),
            _ => {}
        }
    }

    fn leave_out(&self, bytes: u64) {
        self.left_out.fetch_add(bytes, Relaxed);
        if self.is_listed.load(Relaxed) {
            self.bar.dec_length(bytes);
        }
    }

    fn count(&self, ended: u64) {
        let ended = self.ended_files.fetch_add(ended, Relaxed) + ended;
        // Formatting takes more time than the copy of a small file.
        if self.bar.is_hidden() {
            return;
        }
        self.bar.set_prefix(if self.is_listed.load(Relaxed) {
            format!("{} left", files(self.files.load(Relaxed).saturating_sub(ended)))
        } else {
            files(ended)
        });
    }
}

fn files(number: u64) -> String {
    format!("{} file{}", HumanCount(number), if number == 1 { "" } else { "s" })
}

fn rate(state: &ProgressState, out: &mut dyn fmt::Write) {
    let _ = out.write_str(&progress::rate(state.per_sec() * 8.0));
}

fn left(state: &ProgressState, out: &mut dyn fmt::Write) {
    let left = state.len().unwrap_or(0).saturating_sub(state.pos());
    let _ = out.write_str(&progress::time_left(left, state.per_sec()));
}

fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template);
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> ");
    style.with_key("rate", rate).with_key("left", left)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::SkipReason;

    #[test]
    fn templates_are_valid() {
        for template in [LISTING, BAR] {
            ProgressStyle::with_template(template).unwrap();
        }
    }

    #[test]
    fn skipped_and_resumed_bytes_shorten_bar() {
        let progress = Progress::new(false);
        let path = Path::new("a");
        let skipped = Event::Skipped { path, kind: Kind::File, reason: SkipReason::Identical, bytes: 100 };
        progress.event(&skipped);
        progress.event(&Event::Total { files: 4, bytes: 1000 });
        progress.event(&Event::Resumed { path, offset: 50 });
        progress.event(&skipped);
        progress.event(&Event::Progress { bytes: 750 });
        assert_eq!((progress.bar.length(), progress.bar.position()), (Some(750), 750));
        assert_eq!(progress.ended_files.load(Relaxed), 2);
    }

    #[test]
    fn failures_and_links_leave_right_total() {
        let progress = Progress::new(false);
        let path = Path::new("a");
        progress.event(&Event::Total { files: 3, bytes: 1000 });
        let failed = |kind, bytes, missing_bytes| {
            progress.event(&Event::Failed { path, text: "", kind, bytes, missing_bytes });
        };
        progress.event(&Event::Progress { bytes: 150 });
        failed(Some(Kind::File), 600, 450);
        failed(Some(Kind::Directory), 0, 0);
        failed(None, 0, 0);
        let reason = SkipReason::Identical;
        progress.event(&Event::Skipped { path, kind: Kind::Symlink, reason, bytes: 0 });
        progress.event(&Event::Progress { bytes: 400 });
        assert_eq!((progress.bar.length(), progress.bar.position()), (Some(550), 550));
        assert_eq!(progress.ended_files.load(Relaxed), 1);
    }
}
