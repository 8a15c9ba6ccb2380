//! Progress on a terminal.

use std::fs::File;
use std::io::Read as _;
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::process::rdt_send;

/// Runs a command whose output is a terminal; with `is_piped`, only its standard error. Returns
/// what the terminal showed.
fn on_terminal(command: &mut Command, is_piped: bool) -> String {
    let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
    let open = || File::options().read(true).write(true).open(&name).unwrap();
    command.stdout(if is_piped { Stdio::null() } else { open().into() }).stderr(open());
    let mut child = command.spawn().unwrap();
    // Closes this process's copies of the terminal, so that reading ends with the program.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let (mut terminal, mut shown, mut bytes) = (File::from(terminal), String::new(), [0; 4096]);
    while let Ok(n @ 1..) = terminal.read(&mut bytes) {
        shown += &String::from_utf8_lossy(&bytes[..n]);
    }
    assert!(child.wait().unwrap().success(), "{shown}");
    shown
}

#[test]
fn file_shows_bar_unless_lines_are_wanted() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("data.bin");
    std::fs::write(&file, vec![7; 300_000]).unwrap();
    // A second: the bar is drawn several times.
    let args = |options: &str| format!("local --max-rate 2400kbit --file {} {options}", file.display());
    for (options, is_piped, has_bar) in [
        ("", false, true),
        ("--insecure", false, true),
        ("", true, false),
        ("--quiet", false, false),
        ("--json", false, false),
        ("--interval 100ms", false, false),
    ] {
        let shown = on_terminal(rdt_send(&args(options)).env("TERM", "xterm"), is_piped);
        assert_eq!(shown.contains(" s left"), has_bar, "{options}: {shown}");
        assert_eq!(shown.contains("/0.3 MB"), has_bar, "{options}: {shown}");
        assert!(!shown.contains(" %  0.0/0.3 MB  0.0 kbit/s  0 s left"), "{options}: {shown}");
        // The bar is cleared before another line is written at its place.
        let is_left =
            |line: &str| line.rsplit_once(" %  ").is_some_and(|(_, rest)| !rest.contains("\x1b[2K"));
        assert!(!shown.lines().any(is_left), "{options}: {shown}");
        assert_eq!(shown.contains(" B "), options.starts_with("--interval"), "{options}: {shown}");
    }
}

#[test]
fn terminal_without_escape_codes_gets_none() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("data.bin");
    std::fs::write(&file, vec![7; 100_000]).unwrap();
    for term in ["", "dumb"] {
        let args = format!("local --max-rate 1600kbit --file {}", file.display());
        let shown = on_terminal(rdt_send(&args).env("TERM", term), false);
        assert!(!shown.contains('\x1b') && !shown.contains(" %  "), "{term}: {shown}");
    }
}

#[test]
fn array_keeps_status_lines_on_terminal() {
    for wire in ["classic", "native"] {
        let args = format!("local 4 0.05 0 100 --wire {wire} --power 14 --interval 100ms");
        let shown = on_terminal(&mut rdt_send(&args), false);
        assert!(shown.contains(" B ") && !shown.contains(" %  "), "{wire}: {shown}");
    }
}
