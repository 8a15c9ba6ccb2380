//! A tunnel over `rdt-emu run`, with kernel sockets and loss. The namespaces need permissions;
//! where they are missing, the test prints that it is skipped. With `RDT_NAMESPACES=1` it fails.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rdt_program_testing::programs::allows_emulation;

use super::process::{Home, PROGRAM};

/// Returns the program `rdt-emu` beside the one under test.
fn rdt_emu() -> PathBuf {
    PathBuf::from(PROGRAM).with_file_name("rdt-emu")
}

#[test]
fn bytes_arrive_over_lossy_path() {
    if !allows_emulation(&rdt_emu()) {
        return;
    }
    let home = Home::new();
    let show = |name: &str| home.path(name).display().to_string();
    // In both namespaces: the server's TCP target and `serve`; `stdio`, with bytes of a file.
    let target = SocketAddr::from((Ipv4Addr::LOCALHOST, 9000));
    let far = format!(
        "XDG_CONFIG_HOME={server} {PROGRAM} serve --to {target} --listen $RDT_LOCAL:9001 --open -q & exec {helper}",
        server = show("server"),
        helper = helper("emulated::serve_count"),
    );
    let near = format!(
        "head -c 3000000 /dev/zero | tr '\\0' a | XDG_CONFIG_HOME={anna} timeout 100 {PROGRAM} stdio -q $RDT_PEER:9001",
        anna = show("anna"),
    );
    let mut run = Command::new(rdt_emu());
    run.args(["run", "-q", "--rtt", "40ms", "--rate", "50mbit", "--loss", "2%", "--server", &far]);
    run.args(["--", "sh", "-c", &near]).env("XDG_STATE_HOME", "/there/is/none");
    let output = run.stdin(Stdio::null()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "3000000 291000000", "{output:?}");
    assert!(output.status.success(), "{output:?}");
}

/// Returns the shell command that runs a function of this file.
fn helper(name: &str) -> String {
    let program = std::env::current_exe().unwrap().into_os_string().into_string().unwrap();
    format!("{program} {name} --exact --ignored --nocapture --quiet >&2")
}

/// Server of the run: counts the bytes of one connection after the other.
#[test]
#[ignore = "a program for other tests"]
fn serve_count() {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 9000)).unwrap();
    listener.incoming().for_each(|stream| super::tcp::count(stream.unwrap()));
}
