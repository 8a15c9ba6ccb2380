//! End of a run. That no process, namespace or device remains is asserted after every run of these
//! tests.

use rustix::process::Signal;

use super::running::{PROGRAM, Running, host_allows, kill, run, run_with};

/// Command that ignores signals and starts a daemon.
const STUBBORN: &str =
    "trap '' TERM INT HUP QUIT; (setsid sleep 1000 &); echo up; while :; do sleep 1000; done";

fn start(command: &str) -> Running {
    let running = run("-q --rtt 1ms", &["sh", "-c", command]).start();
    assert_eq!(running.line, "up");
    running
}

/// True if these tests ignore the signal, and with them every program that they start: under
/// `nohup`, or in the background of a script.
fn is_ignored(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() >> (signal.as_raw() - 1) & 1 == 1
}

#[test]
fn signal_reaches_command() {
    if !host_allows() {
        return;
    }
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130), (Signal::HUP, 129), (Signal::QUIT, 131)] {
        if is_ignored(signal) {
            continue;
        }
        let running = start("echo up; exec sleep 1000");
        kill(running.child.id(), signal);
        assert_eq!(running.end().0, code);
    }
    let running = start("trap 'exit 5' TERM; echo up; while :; do sleep 0.01; done");
    kill(running.child.id(), Signal::TERM);
    assert_eq!(running.end().0, 5, "the command's way to end is its own");
}

#[test]
fn killed_outer_program_leaves_nothing() {
    if !host_allows() {
        return;
    }
    let running = start(STUBBORN);
    kill(running.child.id(), Signal::KILL);
    assert_eq!(running.end().0, 137);
}

#[test]
fn killed_inner_program_leaves_nothing() {
    if !host_allows() {
        return;
    }
    for stage in ["--stage=enter", "--stage=init"] {
        let running = start(STUBBORN);
        kill(running.process(stage), Signal::KILL);
        let (code, said) = running.end();
        assert_eq!(code, 137);
        assert!(said.contains("the first process inside was killed"), "{said}");
    }
}

#[test]
fn killed_command_or_daemon_leaves_nothing() {
    if !host_allows() {
        return;
    }
    let running = start("(setsid sleep 1001 &); echo up; exec sleep 1000");
    let command = running.process("1000");
    kill(command, Signal::KILL);
    assert_eq!(running.end().0, 137);
    let running = start("(setsid sleep 1000 &); echo up; exit 3");
    assert_eq!(running.end().0, 3);
}

#[test]
fn killed_server_is_reported_and_command_continues() {
    if !host_allows() {
        return;
    }
    let run = run_with(&["-q", "--server", "kill -9 $$"], &["sh", "-c", "echo up; exit 4"]);
    let (code, said) = run.start().end();
    assert_eq!((code, said.as_str()), (4, "rdt-emu: the server ended with code 137\n"));
}

#[test]
fn nested_runs_end_together() {
    if !host_allows() {
        return;
    }
    let running = run("-q", &[PROGRAM, "run", "-q", "--", "sh", "-c", STUBBORN]).start();
    assert_eq!(running.line, "up");
    kill(running.child.id(), Signal::KILL);
    assert_eq!(running.end().0, 137);
}

#[test]
fn interrupt_before_command_start_ends_run() {
    if !host_allows() {
        return;
    }
    // The server binds no port, so the run still waits for it; `start` reads the server's output
    // line.
    let running = run_with(&["-q", "--server", "echo up; exec sleep 1000"], &["echo", "no"]).start();
    assert_eq!(running.line, "up");
    kill(running.child.id(), Signal::TERM);
    assert_eq!(running.end().0, 143);
}

#[test]
fn run_with_blocked_output_can_be_ended() {
    if !host_allows() {
        return;
    }
    let running = run("-q --json-stream=1ms", &["sleep", "0.5"]).start();
    running.waits_for_its_reader();
    kill(running.child.id(), Signal::TERM);
    assert_eq!(running.end().0, 143);
}
