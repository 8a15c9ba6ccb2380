//! Log of `rdt-recv`, in the formats of the reference receiver.

use crate::process::Program;
use crate::raw::Raw;
use crate::scan::scan;
use crate::wire::syn;

#[test]
fn log_of_connections_has_reference_format() {
    for (option, prefix) in [("--no-link", ""), ("--dummy", "***** DUMMY receiver ")] {
        let args = ["--bind", "127.0.0.1:0", "--faithful", option];
        let program = Program::start(env!("CARGO_BIN_EXE_rdt-recv"), &args);
        let line = program.line();
        let started = scan(&format!("{prefix}Receiver v%s has initialized on %s"), &line);
        let address = started.unwrap_or_else(|| panic!("{line:?}"))[1];
        let mut raw = Raw::to(address.parse().unwrap_or_else(|_| panic!("{line:?}")));
        raw.send(&syn(0));
        raw.wait();
        let line = program.line();
        let connected = scan("[%d/%d/%d %d:%d:%d] %s connected; RAM %.2f MB active %d", &line);
        let connected = connected.unwrap_or_else(|| panic!("{line:?}"));
        assert!(connected[..6].iter().all(|field| field.len() == 2), "{line:?}");
        assert_eq!((connected[6], connected[8]), (raw.address().to_string().as_str(), "1"), "{line:?}");
    }
}
