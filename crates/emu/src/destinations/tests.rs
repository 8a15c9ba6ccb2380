//! Selectors, the options' errors, and the lookup.

use super::*;

fn parse(words: &[&str]) -> Result<Vec<Destination>, String> {
    describe_with(None, words)
}

/// Reads a description file with this text, and options.
fn describe_with(file: Option<&str>, words: &[&str]) -> Result<Vec<Destination>, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("link.toml");
    let file = file.map(|text| std::fs::write(&path, text).map(|()| path.clone()).unwrap());
    let to = words.iter().map(ToString::to_string).collect();
    let paths = PathsArgs { path: PathArgs { file, settings: Vec::new() }, to };
    let described = paths.describe().map(|(_, all)| all);
    described.map_err(|failure| failure.to_string().replace(&path.display().to_string(), "FILE"))
}

#[cfg(target_os = "linux")]
fn table(words: &[&str]) -> Table {
    Table::new(parse(words).unwrap().into_iter().map(|it| it.selector))
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
    let mut table = table(&words);
    for (address, path) in [([10, 1, 2, 3], 3), ([10, 1, 2, 4], 2), ([10, 1, 9, 9], 4), ([11, 0, 0, 1], 1)] {
        let out = packet([10, 0, 0, 2], address);
        assert_eq!(table.path(&out, By::Destination), path, "{address:?}");
        let back = packet(address, [10, 0, 0, 2]);
        assert_eq!(table.path(&back, By::Source), path, "{address:?}");
    }
}

#[test]
fn unmatched_and_malformed_packets_have_path_0() {
    let mut table = table(&["10.1.0.0/16", "", "fd00::/8", ""]);
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
        ("10.1.0.1:0x50", "", "no port or range of ports"),
        ("10.1.0.1:", "", "'' is no port"),
        ("10.1.0.1:70000", "", "'70000' is no port"),
        ("10.1.0.1:90-80", "", "did you mean 80-90?"),
        ("10.1.0.1:80/icmp", "", "'icmp' is no protocol with ports: tcp or udp"),
        ("[fd00::]/64:80", "", "no destination such as [fd00:1::/64]:443"),
        ("[10.1.0.1]:80", "", "only IPv6 addresses have brackets"),
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
    assert_eq!(error, "--to: destinations a and b are both 10.1.0.1/32");
    let error = parse(&["a=10.1.0.1", "", "a=10.1.0.2", ""]).unwrap_err();
    assert_eq!(error, "--to a=10.1.0.2: there are two destinations 'a'");
    let many: Vec<_> = (0..33).flat_map(|it| [format!("10.1.0.{it}"), String::new()]).collect();
    let error = parse(&many.iter().map(String::as_str).collect::<Vec<_>>()).unwrap_err();
    assert_eq!(error, "--to: there are at most 32 destinations");
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
    #[cfg(target_os = "linux")]
    assert_eq!((all[0].seed(1, 5), all[1].seed(2, 5)), (rdt_emulator::child_seed(5, 1), 7));
}

const FILE: &str = "\
[to.lte]
destination = '10.1.0.0/16'
rtt = '70ms'
[to.web]
destination = '10.1.0.1:443/tcp'
";

#[test]
fn options_add_to_destinations_of_file() {
    let all = describe_with(Some(FILE), &["10.3.0.1", "", "lte=10.2.0.0/16", "rtt=1ms"]).unwrap();
    let told: Vec<_> = all
        .iter()
        .map(|it| {
            let rtt = it.described.config().unwrap().rtt();
            format!("{}={} {}", it.name, it.selector, rtt.as_millis())
        })
        .collect();
    assert_eq!(told, ["lte=10.2.0.0/16 1", "web=10.1.0.1/32:443/tcp 0", "1=10.3.0.1/32 0"]);
}

#[test]
fn option_without_name_replaces_no_destination() {
    let file = "[to.1]\ndestination = '10.1.0.1'\n[to.3]\ndestination = '10.1.0.3'\n";
    let options = ["10.3.0.1", "", "10.3.0.2", "", "1=10.9.0.1", "", "10.3.0.4", ""];
    let all = describe_with(Some(file), &options).unwrap();
    let told: Vec<_> = all.iter().map(|it| format!("{}={}", it.name, it.selector)).collect();
    let expected = ["1=10.9.0.1/32", "3=10.1.0.3/32", "2=10.3.0.1/32", "4=10.3.0.2/32", "5=10.3.0.4/32"];
    assert_eq!(told, expected);
}

