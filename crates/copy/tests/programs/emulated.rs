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
/// shell know. Then the link goes down for longer than the idle timeout, which ends a copy with
/// code 5. Prints the codes of this copy and of the last one, and the last one's summary.
///
/// Before the next copy, the far side of a killed one has written its last checkpoint.
const NEAR: &str = r#"
copy() { exec "$PROGRAM" -q -e "$SSH" --remote-program "$HOME_DIR/far" --idle-timeout 5s "$@" tree "$USER_NAME@$RDT_PEER:$HOME_DIR/store"; }
wait_for_kilobytes() {
    for i in $(seq 1500); do
        [ "$(du -sk "$HOME_DIR/store" | cut -f1)" -gt $1 ] && break
        sleep 0.02
    done
}
wait_for_far_side() {
    for i in $(seq 1500); do
        kill -0 $(cat "$HOME_DIR/far.pid") 2> /dev/null || break
        sleep 0.02
    done
}
for round in 1 2 3 4; do
    copy & copy=$!
    wait_for_kilobytes $((round * 5000))
    if [ $((round % 2)) = 0 ]; then kill -9 $copy; else kill -9 $(cat "$HOME_DIR/far.pid"); fi
    wait $copy
    wait_for_far_side
done
copy & copy=$!
wait_for_kilobytes 25000
"$EMU" set "$HOME_DIR/control" --loss 100% >&2
wait $copy
echo $?
wait_for_far_side
"$EMU" set "$HOME_DIR/control" --loss 1% >&2
(copy --json) > "$HOME_DIR/last"
echo $?
tail -n 1 "$HOME_DIR/last"
"#;
/// Bytes of a group of verified data: what is resumed is a multiple.
const GROUP_BYTES: u64 = 512 << 10;

#[test]
fn killed_copies_by_ssh_resume_over_failing_path() {
    if !allows_emulation(&rdt_emu()) {
        return;
    }
    let home = Home::new();
    let address: SocketAddr = "0.0.0.0:22".parse().unwrap();
    let Some(files) = SshFiles::new(&home.path(""), address) else { return };
    tree::make(&home.folder("tree"));
    home.write("tree/large", noise(3, 48 << 20));
    home.folder("store");
    let far = home.write("far", format!("#!/bin/sh\necho $$ > \"$0.pid\"\nexec {PROGRAM} \"$@\"\n"));
    std::fs::set_permissions(far, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let near = home.write("near", NEAR);
    let mut run = Command::new(rdt_emu());
    run.args(["run", "-q", "--rtt", "100ms", "--rate", "100mbit", "--loss", "1%"]);
    run.args(["--control", &home.show("control")]);
    run.args(["--server", &files.sshd().join(" "), "--", "sh"]).arg(near).current_dir(home.path(""));
    run.env("PROGRAM", PROGRAM)
        .env("EMU", rdt_emu())
        .env("SSH", files.ssh())
        .env("HOME_DIR", home.path(""))
        .env("USER_NAME", user());
    run.env("XDG_CONFIG_HOME", home.path("anna")).env("XDG_STATE_HOME", "/there/is/none");
    let output = run.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let [lost, last, summary] = text.lines().collect::<Vec<_>>()[..] else { panic!("{output:?}") };
    assert_eq!((lost, last), ("5", "0"), "{output:?}");
    let summary: serde_json::Value = serde_json::from_str(summary).unwrap();
    assert!(summary["resumed_bytes"].as_u64().unwrap() >= GROUP_BYTES, "{summary}");
    tree::assert_same(&home.path("tree"), &home.path("store/tree"));
}
