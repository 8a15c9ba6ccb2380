//! Progress bar of `rdt-send` on a terminal.

use std::fmt;
use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use rdt_program::progress;

pub(crate) const UPDATE_INTERVAL: Duration = Duration::from_millis(100);

const TEMPLATE: &str = "{prefix} {bar:30} {percent:>3} %  {mb}  {rate}  {left}";

/// Bar on the standard error: share, rate and time left. Removed when it is dropped.
pub(crate) struct TransferBar(ProgressBar);

impl TransferBar {
    /// Returns the bar of a transfer of `bytes` bytes; `None` if the output is no terminal.
    pub(crate) fn on_terminal(name: &str, bytes: u64) -> Option<Self> {
        if !std::io::stdout().is_terminal() || !progress::can_draw() {
            return None;
        }
        let bar = ProgressBar::with_draw_target(Some(bytes), ProgressDrawTarget::hidden());
        let style = ProgressStyle::with_template(TEMPLATE).unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style.with_key("mb", megabytes).with_key("rate", rate).with_key("left", left));
        // Only the name, as the path may be longer than the line.
        let name = name.rsplit(std::path::is_separator).next().unwrap_or(name);
        bar.set_prefix(name.to_owned());
        Some(Self(bar))
    }

    /// Shows the acknowledged bytes; after the lines of the handshake, which it would hide.
    pub(crate) fn show(&self, bytes: u64) {
        if self.0.is_hidden() {
            self.0.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.0.set_position(bytes);
    }
}

impl Drop for TransferBar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

#[expect(clippy::cast_precision_loss, reason = "printed to a tenth")]
fn megabytes(state: &ProgressState, out: &mut dyn fmt::Write) {
    let mb = |bytes: u64| bytes as f64 / 1e6;
    let _ = write!(out, "{:.1}/{:.1} MB", mb(state.pos()), mb(state.len().unwrap_or(0)));
}

fn rate(state: &ProgressState, out: &mut dyn fmt::Write) {
    let _ = out.write_str(&progress::rate(state.per_sec() * 8.0));
}

fn left(state: &ProgressState, out: &mut dyn fmt::Write) {
    let left = state.len().unwrap_or(0).saturating_sub(state.pos());
    let _ = out.write_str(&progress::time_left(left, state.per_sec()));
}
