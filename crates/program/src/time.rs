//! Times of day, as the programs write and read them.

use std::env;
use std::sync::LazyLock;
use std::time::Duration;

use rdt_udp::clock;
use tz::{DateTime, LocalTimeType, TimeZone, UtcDateTime};

/// Formats a time since 1970 as RFC 3339 in UTC, with nine decimals.
pub fn rfc3339(unix_time: Duration) -> String {
    utc(unix_time).to_string()
}

/// Reads what [`rfc3339`] writes, and ignores decimals. `None` if `text` is something else.
pub fn from_rfc3339(text: &str) -> Option<Duration> {
    let mut fields = text.strip_suffix('Z')?.split(['-', 'T', ':', '.']);
    let year = fields.next()?.parse().ok()?;
    let mut field = || fields.next()?.parse().ok();
    let read = UtcDateTime::new(year, field()?, field()?, field()?, field()?, field()?, 0).ok()?;
    read.unix_time().try_into().ok().map(Duration::from_secs)
}

/// Returns the time as RFC 3339 with milliseconds, in the time zone of `TZ`, or without it of this
/// host. UTC if the zone cannot be read, and on systems other than Unix.
pub fn local() -> String {
    log_time(&now())
}

/// Returns [`local`] in the format of the reference receiver's log.
pub fn local_as_reference() -> String {
    reference_time(&now())
}

fn now() -> DateTime {
    static ZONE: LazyLock<TimeZone> = LazyLock::new(|| zone(env::var("TZ").ok().as_deref()));
    in_zone(clock::unix_time(), &ZONE)
}

fn in_zone(unix_time: Duration, zone: &TimeZone) -> DateTime {
    let (seconds, nanos) = (i64::try_from(unix_time.as_secs()).unwrap_or(i64::MAX), unix_time.subsec_nanos());
    let kind = zone.find_local_time_type(seconds).copied().unwrap_or(LocalTimeType::utc());
    DateTime::from_timespec_and_local(seconds, nanos, kind).expect("a time in this era")
}

fn zone(tz: Option<&str>) -> TimeZone {
    tz.map_or_else(TimeZone::local, TimeZone::from_posix_tz).unwrap_or_else(|_| TimeZone::utc())
}

fn log_time(at: &DateTime) -> String {
    let mut text = at.to_string();
    if let Some(point) = text.find('.') {
        // Six of nine decimals.
        text.drain(point + 4..point + 10);
    }
    text
}

fn reference_time(at: &DateTime) -> String {
    let (month, day, year) = (at.month(), at.month_day(), at.year().rem_euclid(100));
    format!("{month:02}/{day:02}/{year:02} {:02}:{:02}:{:02}", at.hour(), at.minute(), at.second())
}

fn utc(unix_time: Duration) -> UtcDateTime {
    let seconds = i64::try_from(unix_time.as_secs()).unwrap_or(i64::MAX);
    UtcDateTime::from_timespec(seconds, unix_time.subsec_nanos()).unwrap_or(UtcDateTime::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc3339_reads_what_it_wrote() {
        // `date -u -d @1709164800`
        let leap_day = Duration::new(1_709_164_800, 5);
        assert_eq!(rfc3339(leap_day), "2024-02-29T00:00:00.000000005Z");
        assert_eq!(from_rfc3339(&rfc3339(leap_day)), Some(Duration::from_secs(1_709_164_800)));
        assert_eq!(rfc3339(Duration::from_secs(60)), "1970-01-01T00:01:00.000000000Z");
        assert_eq!(from_rfc3339("2024-02-29T00:00:00Z"), Some(Duration::from_secs(1_709_164_800)));
    }

    #[test]
    fn rfc3339_refuses_other_texts() {
        for text in [
            "",
            "2024-02-29",
            "2023-02-29T00:00:00Z",
            "2024-02-29T24:00:00Z",
            "2024-02-29T00:00:00+01:00",
            "1969-12-31T23:59:59Z",
        ] {
            assert_eq!(from_rfc3339(text), None, "{text}");
        }
    }

    #[test]
    fn zone_is_that_of_tz() {
        let offset = |tz| zone(Some(tz)).find_local_time_type(1_709_164_800).unwrap().ut_offset();
        assert_eq!(["JST-9", "EST5", "", "no zone"].map(offset), [9 * 3600, -5 * 3600, 0, 0]);
    }

    #[test]
    fn log_has_milliseconds_and_offset() {
        let at = |tz| in_zone(Duration::new(1_709_164_805, 7_999_999), &zone(Some(tz)));
        assert_eq!(log_time(&at("")), "2024-02-29T00:00:05.007Z");
        assert_eq!(log_time(&at("JST-9")), "2024-02-29T09:00:05.007+09:00");
        assert_eq!(log_time(&at("NST3:30")), "2024-02-28T20:30:05.007-03:30");
    }

    #[test]
    fn reference_log_has_two_digits_of_the_year() {
        let at = in_zone(Duration::from_secs(1_709_164_805), &zone(Some("JST-9")));
        assert_eq!(reference_time(&at), "02/29/24 09:00:05");
    }
}
