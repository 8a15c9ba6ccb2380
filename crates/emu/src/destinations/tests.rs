//! Prefixes, the options' errors, and the lookup.

use super::*;

fn parse(words: &[&str]) -> Result<Vec<Destination>, String> {
    let words: Vec<_> = words.iter().map(ToString::to_string).collect();
    Destination::parse_all(&words).map_err(|failure| failure.to_string())
}

fn table(words: &[&str]) -> Table {
    Table::new(parse(words).unwrap().into_iter().map(|it| it.prefix))
}

/// IPv4 packet between two addresses.
fn packet(source: [u8; 4], destination: [u8; 4]) -> Vec<u8> {
    let mut packet = vec![0; 20];
    packet[0] = 0x45;
    packet[12..16].copy_from_slice(&source);
    packet[16..20].copy_from_slice(&destination);
    packet
}

#[test]
fn longest_prefix_wins_in_any_order() {
    let words = ["0.0.0.0/0", "", "near=10.1.2.0/24", "", "10.1.2.3", "", "10.1.0.0/16", ""];
    let table = table(&words);
    for (address, path) in [([10, 1, 2, 3], 3), ([10, 1, 2, 4], 2), ([10, 1, 9, 9], 4), ([11, 0, 0, 1], 1)] {
        let out = packet([10, 0, 0, 2], address);
        assert_eq!(table.path(&out, By::Destination), path, "{address:?}");
        let back = packet(address, [10, 0, 0, 2]);
        assert_eq!(table.path(&back, By::Source), path, "{address:?}");
    }
}

#[test]
fn unmatched_and_malformed_packets_have_path_0() {
    let table = table(&["10.1.0.0/16", "", "fd00::/8", ""]);
    let other = packet([10, 0, 0, 2], [10, 2, 0, 1]);
    for bytes in [&other[..], &other[..19], &[], &[0x45], &[0x60; 39]] {
        assert_eq!(table.path(bytes, By::Destination), 0, "{bytes:?}");
    }
    let mut v6 = vec![0; 40];
    (v6[0], v6[24]) = (0x60, 0xfd);
    assert_eq!(table.path(&v6, By::Destination), 2);
    assert_eq!(table.path(&v6, By::Source), 0);
}

#[test]
fn bad_destinations_get_sentences() {
    let cases = [
        ("10.1.0.7/16", "", "did you mean 10.1.0.0/16?"),
        ("10.1.0.0/33", "", "at most 32 bits"),
        ("server", "", "no address or prefix"),
        ("other=10.1.0.1", "", "is not 'other'"),
        ("a b=10.1.0.1", "", "letters, digits"),
        ("10.1.0.1", "rtt=100ms; bandwidth=1mbit", "did you mean 'rate'?"),
        ("10.1.0.1", "rate=10", "--rate: '10' has no unit"),
        ("10.1.0.1", "rtt=1ms; fast", "'fast' is no KEY=VALUE"),
        ("10.1.0.1", "rtt-forward=1ms", "rtt is of both directions"),
        ("10.1.0.1", "no/such.toml", "file no/such.toml: "),
    ];
    for (destination, path, part) in cases {
        let error = parse(&[destination, path]).unwrap_err();
        assert!(error.starts_with(&format!("--to {destination}: ")) && error.contains(part), "{error}");
    }
    let error = parse(&["a=10.1.0.1", "", "b=10.1.0.1", ""]).unwrap_err();
    assert!(error.ends_with("it repeats a=10.1.0.1/32"), "{error}");
}

#[test]
fn settings_and_files_describe_paths() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.toml");
    std::fs::write(&file, "rtt = '40ms'\nseed = 7\n").unwrap();
    let words = ["lte=10.1.0.0/16", "preset=lte; loss-reverse=1%", "10.2.0.1", file.to_str().unwrap()];
    let all = parse(&words).unwrap();
    assert_eq!(all[0].described.config().unwrap().rtt().as_millis(), 70);
    assert_eq!(all[1].described.config().unwrap().rtt().as_millis(), 40);
    assert_eq!((all[0].name.as_str(), all[1].name.as_str()), ("lte", "2"));
    assert_eq!((all[0].seed(1, 5), all[1].seed(2, 5)), (child_seed(5, 1), 7));
}

#[test]
fn far_end_address_is_first_of_prefix() {
    let host = |prefix: &str| prefix.parse::<Prefix>().unwrap().host().map(|it| it.to_string());
    assert_eq!(host("10.1.0.0/16").unwrap(), "10.1.0.1");
    assert_eq!(host("10.1.0.9").unwrap(), "10.1.0.9");
    assert_eq!(host("fd00:1::/64").unwrap(), "fd00:1::1");
    assert_eq!(host("0.0.0.0/0"), None);
}

#[test]
fn unknown_path_name_lists_the_paths() {
    let names = ["other", "lte"].into_iter();
    assert_eq!(find(names.clone(), None).unwrap(), 0);
    assert_eq!(find(names.clone(), Some("lte")).unwrap(), 1);
    let error = find(names, Some("lt")).unwrap_err().to_string();
    assert_eq!(error, "--to: there is no path 'lt'; did you mean 'lte'?");
}
