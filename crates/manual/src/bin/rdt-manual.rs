//! Writes manual pages and shell completions of all programs into a folder: `rdt-manual DIR`.

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(folder), None) = (arguments.next().map(PathBuf::from), arguments.next()) else {
        eprintln!("usage: rdt-manual DIR");
        return ExitCode::from(64);
    };
    match rdt_manual::write_all(&folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rdt-manual: cannot write to {}: {error}", folder.display());
            ExitCode::from(74)
        }
    }
}
