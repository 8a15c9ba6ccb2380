//! Names of stored files: suggested by the sender, made safe by the receiver.

use std::fs;
use std::path::Path;

use super::data::array;
use super::process::{Program, Receiver, rdt_send};

/// Returns the names of the visible files.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = entries.filter(|name| !name.starts_with('.')).collect();
    names.sort();
    names
}

/// Sends 100 bytes with these options, each of which may contain blanks.
fn send(receiver: &Receiver, options: &[&str]) {
    let mut command = rdt_send(&receiver.args("--quiet"));
    Program::start(command.args(options)).ended().with_code(0);
}

#[test]
fn stored_file_has_name_of_sent_one() {
    for format in [&["--wire", "native"][..], &["--insecure"]] {
        let directory = tempfile::tempdir().unwrap();
        let (source, kept) = (directory.path().join("über data.tar.gz"), directory.path().join("kept"));
        fs::create_dir(&kept).unwrap();
        fs::write(&source, array(5000)).unwrap();
        let receiver = Receiver::keeping(&kept, "--insecure");
        for name in ["über data.tar.gz", "über data.tar-2.gz"] {
            send(&receiver, &[format, &["--file", source.to_str().unwrap()]].concat());
            let line = receiver.program.line(name);
            assert!(line.contains("5000 bytes"), "{line}");
            assert_eq!(fs::read(kept.join(name)).unwrap(), array(5000));
        }
        send(&receiver, &[format, &["--file", source.to_str().unwrap(), "--no-name"]].concat());
        send(&receiver, &[format, &["--bytes", "100"]].concat());
        let names = names(&kept);
        let by_address: Vec<_> = names.iter().filter(|name| name.starts_with("127.0.0.1-")).collect();
        assert_eq!((names.len(), by_address.len()), (4, 2), "{names:?}");
    }
}

#[test]
fn hostile_names_stay_in_directory() {
    for format in [&["--wire", "native"][..], &["--insecure"]] {
        let directory = tempfile::tempdir().unwrap();
        let kept = directory.path().join("kept");
        fs::create_dir(&kept).unwrap();
        fs::write(kept.join("mine.txt"), b"old").unwrap();
        let receiver = Receiver::keeping(&kept, "--insecure");
        let long = "x".repeat(204);
        for name in ["../../up", "/etc/rdt-test", r"..\down", ".hidden", "mine.txt", "a\nb\u{1b}[2J", &long] {
            send(&receiver, &[format, &["--bytes", "100", "--name", name]].concat());
        }
        send(&receiver, &[format, &["--bytes", "100", "--name", ".."]].concat());
        let mut names = names(&kept);
        names.retain(|name| !name.starts_with("127.0.0.1-"));
        let expected = ["a_b_[2J", "down", "hidden", "mine-2.txt", "mine.txt", "rdt-test", "up", &long];
        assert_eq!(names, expected);
        assert_eq!(fs::read(kept.join("mine.txt")).unwrap(), b"old");
        assert_eq!(self::names(directory.path()), ["kept"], "nothing beside it");
    }
}

#[test]
fn fixed_output_ignores_suggested_name() {
    let directory = tempfile::tempdir().unwrap();
    let receiver = Receiver::keeping(&directory.path().join("out"), "");
    send(&receiver, &["--bytes", "100", "--name", "other"]);
    assert_eq!(names(directory.path()), ["out"]);
}
