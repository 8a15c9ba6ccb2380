//! JSON account and capture of a run.

use std::fs::{self, File};
use std::path::Path;
use std::process::Output;

use pcap_file::pcapng::{Block, PcapNgReader};
use rdt_program_testing::closed_pipe;
use rdt_program_testing::contract::Contract;
use rustix::process::Signal;
use serde_json::Value;

use super::helpers::helper;
use super::running::{code, host_allows, kill, remarks, run, run_with};

fn send(arguments: &[&str]) -> Output {
    let command = helper("send");
    run_with(arguments, &command.iter().map(String::as_str).collect::<Vec<_>>()).output()
}

fn objects(output: &Output) -> Vec<Value> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let objects: Vec<Value> = text
        .lines()
        .filter(|line| line.starts_with('{'))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    if let Some(contract) = Contract::load("rdt-emu.json") {
        for event in &objects {
            contract.check_event(event);
        }
    }
    objects
}

#[test]
fn account_is_one_balanced_object() {
    if !host_allows() {
        return;
    }
    let output = send(&["--json", "-q", "--loss=100%/0", "--seed=5"]);
    assert!(remarks(&output).is_empty(), "{output:?}");
    let [end] = &objects(&output)[..] else { panic!("{output:?}") };
    assert_eq!((&end["event"], &end["mode"], &end["seed"]), (&"end".into(), &"run".into(), &"5".into()));
    assert_eq!((&end["balances"], &end["exit_code"]), (&true.into(), &0.into()));
    let forward = &end["forward"];
    assert_eq!((&forward["arrived"], &forward["dropped"]["loss"]), (&3.into(), &3.into()), "{forward}");
    assert_eq!((&forward["lost_before"], &forward["lateness_ns"]["p50"]), (&0.into(), &Value::Null));
}

#[test]
fn json_stream_reports_while_command_runs() {
    if !host_allows() {
        return;
    }
    let output = run("-q --json-stream=10ms", &["sleep", "0.2"]).output();
    let objects = objects(&output);
    let (end, progress) = objects.split_last().unwrap();
    assert_eq!(end["event"], "end");
    assert!(!progress.is_empty() && progress.iter().all(|each| each["event"] == "progress"), "{objects:?}");
}

#[test]
fn capture_shows_losses_with_cause() {
    if !host_allows() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("capture.pcapng");
    let output = send(&["--json", "--loss=100%/0", "--pcapng", file.to_str().unwrap()]);
    let told = &objects(&output)[0]["pcapng"];
    assert_eq!((&told["packets"], &told["missed"]), (&3.into(), &0.into()), "{told}");
    let bytes = fs::read(&file).unwrap();
    let comments = bytes.windows(24).filter(|window| window == b"dropped: lost on arrival");
    assert_eq!(comments.count(), 3);
    assert_eq!((bytes[..4].to_vec(), bytes.len() % 4), (vec![0x0a, 0x0d, 0x0d, 0x0a], 0));
}

#[test]
fn ended_run_leaves_whole_capture() {
    if !host_allows() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("capture.pcapng");
    let arguments = ["-q", "--pcapng", file.to_str().unwrap()];
    let running = run_with(&arguments, &["sh", "-c", "echo; exec sleep 100"]).start();
    kill(running.child.id(), Signal::TERM);
    assert_eq!(running.end().0, 143);
    let bytes = fs::read(&file).unwrap();
    let mut reader = PcapNgReader::new(&bytes[..]).unwrap();
    while let Some(block) = reader.next_block() {
        block.unwrap();
    }
    assert_eq!(reader.interfaces().len(), 2);
}

#[test]
fn full_disk_is_reported_and_ends_capture() {
    if !host_allows() {
        return;
    }
    let arguments = |file| ["-q", "--pcapng", file];
    let output = run_with(&arguments("/dev/full"), &["true"]).output();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(code(&output), 74, "{said}");
    assert!(said.starts_with("rdt-emu: /dev/full: "), "{said}");
    assert_eq!(code(&run_with(&arguments("/dev/full"), &["sh", "-c", "exit 3"]).output()), 3);
    let output = run_with(&arguments("/no/such/directory/file"), &["true"]).output();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(code(&output), 73, "{said}");
    assert!(said.starts_with("rdt-emu: cannot create /no/such/directory/file: "), "{said}");
}

#[test]
fn unwritable_account_is_reported() {
    if !host_allows() {
        return;
    }
    for (arguments, script, expected) in [
        ("-q --json", "exit 0", 74),
        ("-q --json", "exit 3", 3),
        ("-q --json-stream=5ms", "sleep 0.1", 74),
        ("-q --json-to /dev/full", "exit 0", 74),
        ("-q --json-to /no/such/directory/file", "exit 0", 73),
    ] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = run(arguments, &["sh", "-c", script]).with_stdout(full).output();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(code(&output), expected, "{said}");
        assert!(said.starts_with("rdt-emu: cannot ") && said.lines().count() == 1, "{arguments}: {said}");
    }
    let gone = File::from(std::os::fd::OwnedFd::from(closed_pipe()));
    let output = run("-q --json", &["true"]).with_stdout(gone).output();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(code(&output), 74, "a program that reads JSON needs its last object: {said}");
    assert!(said.starts_with("rdt-emu: cannot write the standard output: "), "{said}");
}

