//! Folder of a test, and `rdt-copy` in it.

use std::ffi::OsStr;
use std::fs;
use std::ops::Deref;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use rdt_program_testing::home;
use rdt_program_testing::programs::{Ended, Program};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_rdt-copy");

/// Runs the rest of its command line on this host, as ssh does at another one. Writes its process
/// id beside itself, so that a test can kill the far side.
const FAKE_SSH: &str = "\
#!/bin/sh
shift
echo $$ > \"$0.pid\"
exec sh -c \"exec $*\"
";

/// Folder of a test, with the sources and destinations of its copies.
pub(crate) struct Home(home::Home);

impl Deref for Home {
    type Target = home::Home;

    fn deref(&self) -> &home::Home {
        &self.0
    }
}

impl Home {
    pub(crate) fn new() -> Self {
        Self(home::Home::new(PROGRAM))
    }

    pub(crate) fn start(&self, user: &str, args: &[&str]) -> Program {
        Program::start(&mut self.command(user, args.iter().copied()))
    }

    /// Runs a copy of `anna` to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Ended {
        self.start("anna", args).ended()
    }

    /// Runs a copy that must succeed, and returns its summary.
    pub(crate) fn copy(&self, args: &[&str]) -> serde_json::Value {
        let ended = self.run(&[args, &["--json"]].concat());
        assert_eq!(ended.code, Some(0), "{args:?}: {ended:?}");
        check_events(&ended);
        ended.summary()
    }

    /// Starts `--serve` for a folder, on a free port of the loopback interface.
    pub(crate) fn serve(&self, folder: &str, options: &[&str]) -> Serve {
        self.folder(folder);
        let args = ["--serve", folder, "--bind", "127.0.0.1", "--port", "0", "--json"];
        Serve::of(self.start("server", &[&args, options].concat()))
    }

    /// Makes a command that stands for ssh, and returns its path.
    pub(crate) fn fake_ssh(&self) -> String {
        let path = self.write("fake-ssh", FAKE_SSH);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.display().to_string()
    }

    /// Returns options for copies by the command that stands for ssh.
    pub(crate) fn by_ssh(&self) -> Vec<String> {
        ["-e", &self.fake_ssh(), "--remote-program", PROGRAM].map(ToOwned::to_owned).to_vec()
    }

    /// Kills the far side that the stand-in of ssh has started last.
    pub(crate) fn kill_far_side(&self) {
        let id = fs::read_to_string(self.path("fake-ssh.pid")).unwrap();
        // Fails if it has ended.
        let _ = Command::new("kill").args(["-9", id.trim()]).stderr(Stdio::null()).status().unwrap();
    }
}

/// Running `--serve`.
pub(crate) struct Serve {
    pub(crate) program: Program,
    pub(crate) port: String,
    pub(crate) tickets: Vec<String>,
}

impl Serve {
    pub(crate) fn of(program: Program) -> Self {
        let listening = program.event("listening");
        let tickets = home::tickets(&listening);
        let port = listening["address"].as_str().unwrap().rsplit(':').next().unwrap().to_owned();
        Self { program, port, tickets }
    }

    /// Returns the first ticket with a path.
    pub(crate) fn at(&self, path: &str) -> String {
        format!("{}:{path}", self.tickets[0])
    }
}

/// Asserts that each line of the standard output fits its schema.
pub(crate) fn check_events(ended: &Ended) {
    home::check_events("rdt-copy.json", ended);
}

/// Returns `words` as arguments.
pub(crate) fn args(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

/// Returns repeatable bytes that do not compress.
pub(crate) fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut random = rdt_testing::random(seed);
    let mut noise = Vec::with_capacity(bytes + 4);
    while noise.len() < bytes {
        noise.extend_from_slice(&u32::try_from(random(1 << 31)).unwrap().to_le_bytes()[..3]);
    }
    noise.truncate(bytes);
    noise
}

/// Returns the names in a folder, sorted.
pub(crate) fn names(folder: &std::path::Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.map(|name| OsStr::to_string_lossy(&name).into_owned()).collect();
    names.sort();
    names
}
