//! Which calibration judges a run, and how.

use std::time::Duration;

use serde_json::json;

use super::*;

fn calibration() -> Calibration {
    let host = Host { name: "here".into(), system: "Linux 6.1".into(), processors: 2 };
    let measured = "2026-11-21T20:06:21Z".parse().unwrap();
    Calibration { measured, host, proxy_bps: Some(2e9), namespace_bps: None }
}

#[cfg(target_os = "linux")]
#[test]
fn what_is_kept_reads_back() {
    for namespace_bps in [None, Some(123_456_789.5)] {
        let kept = Calibration { namespace_bps, ..calibration() };
        assert_eq!(Calibration::parse(&kept.json().to_string()), Ok(kept));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn what_is_malformed_is_told_and_does_not_count() {
    let whole = calibration().json();
    let spoiled = |key: &str, value: Value| {
        let mut object = whole.clone();
        object[key] = value;
        object.to_string()
    };
    let mut texts = vec![String::new(), "{".into(), "[]".into(), "null".into()];
    texts.extend([
        spoiled("version", 2.into()),
        spoiled("measured", "yesterday".into()),
        spoiled("host", json!({ "name": "here" })),
        spoiled("proxy_held_bps", "2e9".into()),
        spoiled("proxy_held_bps", 0.into()),
    ]);
    for text in texts {
        assert_eq!(Calibration::parse(&text), Err(Unfit::Malformed), "{text}");
    }
}

#[test]
fn one_of_another_host_or_of_long_ago_is_told_and_does_not_count() {
    let (kept, host) = (calibration(), calibration().host);
    let later = |days: i64| kept.measured + SignedDuration::from_hours(24 * days);
    assert_eq!(kept.clone().fits(&host, later(0)), Ok(kept.clone()));
    assert_eq!(kept.clone().fits(&host, later(90)), Ok(kept.clone()));
    // The clock was set back.
    assert_eq!(kept.clone().fits(&host, later(-9)), Ok(kept.clone()));
    let old = kept.clone().fits(&host, later(91)).unwrap_err();
    assert_eq!(old.to_string(), "it is of 2026-11-21, more than 90 days ago");
    for other in [
        Host { name: "there".into(), ..host.clone() },
        Host { system: "Linux 6.2".into(), ..host.clone() },
        Host { processors: 4, ..host },
    ] {
        let unfit = kept.clone().fits(&other, later(0)).unwrap_err();
        assert_eq!(unfit.to_string(), "it is of another host or kernel (here, Linux 6.1, processors: 2)");
    }
}

#[test]
fn only_a_higher_rate_than_was_held_in_that_mode_is_refused() {
    let refusal = |bps, mode| calibration().refusal(Bitrate::from_bps(bps), mode);
    assert_eq!(refusal(2_000_000_000, Mode::Proxy), None);
    assert_eq!(refusal(9_000_000_000, Mode::Namespace), None, "nothing is known");
    let sentence = refusal(2_100_000_000, Mode::Proxy).unwrap();
    let begins = "the path asks for 2100.0 Mbit/s, and the highest rate that this host held as a proxy is 2000.0 \
                  Mbit/s (`rdt-emu calibrate` of 2026-11-21): ";
    assert!(sentence.starts_with(begins) && sentence.contains("--beyond-calibration"), "{sentence}");
}

#[test]
fn what_is_asked_for_is_the_highest_rate_of_either_direction() {
    let rate = Bitrate::from_bps;
    let free = LinkConfig::default();
    let slow = LinkConfig::new(rate(5), Duration::ZERO);
    let steps = slow.clone().rate_steps([(Duration::from_secs(9), rate(7))]);
    assert_eq!(highest_rate(&free.clone().into()), None);
    assert_eq!(highest_rate(&PathConfig::asymmetric(free, slow.clone())), Some(rate(5)));
    assert_eq!(highest_rate(&PathConfig::asymmetric(steps, slow)), Some(rate(7)));
}
