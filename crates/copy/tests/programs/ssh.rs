//! Copies by a real ssh, to a private sshd.

use std::fs;

use rdt_program_testing::programs::{SshFiles, free_address, user};

use super::home::{Home, PROGRAM};
use super::tree;

#[test]
fn real_ssh_carries_ticket_both_ways() {
    let home = Home::new();
    let address = free_address();
    let Some(files) = SshFiles::new(&home.path(""), address) else { return };
    let _sshd = files.start(address);
    let ssh = format!("{} -p {}", files.ssh(), address.port());
    tree::make(&home.folder("tree"));
    home.folder("store");
    let host = |path: &str| format!("{}@127.0.0.1:{}", user(), home.show(path));
    for listen_here in [&[][..], &["--listen-here"]] {
        let options = [&["-e", &ssh, "--remote-program", PROGRAM], listen_here].concat();
        home.copy(&[&options[..], &["tree", &host("store")]].concat());
        tree::assert_same(&home.path("tree"), &home.path("store/tree"));
        home.copy(&[&options[..], &[&host("store/tree"), "back", "--overwrite"]].concat());
    }
    tree::assert_same(&home.path("tree"), &home.path("back/tree"));
    // Keys of such copies leave no file.
    assert!(!home.path("anna").exists() && fs::metadata(home.path("ssh_known")).is_ok());
}