#[test]
fn mistakes_in_file_have_line_and_key() {
    let bad = |from: &str, to: &str| describe_with(Some(&FILE.replace(from, to)), &[]).unwrap_err();
    let error = bad("10.1.0.0/16", "10.1.0.1/16");
    let expected = "--path FILE: line 2, column 15: to.lte.destination: bits after the prefix are set; did you mean 10.1.0.0/16?";
    assert_eq!(error, expected);
    let error = bad("rtt", "rrt");
    assert_eq!(error, "--path FILE: line 3, column 1: there is no key 'rrt'; did you mean 'rtt'?");
    assert!(bad("to.web", "to.other").ends_with("underscores, and is not 'other'"));
    assert_eq!(bad("10.1.0.1:443/tcp", "10.1.0.0/16"), "--to: destinations lte and web are both 10.1.0.0/16");
    // A path of a destination is one path.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("nested.toml");
    std::fs::write(&file, FILE).unwrap();
    let error = parse(&["10.3.0.1", file.to_str().unwrap()]).unwrap_err();
    assert!(error.contains("line 2, column 15: to.lte.destination: this is one path"), "{error}");
}

#[test]
fn far_end_address_is_first_of_prefix() {
    let host = |selector: &str| selector.parse::<Selector>().unwrap().host().map(|it| it.to_string());
    assert_eq!(host("10.1.0.0/16").unwrap(), "10.1.0.1");
    assert_eq!(host("10.1.0.9:80").unwrap(), "10.1.0.9");
    assert_eq!(host("fd00:1::/64").unwrap(), "fd00:1::1");
    assert_eq!(host("0.0.0.0/0"), None);
}

#[test]
fn selector_is_written_as_it_is_read() {
    for (text, written) in [
        ("10.1.0.0/16", "10.1.0.0/16"),
        ("10.1.0.1:80", "10.1.0.1/32:80"),
        ("10.1.0.0/16:5000-5999/udp", "10.1.0.0/16:5000-5999/udp"),
        ("fd00:1::", "fd00:1::/128"),
        ("[fd00:1::/64]", "fd00:1::/64"),
        ("[fd00:1::/64]:443/tcp", "[fd00:1::/64]:443/tcp"),
    ] {
        let selector: Selector = text.parse().unwrap();
        assert_eq!(selector.to_string(), written);
        assert_eq!(written.parse::<Selector>().unwrap(), selector);
    }
}

const NEAR: [u8; 4] = [10, 0, 0, 2];
const FAR: [u8; 4] = [10, 1, 0, 1];
const TCP: u8 = 6;
const UDP: u8 = 17;

/// IPv4 packet to port `to` of the far end.
fn to_port(protocol: u8, to: u16) -> Vec<u8> {
    let mut out = packet(NEAR, FAR);
    out[9] = protocol;
    out.extend([&40_000_u16.to_be_bytes()[..], &to.to_be_bytes(), &[0; 4]].concat());
    out
}

#[test]
fn prefix_then_fewest_ports_then_protocol_win() {
    let words = [
        "10.1.0.1",
        "",
        "10.1.0.1:80-90",
        "",
        "10.1.0.1:80-90/tcp",
        "",
        "10.1.0.1:85",
        "",
        "10.1.0.0/16:7",
        "",
    ];
    let mut table = table(&words);
    for (protocol, port, path) in
        [(TCP, 80, 3), (UDP, 80, 2), (132, 90, 2), (TCP, 85, 4), (TCP, 91, 1), (1, 80, 1), (UDP, 7, 1)]
    {
        assert_eq!(table.path(&to_port(protocol, port), By::Destination), path, "{protocol} {port}");
    }
    // Back, the source selects the path; the port of the near end does not.
    let mut back = packet(FAR, NEAR);
    back[9] = TCP;
    back.extend([0, 80, 0x9c, 0x40]);
    assert_eq!(table.path(&back, By::Source), 3);
    back[20..24].copy_from_slice(&[0x9c, 0x40, 0, 80]);
    assert_eq!(table.path(&back, By::Source), 1);
}

