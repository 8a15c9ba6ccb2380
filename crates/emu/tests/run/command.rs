//! Network, environment and exit code of the command of a run.

use std::fs;
use std::process::Command;

use rustix::process::geteuid;

use super::helpers::{helper, said};
use super::running::{code, host_allows, remarks, run, run_with, stdout};

fn as_str(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

#[test]
fn exit_code_is_that_of_command() {
    if !host_allows() {
        return;
    }
    for (script, expected) in [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill -TERM $$", 143)] {
        assert_eq!(code(&run("-q", &["sh", "-c", script]).output()), expected, "{script}");
    }
    for (command, expected) in [("/no/such/command", 127), ("/dev/null", 126)] {
        let output = run("-q", &[command]).output();
        assert_eq!(code(&output), expected);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.starts_with(&format!("rdt-emu: cannot run {command}: ")), "{said}");
    }
}

#[test]
fn command_gets_addresses_and_one_device() {
    if !host_allows() {
        return;
    }
    let script =
        "echo $RDT_PEER $RDT_LOCAL; tail -n +3 /proc/thread-self/net/dev | cut -d: -f1 | sort | xargs";
    assert_eq!(stdout(&run("-q", &["sh", "-c", script]).output()), "10.0.0.1 10.0.0.2\nlo rdt0\n");
}

#[test]
fn command_can_configure_tcp() {
    if !host_allows() {
        return;
    }
    let sack = "/proc/sys/net/ipv4/tcp_sack";
    let before = fs::read_to_string(sack).unwrap();
    let script = format!("echo 0 > {sack} && cat {sack}");
    assert_eq!(stdout(&run("-q", &["sh", "-c", &script]).output()), "0\n");
    assert_eq!(fs::read_to_string(sack).unwrap(), before, "the host's is another");
}

#[test]
fn command_sees_own_sys() {
    if !host_allows() {
        return;
    }
    let groups = "ls /sys/fs/cgroup | xargs";
    let script = format!("ls /sys/class/net | xargs; {groups}");
    let groups = Command::new("sh").args(["-c", groups]).output().unwrap();
    let root_only = geteuid().is_root().then_some("-q --no-user-namespace");
    for flags in ["-q"].into_iter().chain(root_only) {
        let seen = stdout(&run(flags, &["sh", "-c", &script]).output());
        assert_eq!(seen, format!("lo rdt0\n{}", String::from_utf8_lossy(&groups.stdout)), "{flags}");
    }
}

#[test]
fn command_of_root_is_in_user_namespace_with_all_ids() {
    if !host_allows() {
        return;
    }
    let namespace = |flags| stdout(&run(flags, &["readlink", "/proc/self/ns/user"]).output());
    let own = format!("{}\n", fs::read_link("/proc/self/ns/user").unwrap().display());
    assert_ne!(namespace("-q"), own);
    let ids = fs::read_to_string("/proc/self/uid_map").unwrap();
    if !geteuid().is_root() || ids.trim().ends_with(" 1") {
        rdt_testing::skipped("not root, or no other user is mapped here");
        return;
    }
    assert_eq!(namespace("-q --no-user-namespace"), own);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file").display().to_string();
    let script = format!("touch {file} && chown 7:8 {file} && stat -c %u:%g {file}");
    assert_eq!(stdout(&run("-q", &["sh", "-c", &script]).output()), "7:8\n");
}

#[test]
fn ping_takes_rtt_and_account_balances() {
    if !host_allows() {
        return;
    }
    let output = run("--rtt 300ms", &as_str(&helper("ping"))).output();
    let rtt: u64 = said(&stdout(&output), "rtt_us").parse().unwrap();
    // A delay added twice would result in 600 ms. The shortest of three RTTs is below that even on
    // a busy host.
    assert!((300_000..600_000).contains(&rtt), "{rtt} us");
    let told = String::from_utf8(output.stderr).unwrap();
    for direction in ["forward", "reverse"] {
        assert!(told.contains(&format!("rdt-emu: {direction}: 3 arrived, 3 delivered\n")), "{told}");
    }
}

#[test]
fn losses_are_reported_by_cause() {
    if !host_allows() {
        return;
    }
    let told = |flags| String::from_utf8(run(flags, &as_str(&helper("send"))).output().stderr).unwrap();
    assert!(told("--loss 100%/0").contains("forward: 3 arrived, 0 delivered, 3 lost on arrival\n"));
    let queue = told("--rate 1kbit --rtt 1s --queue 1p --seed 9");
    assert!(
        queue.contains("forward: 3 arrived, 0 delivered, 1 queue full, 2 on the way at the end\n"),
        "{queue}"
    );
    assert!(queue.contains("rdt-emu: seed: 9\n"), "{queue}");
}

#[test]
fn server_starts_before_command() {
    if !host_allows() {
        return;
    }
    let (server, ask) = (helper("echo").join(" "), helper("ask"));
    for option in ["--device-mtu=1500", "--ipv6"] {
        let output = run_with(&["-q", option, "--server", &server], &as_str(&ask)).output();
        assert_eq!(said(&stdout(&output), "echo"), "hello");
    }
}

#[test]
fn server_without_port_is_reported() {
    if !host_allows() {
        return;
    }
    let output = run_with(&["-q", "--server", "exec sleep 1000"], &["true"]).output();
    let told = String::from_utf8(output.stderr).unwrap();
    let expected = "rdt-emu: the server listens at no port after 5 s; CMD starts\n";
    assert_eq!((output.status.code(), told.as_str()), (Some(0), expected));
}

#[test]
fn ipv6_option_adds_second_family() {
    if !host_allows() {
        return;
    }
    let script = "echo $RDT_PEER6 $RDT_LOCAL6; grep -c rdt0 /proc/thread-self/net/if_inet6";
    let output = run("-q --ipv6", &["sh", "-c", script]).output();
    assert_eq!(stdout(&output), "fd72:6474::a00:1 fd72:6474::a00:2\n1\n");
    let none =
        run("-q", &["sh", "-c", "test -z \"$RDT_PEER6\" && ! grep rdt0 /proc/thread-self/net/if_inet6"]);
    assert_eq!(stdout(&none.output()), "");
}

#[test]
fn names_are_looked_up_at_far_end() {
    if !host_allows() {
        return;
    }
    let look_up = helper("look_up");
    let output = run("-q", &as_str(&look_up)).output();
    assert_eq!(said(&stdout(&output), "found "), "None");
    let [error] = &remarks(&output)[..] else { panic!("{output:?}") };
    assert!(error.starts_with("rdt-emu: a program looked up a name, but "), "{error}");

    let server = helper("name_server").join(" ");
    let output = run_with(&["-q", "--server", &server], &as_str(&look_up)).output();
    assert_eq!(said(&stdout(&output), "found "), "Some(192.0.2.7:1)", "{output:?}");
    assert!(remarks(&output).is_empty(), "{output:?}");
}
