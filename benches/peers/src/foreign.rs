//! Peers in C++: programs in `foreign/` that use a system library. They are compiled before the
//! first round, and use the same protocol as the children in Rust.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, anyhow, ensure};

use crate::transfer::{self, Run};

/// Folder of the sources, which exists because this program runs where it was built.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/foreign");

/// UDT 4; its last release is 4.11.
pub(crate) const UDT: Library = Library {
    name: "udt",
    package: "libudt-dev",
    flags: &["-ludt", "-lpthread"],
    tuned: "its own control of congestion, stream mode, 1472-byte packets (`UDT_MSS` 1500), windows of 51200 packets \
        and 64 MiB, a 4 MiB socket buffer to receive",
};

pub(crate) const SRT: Library = Library {
    name: "srt",
    package: "libsrt-openssl-dev",
    flags: &["-lsrt"],
    tuned: "file mode (`SRTT_FILE`, its own control of congestion, no encryption), stream instead of messages, \
        1472-byte packets (`SRTO_MSS` 1500), windows of 25600 packets and 12 MiB, a 4 MiB socket buffer to receive",
};

/// A system library and the program around it.
pub(crate) struct Library {
    /// Name of the program and its source file, and of the library in `pkg-config`.
    name: &'static str,
    /// Name of Debian's package.
    package: &'static str,
    /// Linker options if `pkg-config` does not know the library.
    flags: &'static [&'static str],
    pub(crate) tuned: &'static str,
}

impl Library {
    /// Compiles the program, and returns the version of the library.
    pub(crate) fn prepare(&self) -> Result<String> {
        let program = self.program()?;
        let directory = program.parent().expect("the program is in a directory");
        std::fs::create_dir_all(directory).with_context(|| format!("making {}", directory.display()))?;
        self.compile(&program).with_context(|| format!("needs {} and a C++ compiler", self.package))?;
        Ok(self.version())
    }

    pub(crate) fn run(&self, bytes: u64) -> Result<Run> {
        let (program, bytes_text) = (self.program()?, bytes.to_string());
        let child = |role: &str| {
            let mut command = Command::new(&program);
            command.arg(role).arg(&bytes_text);
            command
        };
        transfer::run_children(&mut child("receive"), &mut child("send"), bytes)
    }

    /// Returns the path of the program: beside this program, in the target directory.
    fn program(&self) -> Result<PathBuf> {
        let ours = std::env::current_exe().context("the path of this program")?;
        Ok(ours.with_file_name("foreign").join(self.name))
    }

    fn compile(&self, program: &Path) -> Result<()> {
        let flags = self.pkg_config(&["--cflags", "--libs"]);
        let known: Vec<&str> =
            flags.as_deref().map_or_else(|| self.flags.to_vec(), |flags| flags.split_whitespace().collect());
        let output = Command::new("c++")
            .args(["-std=c++17", "-O2", "-o"])
            .arg(program)
            .arg(Path::new(SOURCES).join(self.name).with_extension("cpp"))
            .args(known)
            .output()
            .map_err(|error| match error.kind() {
                ErrorKind::NotFound => anyhow!("there is no program c++"),
                _ => anyhow!("starting c++: {error}"),
            })?;
        let text = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}", complaint(&text));
        Ok(())
    }

    /// Returns the output of `pkg-config` for the library; `None` if either does not exist.
    fn pkg_config(&self, words: &[&str]) -> Option<String> {
        printed(Command::new("pkg-config").args(words).arg(self.name))
    }

    /// Returns the version from `pkg-config`, or else from Debian's package database.
    fn version(&self) -> String {
        self.pkg_config(&["--modversion"])
            .or_else(|| printed(Command::new("dpkg-query").args(["-W", "-f=${Version}", self.package])))
            .unwrap_or_else(|| "not told".to_owned())
    }
}

/// Returns the output of a command; `None` if it fails.
fn printed(command: &mut Command) -> Option<String> {
    let output = command.output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Returns the first error line of a compiler or linker.
fn complaint(text: &str) -> &str {
    let first = text.lines().find_map(|line| line.split_once("error: ").map(|(_, error)| error));
    let linker = || text.lines().find_map(|line| line.split_once(": cannot find ").map(|_| line));
    first.filter(|error| !error.starts_with("ld returned")).or_else(linker).unwrap_or(text).trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_compiler_error_is_reported() {
        let text = "foreign/udt.cpp: In function\nforeign/udt.cpp:5:10: fatal error: udt/udt.h: No such file\n  5 |\n";
        assert_eq!(complaint(text), "udt/udt.h: No such file");
        let text =
            "/usr/bin/ld: cannot find -ludt: No such file\ncollect2: error: ld returned 1 exit status\n";
        assert_eq!(complaint(text), "/usr/bin/ld: cannot find -ludt: No such file");
        assert_eq!(complaint("killed\n"), "killed");
    }

    #[test]
    fn failed_or_missing_command_prints_nothing() {
        assert_eq!(printed(Command::new("echo").arg("1.5")).as_deref(), Some("1.5"));
        assert_eq!(printed(&mut Command::new("false")), None);
        assert_eq!(printed(&mut Command::new("no-such-program")), None);
    }
}
