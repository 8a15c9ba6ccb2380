//! Shells of the other host that print something, or do not start `rdt-copy` at all.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use super::home::{Home, PROGRAM};

/// Ways of a copy by ssh.
const WAYS: [&[&str]; 4] = [
    &["file", "host:"],
    &["host:file", "got"],
    &["--listen-here", "file", "host:"],
    &["--listen-here", "host:file", "got"],
];

/// Makes a command that stands for ssh to a host whose shell does this first.
fn ssh_with(home: &Home, shell: &str) -> String {
    let path = home.write("ssh-with", format!("#!/bin/sh\nshift\n{shell}\nexec sh -c \"exec $*\"\n"));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

#[test]
fn greeting_without_newline_hides_no_ticket() {
    let home = Home::new();
    home.write("file", "text");
    for shell in [r"printf '\033]0;host\007Welcome! '", "echo rdt1; printf 'rdt1 rdt1rdt1'"] {
        let ssh = ssh_with(&home, shell);
        for way in WAYS {
            home.copy(&[&["-e", &*ssh, "--remote-program", PROGRAM, "--overwrite"], way].concat());
        }
    }
    assert_eq!(fs::read_to_string(home.path("got")).unwrap(), "text");
}

#[test]
fn shell_that_starts_nothing_is_given_up() {
    let home = Home::new();
    home.write("file", "text");
    let said = "host printed '\\u{1b}]0;t\\u{7}Choose:'";
    for (shell, parts) in [
        (r"printf '\033]0;t\007Choose: '; exec sleep 600", &[said, "'ssh host true' must print nothing"][..]),
        ("exec sleep 600", &["ssh has started no rdt-copy at host for 6 s"]),
        ("yes | head -c 100000; exec sleep 600", &["more than 64 KiB"]),
        ("echo closed; exit 1", &["ended with exit code 1, after 'closed'"]),
    ] {
        let ssh = ssh_with(&home, shell);
        let copies =
            WAYS.map(|way| home.start("anna", &[&["-e", &*ssh, "--connect-give-up", "1s"], way].concat()));
        for (copy, way) in copies.into_iter().zip(WAYS) {
            let ended = copy.ended();
            assert_eq!(ended.code, Some(69), "{shell} {way:?}: {ended:?}");
            let is_said = parts.iter().all(|part| ended.errors.contains(part));
            assert!(is_said && !ended.errors.contains('\x1b'), "{shell} {way:?}: {ended:?}");
        }
    }
}
