//! Times of command-line options, in whole seconds.

use std::time::Duration;

/// Parses the lifetime of a ticket, from 1 min to a year.
///
/// # Errors
/// A sentence for the user.
pub fn parse_lifetime(text: &str) -> Result<Duration, String> {
    parse_time(text, Duration::from_secs(60), Duration::from_secs(365 * 24 * 3600))
}

/// Parses a time of whole seconds, minutes, hours or days within these limits.
///
/// # Errors
/// A sentence for the user.
pub fn parse_time(text: &str, min: Duration, max: Duration) -> Result<Duration, String> {
    let whole = |unit: &str, seconds: u64| {
        let number = text.strip_suffix(unit)?.parse::<u64>().ok()?;
        number.checked_mul(seconds).map(Duration::from_secs)
    };
    let time = whole("min", 60)
        .or_else(|| whole("s", 1))
        .or_else(|| whole("h", 3600))
        .or_else(|| whole("d", 24 * 3600))
        .ok_or_else(|| format!("'{text}' is no time: write 30s, 10min, 24h or 7d"))?;
    if (min..=max).contains(&time) {
        Ok(time)
    } else {
        Err(format!("'{text}' is not from {} to {} seconds", min.as_secs(), max.as_secs()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetime_is_from_minute_to_year() {
        assert!(parse_lifetime("59s").is_err() && parse_lifetime("366d").is_err());
        assert_eq!(parse_lifetime("24h"), Ok(Duration::from_secs(86_400)));
        assert_eq!(parse_lifetime("1min"), parse_lifetime("60s"));
    }
}
