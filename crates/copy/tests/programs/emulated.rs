//! A copy by real ssh over `rdt-emu run`, with loss, and with kills of either side.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rdt_program_testing::programs::{SshFiles, allows_emulation, user};

use super::home::{Home, PROGRAM, noise};
use super::tree;

/// Returns the program `rdt-emu` beside the one under test.
fn rdt_emu() -> PathBuf {
    PathBuf::from(PROGRAM).with_file_name("rdt-emu")
}

/// Copies, and kills either side twice: by the process ids that the far side's wrapper and the
/// shell know. Prints the exit code of the last copy.
const NEAR: &str = r#"
copy() { "$PROGRAM" -q -e "$SSH" --remote-program "$HOME_DIR/far" --idle-timeout 5s "$@" tree "$USER_NAME@$RDT_PEER:$HOME_DIR/store"; }
for round in 1 2 3 4; do
    copy & copy=$!
    for i in $(seq 500); do
        [ "$(du -sk "$HOME_DIR/store" | cut -f1)" -gt $((round * 900)) ] && break
        sleep 0.02
    done
    if [ $((round % 2)) = 0 ]; then kill -9 $copy; else kill -9 $(cat "$HOME_DIR/far.pid"); fi
    wait $copy
done
copy
echo $?
"#;

#[test]
fn killed_copies_by_ssh_resume_over_lossy_path() {
    if !allows_emulation(&rdt_emu()) {
        return;
    }
    let home = Home::new();
    let address: SocketAddr = "0.0.0.0:22".parse().unwrap();
    let Some(files) = SshFiles::new(&home.path(""), address) else { return };
    tree::make(&home.folder("tree"));
    home.write("tree/large", noise(3, 4_000_000));
    home.folder("store");
    let far = home.write("far", format!("#!/bin/sh\necho $$ > \"$0.pid\"\nexec {PROGRAM} \"$@\"\n"));
    std::fs::set_permissions(far, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let near = home.write("near", NEAR);
    let mut run = Command::new(rdt_emu());
    run.args(["run", "-q", "--rtt", "100ms", "--rate", "100mbit", "--loss", "1%"]);
    run.args(["--server", &files.sshd().join(" "), "--", "sh"]).arg(near).current_dir(home.path(""));
    run.env("PROGRAM", PROGRAM)
        .env("SSH", files.ssh())
        .env("HOME_DIR", home.path(""))
        .env("USER_NAME", user());
    run.env("XDG_CONFIG_HOME", home.path("anna")).env("XDG_STATE_HOME", "/there/is/none");
    let output = run.stdin(Stdio::null()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().last(), Some("0"), "{output:?}");
    tree::assert_same(&home.path("tree"), &home.path("store/tree"));
}
