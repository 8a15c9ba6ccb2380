//! Folder of a test: the files of its programs, and a folder of keys for each of their users.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rdt_testing::Watchdog;
use serde_json::Value;

use crate::contract::Contract;
use crate::programs::Ended;

/// Folder of a test of one program. Removed at the end.
#[derive(Debug)]
pub struct Home {
    folder: tempfile::TempDir,
    program: &'static str,
    _watchdog: Watchdog,
}

impl Home {
    /// Creates the folder. `program` is the path of the program under test.
    pub fn new(program: &'static str) -> Self {
        Self { folder: tempfile::tempdir().unwrap(), program, _watchdog: Watchdog::new() }
    }

    /// Returns a path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns a path in the folder as text.
    pub fn show(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Writes a file, and creates the folders above it.
    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Writes a file that others may not read.
    #[cfg(unix)]
    pub fn write_secret(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;

        let path = self.write(name, bytes);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path
    }

    /// Creates a folder.
    pub fn folder(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(&path).unwrap();
        path
    }

    /// Returns a command that runs in the folder. `user` has a folder of keys of its own.
    pub fn command<'a>(&self, user: &str, args: impl IntoIterator<Item = &'a str>) -> Command {
        let mut command = Command::new(self.program);
        command.args(args).env("XDG_CONFIG_HOME", self.path(user)).current_dir(self.path(""));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Returns the same with a limit on descriptors.
    #[cfg(unix)]
    pub fn limited<'a>(
        &self,
        descriptors: u32,
        user: &str,
        args: impl IntoIterator<Item = &'a str>,
    ) -> Command {
        let plain = self.command(user, args);
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit -n {descriptors}; exec \"$0\" \"$@\"")]);
        command.arg(plain.get_program()).args(plain.get_args());
        command.envs(plain.get_envs().filter_map(|(key, value)| Some((key, value?))));
        command.current_dir(self.path("")).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

/// Returns the tickets of the event `listening`.
pub fn tickets(listening: &Value) -> Vec<String> {
    let tickets = listening["tickets"].as_array().unwrap();
    tickets.iter().map(|ticket| ticket.as_str().unwrap().to_owned()).collect()
}

/// Asserts that each line of the standard output is an event that fits the schema `schemas/FILE`.
pub fn check_events(file: &str, ended: &Ended) {
    let Some(contract) = Contract::load(file) else { return };
    for line in &ended.lines {
        contract.check_event(&serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")));
    }
}
