//! Error messages of a run that cannot start.

use std::process::Command;

use super::running::{PROGRAM, host_allows};

#[test]
fn bad_arguments_get_one_line_each() {
    let cases = [
        ("--rtt 100 -- true", "--rtt: '100' has no unit"),
        ("--rate fast -- true", "--rate: 'fast'"),
        ("--loss 1%/x -- true", "--loss: 'x'"),
        ("--queue 5 -- true", "--queue:"),
        ("--device-mtu 67 -- true", "67"),
        ("--device-mtu 1279 --ipv6 -- true", "--device-mtu: IPv6 needs 1280 bytes"),
        ("--rtt 1ms", "<CMD>"),
    ];
    for (arguments, part) in cases {
        let output = Command::new(PROGRAM).arg("run").args(arguments.split(' ')).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(64), "{said}");
        assert!(said.contains(part) && said.lines().count() == 1, "{arguments}: {said}");
    }
}

#[test]
fn forbidden_namespaces_are_reported() {
    if !host_allows() {
        return;
    }
    // A user namespace has limits of its own.
    for (limit, option) in [("max_net_namespaces", "--no-user-namespace"), ("max_user_namespaces", "")] {
        let script =
            format!("echo 0 > /proc/sys/user/{limit} || exit 99; exec {PROGRAM} run {option} -- true");
        let Ok(output) = Command::new("unshare").args(["-Ur", "sh", "-c", &script]).output() else {
            rdt_testing::skipped("there is no `unshare`");
            return;
        };
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.code() == Some(99) || said.starts_with("unshare") {
            rdt_testing::skipped(said);
            return;
        }
        assert_eq!(output.status.code(), Some(69), "{said}");
        assert!(
            said.contains(&format!("the limit user.{limit} is 0")) && said.contains("rdt-emu proxy"),
            "{said}"
        );
    }
}

#[test]
fn hidden_command_is_refused() {
    let arguments = "--stage=init --control=99 --mtu=1500 --near=10.0.0.2 --peer=10.0.0.1 -- true";
    let output = Command::new(PROGRAM).arg("inside").args(arguments.split(' ')).output().unwrap();
    assert_eq!(output.status.code(), Some(64));
}