#[test]
fn account_goes_to_separate_file() {
    if !host_allows() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("account");
    let to = ["-q", "--force", "--json-to", file.to_str().unwrap()];
    for more in [&[][..], &["--json"], &["--json-stream=5ms"]] {
        let output = run_with(&[&to, more].concat(), &["sh", "-c", "printf abc; sleep 0.1"]).output();
        assert_eq!((&output.stdout[..], code(&output)), (&b"abc"[..], 0));
        let text = fs::read_to_string(&file).unwrap();
        let objects: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let (end, progress) = objects.split_last().unwrap();
        assert_eq!(end["event"], "end");
        assert_eq!(progress.is_empty(), !more.contains(&"--json-stream=5ms"));
    }
}

#[test]
fn capture_refuses_links_and_existing_files() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    if !host_allows() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let [old, link, new] = ["old", "link", "new"].map(|name| directory.path().join(name));
    fs::write(&old, "precious").unwrap();
    symlink(&old, &link).unwrap();
    for option in ["--pcapng", "--json-to"] {
        let written = |file: &Path| run_with(&["-q", option, file.to_str().unwrap()], &["true"]).output();
        for (file, why) in
            [(&old, "it exists already: --force replaces it"), (&link, "it is a symbolic link")]
        {
            let output = written(file);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(
                (code(&output), said),
                (73, format!("rdt-emu: cannot create {}: {why}\n", file.display()))
            );
        }
        assert_eq!(code(&written(&new)), 0);
        assert_eq!(fs::metadata(&new).unwrap().permissions().mode() & 0o777, 0o600);
        fs::remove_file(&new).unwrap();
    }
    assert_eq!(fs::read(&old).unwrap(), b"precious");
}

#[test]
fn signal_ends_wait_for_reader_of_pipe() {
    if !host_allows() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    for option in ["--json-to", "--pcapng"] {
        let mut running = run_with(&["-q", option, pipe.to_str().unwrap()], &["true"]).spawn();
        // Signals that come before the wait end the program, too.
        let mut signals = 0;
        while running.child.try_wait().unwrap().is_none() {
            assert!(signals < 200, "{option}: the run waits for ever");
            kill(running.child.id(), Signal::TERM);
            signals += 1;
            #[expect(clippy::disallowed_methods, reason = "waits for another process")]
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        assert_eq!(running.end().0, 143, "{option}");
        // With a reader the run goes on.
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || fs::read(pipe).unwrap()
        });
        assert_eq!(code(&run_with(&["-q", option, pipe.to_str().unwrap()], &["true"]).output()), 0);
        assert!(!reader.join().unwrap().is_empty());
    }
}

#[test]
fn account_balances_however_run_ends() {
    if !host_allows() {
        return;
    }
    let output = run("-q --json", &["/no/such/command"]).output();
    let [end] = &objects(&output)[..] else { panic!("{output:?}") };
    assert_eq!((&end["exit_code"], &end["forward"]["lost_before"]), (&127.into(), &Value::Null));

    let directory = tempfile::tempdir().unwrap();
    let [account, capture] = ["account", "capture"].map(|name| directory.path().join(name));
    let script = format!("{} > /dev/null; echo up; exec sleep 1000", helper("send").join(" "));
    for stage in ["--stage=enter", "--stage=init"] {
        let files = [account.to_str().unwrap(), capture.to_str().unwrap()];
        let arguments = ["-q", "--force", "--loss=100%/0", "--json-to", files[0], "--pcapng", files[1]];
        let running = run_with(&arguments, &["sh", "-c", &script]).start();
        assert_eq!(running.line, "up");
        kill(running.process(stage), Signal::KILL);
        let (code, said) = running.end();
        assert_eq!((code, said.as_str()), (137, "rdt-emu: the first process inside was killed\n"));
        let end: Value = serde_json::from_str(&fs::read_to_string(&account).unwrap()).unwrap();
        assert_eq!((&end["exit_code"], &end["forward"]["arrived"]), (&137.into(), &3.into()));
        assert_eq!((&end["pcapng"]["packets"], packets(&capture)), (&3.into(), 3));
    }
}

/// Counts the packets of a capture; every block must be complete.
fn packets(file: &Path) -> usize {
    let bytes = fs::read(file).unwrap();
    let mut reader = PcapNgReader::new(&bytes[..]).unwrap();
    let mut packets = 0;
    while let Some(block) = reader.next_block() {
        packets += usize::from(matches!(block.unwrap(), Block::EnhancedPacket(_)));
    }
    packets
}
