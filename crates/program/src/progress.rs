//! Progress for people: whether the terminal can draw it, rates and times in words.

use std::ffi::OsStr;
use std::io::IsTerminal as _;
use std::time::Duration;

/// Returns true if the standard error is a terminal that moves its cursor when told to. One without
/// `TERM`, or with `dumb`, prints escape codes as text.
pub fn can_draw() -> bool {
    std::io::stderr().is_terminal() && has_escape_codes(std::env::var_os("TERM").as_deref())
}

fn has_escape_codes(term: Option<&OsStr>) -> bool {
    // Windows sets no such variable.
    term.map_or(cfg!(windows), |term| !term.is_empty() && term != "dumb")
}

/// Returns a rate in words: `1.05 Gbit/s`, `12.3 Mbit/s`, `5.0 kbit/s`.
pub fn rate(bps: f64) -> String {
    match bps {
        1e9.. => format!("{:.2} Gbit/s", bps / 1e9),
        1e6.. => format!("{:.1} Mbit/s", bps / 1e6),
        _ => format!("{:.1} kbit/s", bps / 1e3),
    }
}

/// Returns a time in words: `40 s`, `12 min`, `3 h 20 min`.
pub fn time(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..100 => format!("{seconds} s"),
        seconds @ 100..6_000 => format!("{} min", seconds.div_ceil(60)),
        seconds => format!("{} h {} min", seconds / 3_600, seconds % 3_600 / 60),
    }
}

/// Returns the time left in words, or nothing while the rate is not known. `per_s` is the number of
/// units a second of which `left` are left.
pub fn time_left(left: u64, per_s: f64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "an estimate for people")]
    let seconds = left as f64 / per_s;
    match Duration::try_from_secs_f64(seconds.ceil()) {
        // A stalled transfer has no end in sight.
        Ok(left) if per_s > 0.0 && left < MAX_TIME_LEFT => format!("{} left", time(left)),
        _ => String::new(),
    }
}

/// Longest time left that is worth a word.
const MAX_TIME_LEFT: Duration = Duration::from_secs(1000 * 3600);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_codes_need_terminal_that_has_them() {
        for (term, expected) in
            [(None, cfg!(windows)), (Some(""), false), (Some("dumb"), false), (Some("xterm"), true)]
        {
            assert_eq!(has_escape_codes(term.map(OsStr::new)), expected, "{term:?}");
        }
    }

    #[test]
    fn rates_and_times_have_units() {
        assert_eq!([5e3, 12.34e6, 1.05e9].map(rate), ["5.0 kbit/s", "12.3 Mbit/s", "1.05 Gbit/s"]);
        let times = [0, 99, 100, 5_999, 6_000].map(|seconds| time(Duration::from_secs(seconds)));
        assert_eq!(times, ["0 s", "99 s", "2 min", "100 min", "1 h 40 min"]);
    }

    #[test]
    fn time_left_needs_rate() {
        for (left, per_s, expected) in [
            (100, 0.0, ""),
            (0, 0.0, ""),
            (100, 1e-9, ""),
            (101, 10.0, "11 s left"),
            (0, 10.0, "0 s left"),
            (u64::MAX, 1.0, ""),
        ] {
            assert_eq!(time_left(left, per_s), expected, "{left} {per_s}");
        }
    }
}
