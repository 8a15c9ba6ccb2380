//! Adverse environments: no route, too little memory, shutdown during a transfer.

use std::process::Stdio;

#[cfg(target_os = "linux")]
use super::process::rdt_recv_after;
use super::process::{Program, Receiver, rdt_send, send};

/// Runs `rdt-send` in a network namespace without other hosts, where ARP fails after 0.1 s. Returns
/// `None` if this user may not create a namespace.
#[cfg(target_os = "linux")]
fn in_an_empty_network(args: &[&str]) -> Option<Program> {
    const SETUP: &str = "ip link add d0 type veth peer name d1 && ip addr add 10.1.0.1/24 dev d0 \
        && ip link set d1 up && ip link set d0 up && ip link set lo up \
        && echo 30 > /proc/sys/net/ipv4/neigh/d0/retrans_time_ms";
    let unshare = |command: &str| {
        let mut unshare = std::process::Command::new("unshare");
        unshare.args(["-rn", "sh", "-c", command, env!("CARGO_BIN_EXE_rdt-send")]);
        unshare.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        unshare
    };
    if !unshare(SETUP).output().is_ok_and(|output| output.status.success()) {
        rdt_testing::skipped("this user may make no network");
        return None;
    }
    Some(Program::start(unshare(&format!("{SETUP} && exec \"$0\" \"$@\"")).args(args)))
}

#[cfg(target_os = "linux")]
#[test]
fn unreachable_host_times_out_with_explanation() {
    for args in [&["10.1.0.9", "--give-up", "2s"][..], &["10.1.0.9", "8", "0", "0", "100"]] {
        let Some(sender) = in_an_empty_network(args) else { return };
        let run = sender.ended().with_code(5);
        let wanted = "the network reports that it has no way to 10.1.0.9 (10.1.0.9:22345)";
        assert!(run.stderr.contains(wanted), "{args:?}: {}", run.stderr);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn low_memory_fails_before_serving() {
    // The limit is 300 MB of address space. Each thread needs 2 MiB of receive buffers and a stack.
    for threads in ["64", "256"] {
        let args = ["--bind", "127.0.0.1:0", "--no-link", "--threads", threads];
        let run = Program::start(&mut rdt_recv_after("ulimit -v 300000", &args)).ended().with_code(69);
        assert_eq!((run.stderr.lines().count(), &*run.stdout), (1, &b""[..]), "{}", run.stderr);
        let told = ["fewer --threads may do", "no memory for"].iter().any(|told| run.stderr.contains(told));
        assert!(told, "{}", run.stderr);
    }
}

#[cfg(unix)]
#[test]
fn once_refuses_new_senders_and_finishes_open_transfers() {
    for (options, wire) in [("", "classic"), ("--threads 2", "native"), ("--threads 4", "classic")] {
        let receiver = Receiver::start(&format!("--no-link --once {options}"));
        let arguments = |args: &str| match wire {
            "classic" => receiver.args(&format!("10 0 0 1000 {args}")),
            _ => receiver.args(args),
        };
        let mut slow = Program::start(rdt_send(&arguments("--file -")).stdin(Stdio::piped()));
        // Three packets, after which a classic sender counts as connected.
        slow.write(&b"1".repeat(5000));
        slow.line("connected");
        receiver.program.line("connected");
        send(&arguments("--bytes 5000")).with_code(0);
        receiver.program.line("finished: 5000 bytes");
        if wire == "native" {
            // The receiver refuses a native sender at once, with a CLOSE.
            send(&arguments("--bytes 1000")).with_code(8);
        }
        slow.write(b" and last");
        slow.without_more_input().ended().with_code(0);
        let run = receiver.program.ended().with_code(0);
        assert!(run.lines().iter().any(|line| line.contains("2 transfers finished")), "{options}");
    }
}