#[test]
fn fragments_follow_the_first_one() {
    let mut table = table(&["10.1.0.1", "", "10.1.0.1:80/udp", ""]);
    let fragment = |id: u8, offset: u8, more: bool| {
        let mut out = if offset == 0 { to_port(UDP, 80) } else { to_port(UDP, 7) };
        (out[5], out[6], out[7]) = (id, if more { 0x20 } else { 0 }, offset);
        out
    };
    for (id, offset, more, path) in
        [(1, 0, true, 2), (2, 185, true, 1), (1, 185, true, 2), (1, 255, false, 2), (3, 185, false, 1)]
    {
        assert_eq!(table.path(&fragment(id, offset, more), By::Destination), path, "{id} {offset}");
    }
    // Identifications repeat: the latest first fragment counts.
    let mut other = to_port(UDP, 7);
    (other[5], other[6]) = (1, 0x20);
    assert_eq!(table.path(&other, By::Destination), 1);
    assert_eq!(table.path(&fragment(1, 185, false), By::Destination), 1);
}

#[test]
fn icmp_error_takes_path_of_quoted_packet() {
    let mut table = table(&["10.1.0.1:80/udp", "", "10.0.0.1", ""]);
    // A router answers for the far end.
    let mut error = packet([10, 0, 0, 1], NEAR);
    error[9] = 1;
    error.extend([3, 3, 0, 0, 0, 0, 0, 0]);
    error.extend(to_port(UDP, 80));
    assert_eq!(table.path(&error, By::Source), 1);
    error[20] = 0;
    assert_eq!(table.path(&error, By::Source), 2, "an echo reply quotes nothing");
    error[20] = 11;
    assert_eq!(table.path(&error[..40], By::Source), 2, "the quotation is too short");
    // From the near end, about a packet that came from the port.
    let mut error = packet(NEAR, [10, 9, 9, 9]);
    error[9] = 1;
    error.extend([3, 3, 0, 0, 0, 0, 0, 0]);
    let mut quoted = packet(FAR, NEAR);
    quoted[9] = UDP;
    quoted.extend([0, 80, 1, 1]);
    error.extend(quoted);
    assert_eq!(table.path(&error, By::Destination), 1);
}

#[test]
fn ipv6_ports_follow_extension_headers() {
    let mut table = table(&["[fd00::1]:443/tcp", "", "fd00::/64", ""]);
    let packet = |next: u8, payload: &[u8]| {
        let mut out = vec![0; 40];
        (out[0], out[6], out[24], out[39]) = (0x60, next, 0xfd, 1);
        out.extend(payload);
        out
    };
    let tcp = [0x9c, 0x40, 0x01, 0xbb];
    let options = [&[TCP, 1][..], &[0; 14], &tcp].concat();
    let first = [&[TCP, 0, 0, 1, 0, 0, 0, 7][..], &tcp].concat();
    let second = [&[TCP, 0, 0, 8, 0, 0, 0, 7][..], &[0; 4]].concat();
    let quoted = packet(TCP, &tcp);
    for (name, bytes, path) in [
        ("plain", packet(TCP, &tcp), 1),
        ("options", packet(60, &options), 1),
        ("second fragment alone", packet(44, &second), 2),
        ("first fragment", packet(44, &first), 1),
        ("second fragment", packet(44, &second), 1),
        ("other port", packet(TCP, &[1, 0xbb, 0x9c, 0x40]), 2),
        ("too short", packet(60, &[TCP, 200]), 2),
        ("echo", packet(58, &[128, 0, 0, 0]), 2),
    ] {
        assert_eq!(table.path(&bytes, By::Destination), path, "{name}");
    }
    let mut error = packet(58, &[&[1, 4, 0, 0, 0, 0, 0, 0][..], &quoted].concat());
    (error[8], error[24]) = (0xfd, 0xfe);
    assert_eq!(table.path(&error, By::Source), 1);
}

#[test]
fn random_bytes_have_some_path() {
    let mut table = table(&["10.1.0.1:80", "", "[fd00::/8]:80", ""]);
    let mut state = 1_u64;
    for _ in 0..20_000 {
        let mut bytes: Vec<u8> = Vec::new();
        for _ in 0..(state >> 40) % 90 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            bytes.push((state >> 56) as u8);
        }
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        if let Some(first) = bytes.first_mut() {
            *first = if state >> 63 == 0 { 0x45 } else { 0x60 };
        }
        assert!(table.path(&bytes, By::Source) <= 2);
    }
}

#[test]
fn unknown_path_name_lists_the_paths() {
    let names = ["other", "lte"].into_iter();
    assert_eq!(find(names.clone(), None).unwrap(), 0);
    assert_eq!(find(names.clone(), Some("lte")).unwrap(), 1);
    let error = find(names, Some("lt")).unwrap_err().to_string();
    assert_eq!(error, "--to: there is no path 'lt'; did you mean 'lte'?");
}
