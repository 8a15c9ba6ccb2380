//! Sets `RDT_COMMIT` in release builds to `+` and the commit of the clone. It is empty in other
//! builds, which would compile the laboratory again after each commit, and outside of a clone.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let git = Path::new("../../.git");
    let logs = git.join("logs/HEAD");
    let mut commit = String::new();
    // A copy of this package elsewhere, such as among vendored packages, is not this clone's.
    let is_clone = Path::new("../../crates/lab/build.rs").is_file() && logs.is_file();
    // Every commit and checkout appends a line to the log. Cargo runs a script again in every
    // build if a file that it names does not exist.
    if std::env::var("PROFILE").as_deref() == Ok("release") && is_clone {
        println!("cargo::rerun-if-changed={}", logs.display());
        let output = Command::new("git").args(["rev-parse", "--short=8", "HEAD"]).output();
        let output = output.ok().filter(|output| output.status.success());
        let text = output.and_then(|output| String::from_utf8(output.stdout).ok());
        commit.extend(text.iter().flat_map(|text| ["+", text.trim()]));
    }
    println!("cargo::rustc-env=RDT_COMMIT={commit}");
}
