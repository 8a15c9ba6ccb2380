//! A destination without room: a small file system in a namespace of its own.

use std::process::Command;

use rdt_program_testing::programs::Ended;

use super::home::{Home, PROGRAM, noise};

const NO_SPACE: &str = "No space left on device";

#[test]
fn full_disk_fails_large_file_alone() {
    let home = Home::new();
    let mounts = Command::new("unshare").args(["-Urm", "mount", "-t", "tmpfs", "none", "/mnt"]).output();
    if !mounts.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: no file system can be mounted in a namespace");
        return;
    }
    home.write("tree/a small", "text");
    home.write("tree/large", noise(1, 8 << 20));
    home.write("tree/z small", "text");
    home.folder("disk");
    // The far side sees a disk of 4 MiB. It ends before the namespace, so it says what it holds.
    let far = format!(
        "#!/bin/sh\nshift 2\nexec unshare -Urm sh -c 'mount -t tmpfs -o size=4m none {disk} && {PROGRAM} \"$@\"; code=$?; ls {disk}/tree > {listing}; exit $code' sh \"$@\"\n",
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
