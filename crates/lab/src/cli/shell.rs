//! Words and programs of a shell.

use std::env;
use std::path::PathBuf;

use super::failure::Failure;

/// Returns an argument for a shell, in single quotes if it needs any.
pub(super) fn shell_word(text: &str) -> Result<String, Failure> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if text.chars().all(is_plain) {
        return Ok(text.to_owned());
    }
    if text.contains(['\'', '\n']) {
        return Err(Failure::Usage(format!("the name {text:?} cannot stand in a script: rename the file")));
    }
    Ok(format!("'{text}'"))
}

/// Returns the file of a program in a folder of `PATH`.
pub(super) fn in_path(name: &str) -> Option<PathBuf> {
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| path.is_file())
}
