//! `rdt-lab trace`: standard input, and files without anything to analyse.

use std::io::Write as _;
use std::process::Stdio;

use crate::process::{arg, lab, run, texts};

fn capture() -> Vec<u8> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/trace/loss.pcapng");
    std::fs::read(file).expect("a capture")
}

/// Runs the command with these bytes at its standard input.
fn piped(args: &[&str], bytes: &[u8]) -> (i32, String, String) {
    let mut child = lab(args).stdin(Stdio::piped()).spawn().expect("the program starts");
    let mut input = child.stdin.take().expect("a pipe");
    for part in bytes.chunks(1000) {
        if input.write_all(part).is_err() {
            break;
        }
    }
    drop(input);
    texts(&child.wait_with_output().expect("the program ends"))
}

#[test]
fn standard_input_is_analysed() {
    let place = tempfile::tempdir().expect("a folder");
    let file = place.path().join("loss.pcapng");
    std::fs::write(&file, capture()).expect("a written file");
    for choice in [&["--list"][..], &["--json"], &["--interface", "far"]] {
        let (code, out, err) = run(&[&["trace", arg(&file)][..], choice].concat());
        assert_eq!(piped(&[&["trace", "-"][..], choice].concat(), &capture()), (code, out.clone(), err));
        assert!(code == 0 && !out.is_empty(), "{choice:?}: {out}");
    }
    let (code, _, err) = piped(&["trace", "-", "--interface", "middle"], &capture());
    assert_eq!(code, 64, "{err}");
    assert!(err.contains("standard input has no interface 'middle': it has 'near', 'far'"), "{err}");
}

#[test]
fn nothing_to_read_ends_with_code_66() {
    // The section and both interfaces.
    let header = &capture()[..196];
    for (bytes, sentence) in [
        (&b""[..], "nothing to read in standard input: it is empty"),
        (header, "nothing to analyse in standard input: it has no packets"),
    ] {
        let (code, out, err) = piped(&["trace", "-", "--json"], bytes);
        assert_eq!((code, &out[..]), (66, ""), "{err}");
        assert!(err.contains(sentence), "{err}");
    }
    let (code, _, err) = piped(&["trace", "-"], b"GET / HTTP/1.1");
    assert_eq!(code, 65, "{err}");
    let place = tempfile::tempdir().expect("a folder");
    let (code, _, err) = run(&["trace", arg(place.path())]);
    assert!(code == 66 && err.contains("it cannot be read"), "{code}: {err}");
}
