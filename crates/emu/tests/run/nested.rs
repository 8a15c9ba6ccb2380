//! Runs inside runs.

use super::helpers::{helper, said};
use super::running::{PROGRAM, code, host_allows, run, stdout};

#[test]
fn paths_inside_each_other_add_up_and_lead_to_the_outermost_far_end() {
    if !host_allows() {
        return;
    }
    let ping = helper("ping");
    let inner = |rtt| vec![PROGRAM, "run", "-q", "--rtt", rtt, "--"];
    let mut command = inner("30ms");
    command.extend(ping.iter().map(String::as_str));
    let two = stdout(&run("-q --rtt 20ms", &command).output());
    assert!(said(&two, "rtt_us").parse::<u64>().unwrap() >= 50_000, "{two}");
    assert_eq!(said(&two, "peer"), "10.0.0.1");

    let three: Vec<_> = inner("15ms").into_iter().chain(command).collect();
    let three = stdout(&run("-q --rtt 20ms", &three).output());
    assert!(said(&three, "rtt_us").parse::<u64>().unwrap() >= 65_000, "{three}");
}

#[test]
fn runs_beside_each_other_in_one_have_networks_of_their_own() {
    if !host_allows() {
        return;
    }
    let ping = helper("ping").join(" ");
    let script = format!(
        "for each in 1 2 3; do {PROGRAM} run -q --rtt 30ms -- {PROGRAM} run -q -- sh -c 'echo local $RDT_LOCAL; {ping}' \
         & pids=\"$pids $!\"; done; for pid in $pids; do wait $pid || exit 1; done"
    );
    let output = stdout(&run("-q --rtt 20ms", &["sh", "-c", &script]).output());
    let each = |word| {
        output.lines().filter_map(|line| line.strip_prefix(word)).collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(each("local ").len(), 3, "{output}");
    assert!(each("rtt_us ").iter().all(|rtt| rtt.parse::<u64>().unwrap() >= 50_000), "{output}");
}

#[test]
fn what_a_run_inside_another_cannot_have_is_said() {
    if !host_allows() {
        return;
    }
    let cases: [(&[&str], &str); 2] =
        [(&["--server", "true"], "outermost"), (&["--ipv6"], "outside has none")];
    for (options, part) in cases {
        let command: Vec<_> =
            [PROGRAM, "run"].iter().chain(options).chain(&["--", "true"]).copied().collect();
        let output = run("-q", &command).output();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(code(&output) == 64 && said.contains(part), "{said}");
    }
}
