//! A destination without room: a small file system in a namespace of its own.

use std::process::Command;

use rdt_program_testing::programs::Ended;

use super::home::{Home, PROGRAM, noise};

const NO_SPACE: &str = "No space left on device";

/// Returns true if a file system can be mounted in a namespace; else prints that the test is
/// skipped.
fn can_mount() -> bool {
    let mounts = Command::new("unshare").args(["-Urm", "mount", "-t", "tmpfs", "none", "/mnt"]).output();
    let can = mounts.is_ok_and(|output| output.status.success());
    if !can {
        rdt_testing::skipped("no file system can be mounted in a namespace");
    }
    can
}

#[test]
fn full_disk_fails_large_file_alone() {
    if !can_mount() {
        return;
    }
    let home = Home::new();
    home.write("tree/a small", "text");
    home.write("tree/large", noise(1, 8 << 20));
    home.write("tree/z small", "text");
    home.folder("disk");
    // The far side sees a disk of 4 MiB. It ends before the namespace, so it says what it holds. On
    // one processor it has one worker, which gives the room of a failed file back before the next.
    let far = format!(
        "#!/bin/sh\nshift 2\nexec unshare -Urm sh -c 'mount -t tmpfs -o size=4m none {disk} && taskset -c 0 {PROGRAM} \"$@\"; code=$?; ls {disk}/tree > {listing}; exit $code' sh \"$@\"\n",
        disk = home.show("disk"),
        listing = home.show("listing"),
    );
    let ssh = home.write("far", far);
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&ssh, mode).unwrap();
    let ssh = ssh.display().to_string();
    let Ended { code, errors, .. } = home.run(&["-e", &ssh, "tree", &format!("host:{}", home.show("disk"))]);
    assert_eq!(code, Some(23), "{errors}");
    assert!(errors.contains("not copied: tree/large: ") && errors.contains(NO_SPACE), "{errors}");
    assert!(errors.contains("2 files copied"), "{errors}");
    let listing = std::fs::read_to_string(home.path("listing")).unwrap();
    assert_eq!(listing, "a small\nz small\n");
}

#[test]
fn disk_full_at_end_of_group_resumes_right() {
    if !can_mount() {
        return;
    }
    let home = Home::new();
    home.write("large", noise(1, 88 << 20));
    home.folder("disk");
    let copy = format!("{PROGRAM} -q {} large host:disk/", home.by_ssh().join(" "));
    // Pages are missing for the last group of 8 MiB, because the journal has them.
    let script = format!(
        "mount -t tmpfs -o size=80m none disk && {copy}; echo $?; mount -o remount,size=96m disk && {copy} && cmp large disk/large"
    );
    let mut command = Command::new("unshare");
    command.args(["-Urm", "sh", "-c", &script]).current_dir(home.path(""));
    let output = command.env("XDG_CONFIG_HOME", home.path("anna")).output().unwrap();
    let first = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && first == "23\n", "{output:?}");
}
