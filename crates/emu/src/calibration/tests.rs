use std::time::Duration;

#[cfg(target_os = "linux")]
use serde_json::json;

use super::*;

fn one(bps: u64) -> Asked {
    Asked::by([&path(bps)]).unwrap()
}

fn path(bps: u64) -> PathConfig {
    LinkConfig::new(Bitrate::from_bps(bps), Duration::ZERO).into()
}

const PROXY: Mode = Mode::Proxy { paths: 1 };

fn calibration() -> Calibration {
    let host = Host { name: "here".into(), system: "Linux 6.1".into(), processors: 2 };
    let measured = time::from_rfc3339("2026-11-21T20:06:21Z").unwrap();
    let proxy = Bounds { held_bps: Some(2e9), failed_bps: Some(2.35e9) };
    Calibration { measured, host, proxy, namespace: Bounds::default() }
}

#[cfg(target_os = "linux")]
#[test]
fn saved_calibration_parses_back() {
    for (held_bps, failed_bps) in [(None, None), (Some(123_456_789.5), None), (None, Some(1e6))] {
        let kept = Calibration { namespace: Bounds { held_bps, failed_bps }, ..calibration() };
        assert_eq!(Calibration::parse(&kept.json().to_string()), Ok(kept));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn malformed_calibration_is_rejected() {
    let whole = calibration().json();
    let spoiled = |key: &str, value: Value| {
        let mut object = whole.clone();
        object[key] = value;
        object.to_string()
    };
    let mut texts = vec![String::new(), "{".into(), "[]".into(), "null".into()];
    texts.extend([
        spoiled("version", 1.into()),
        spoiled("measured", "yesterday".into()),
        spoiled("host", json!({ "name": "here" })),
        spoiled("proxy", 2e9.into()),
        spoiled("proxy", json!({ "held_bps": 2e9 })),
        spoiled("proxy", json!({ "held_bps": "2e9", "failed_bps": null })),
        spoiled("proxy", json!({ "held_bps": 0, "failed_bps": null })),
        spoiled("proxy", json!({ "held_bps": 2e9, "failed_bps": 2e9 })),
    ]);
    for text in texts {
        assert_eq!(Calibration::parse(&text), Err(Unfit::Malformed), "{text}");
    }
}

#[test]
fn calibration_expires_after_90_days() {
    let (kept, host) = (calibration(), calibration().host);
    let later = |days: u64| kept.measured + Duration::from_secs(DAY_S * days);
    assert_eq!(kept.clone().fits(&host, later(0)), Ok(kept.clone()));
    assert_eq!(kept.clone().fits(&host, later(90)), Ok(kept.clone()));
    // A clock that was set back does not invalidate the calibration.
    assert_eq!(
        kept.clone().fits(&host, kept.measured.saturating_sub(Duration::from_secs(DAY_S * 9))),
        Ok(kept.clone())
    );
    let old = kept.clone().fits(&host, later(91)).unwrap_err();
    assert_eq!(old.to_string(), "it was measured on 2026-11-21, more than 90 days ago");
}

#[test]
fn calibration_of_another_host_names_the_difference() {
    let (kept, host) = (calibration(), calibration().host);
    let fits = |here: Host| kept.clone().fits(&here, kept.measured).map_err(|unfit| unfit.to_string());
    let name = Host { name: "there".into(), system: "Linux 6.2".into(), processors: 4 };
    assert_eq!(fits(name).unwrap_err(), "the name of the host was here, and is there now");
    let system = Host { system: "Linux 6.2".into(), ..host.clone() };
    assert_eq!(fits(system).unwrap_err(), "the kernel was Linux 6.1, and is Linux 6.2 now");
    let more = Host { processors: 4, ..host.clone() };
    assert_eq!(fits(more).unwrap_err(), "the number of processors was 2, and is 4 now");
    assert!(fits(Host { processors: 1, ..host }).is_ok(), "what was too much for two is too much for one");
}

#[test]
fn unreadable_file_is_error_missing_file_is_none() {
    let kept = calibration();
    let read = |file: &Path| Calibration::read(file, &kept.host, kept.measured);
    let folder = std::env::temp_dir();
    assert_eq!(read(&folder.join("no such folder/no such file")), Ok(None));
    let unfit = read(&folder).unwrap_err();
    assert_eq!(unfit.to_string(), "it is not a regular file");
}

#[test]
fn rates_from_lowest_failure_on_are_refused() {
    let verdict = |bps, mode| calibration().verdict(one(bps), mode, 2);
    assert_eq!(verdict(2_000_000_000, PROXY), Verdict::Fine);
    assert_eq!(verdict(9_000_000_000, Mode::Namespace), Verdict::Fine, "nothing is known");
    let found = "this host held 2000 Mbit/s as a proxy and did not hold 2350 Mbit/s (`rdt-emu calibrate` of 2026-11-21): ";
    // All digits are printed, so that the message shows the excess.
    let doubtful = format!("the path asks for 2000.000001 Mbit/s, and {found}it may be too much");
    assert_eq!(verdict(2_000_000_001, PROXY), Verdict::Doubtful(doubtful));
    for bps in [2_350_000_000, 2_400_000_000] {
        let Verdict::Refused(sentence) = verdict(bps, PROXY) else { panic!("{bps}") };
        let begins = format!("the path asks for {} Mbit/s, and {found}ask for less", bps / 1_000_000);
        assert!(sentence.starts_with(&begins) && sentence.contains("--beyond-calibration"), "{sentence}");
    }
    assert!(matches!(verdict(2_349_999_999, PROXY), Verdict::Doubtful(_)));
}

#[test]
fn host_without_success_refuses_failed_rates() {
    let proxy = Bounds { held_bps: None, failed_bps: Some(30e6) };
    let kept = Calibration { proxy, ..calibration() };
    let verdict = |bps| kept.verdict(one(bps), PROXY, 2);
    let found = "this host did not hold 30 Mbit/s as a proxy, the lowest rate that was tried";
    assert!(matches!(verdict(30_000_000), Verdict::Refused(sentence) if sentence.contains(found)));
    assert!(matches!(verdict(1_000_000), Verdict::Doubtful(sentence) if sentence.contains(found)));
}

#[test]
fn unfailed_host_refuses_nothing() {
    let proxy = Bounds { held_bps: Some(30e6), failed_bps: None };
    let kept = Calibration { proxy, ..calibration() };
    let Verdict::Doubtful(sentence) = kept.verdict(one(90_000_000), PROXY, 2) else { panic!("refused") };
    assert!(sentence.contains("held 30 Mbit/s as a proxy, the highest rate that was tried"), "{sentence}");
}

#[test]
fn fewer_processors_make_carried_rates_doubtful() {
    let verdict = |bps| calibration().verdict(one(bps), PROXY, 1);
    let fewer = "of 2026-11-21, with 2 processors, of which 1 may be used now)";
    assert!(matches!(verdict(1_000_000), Verdict::Doubtful(sentence) if sentence.contains(fewer)));
    assert!(matches!(verdict(2_350_000_000), Verdict::Refused(sentence) if sentence.contains(fewer)));
}

#[test]
fn sum_of_carried_paths_may_exceed_host() {
    let verdict = |mbps: u64, paths| calibration().verdict(one(mbps * 1_000_000), Mode::Proxy { paths }, 2);
    assert_eq!(verdict(1000, 2), Verdict::Fine);
    let Verdict::Doubtful(sentence) = verdict(1000, 64) else { panic!("not a word") };
    let begins = "64 clients may have a path of 1000 Mbit/s each, 64000 Mbit/s together, and this host held 2000 Mbit/s";
    assert!(sentence.starts_with(begins), "{sentence}");
    assert!(matches!(verdict(2350, 64), Verdict::Refused(_)), "one of them is");
}

#[test]
fn requested_rate_is_highest_of_both_directions() {
    let rate = Bitrate::from_bps;
    let free = LinkConfig::default();
    let slow = LinkConfig::new(rate(5), Duration::ZERO);
    let steps = slow.clone().rate_steps([(Duration::from_secs(9), rate(7))]);
    let highest = |path: PathConfig| Asked::by([&path]).map(|asked| asked.highest);
    assert_eq!(highest(free.clone().into()), None);
    assert_eq!(highest(PathConfig::asymmetric(free, slow.clone())), Some(rate(5)));
    assert_eq!(highest(PathConfig::asymmetric(steps, slow)), Some(rate(7)));
}

#[test]
fn rates_of_shared_thread_add_up() {
    let namespace = Bounds { held_bps: Some(2e9), failed_bps: Some(2.35e9) };
    let kept = Calibration { namespace, ..calibration() };
    let verdict = |mbps: &[u64]| {
        let paths: Vec<_> = mbps.iter().map(|mbps| path(mbps * 1_000_000)).collect();
        let free = PathConfig::default();
        kept.verdict(Asked::by(paths.iter().chain([&free])).unwrap(), Mode::Namespace, 2)
    };
    assert_eq!(verdict(&[1000, 1000]), Verdict::Fine);
    let Verdict::Doubtful(sentence) = verdict(&[1000, 900, 500]) else { panic!("not a word") };
    let begins = "3 paths ask for 2400 Mbit/s together, and this host held 2000 Mbit/s in a namespace";
    assert!(sentence.starts_with(begins), "{sentence}");
    assert!(matches!(verdict(&[2350, 1]), Verdict::Refused(_)), "one of them is");

    let up = PathConfig::asymmetric(path(1_500_000_000).forward, LinkConfig::default());
    let down = PathConfig::asymmetric(LinkConfig::default(), path(1_500_000_000).forward);
    let asked = Asked::by([&up, &down]).unwrap();
    assert_eq!(kept.verdict(asked, Mode::Namespace, 2), Verdict::Fine, "directions do not add up");
}
