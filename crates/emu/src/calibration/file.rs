//! The file in the user's folder for state.
//!
//! Owns where it is and that it is whole: whoever reads it finds the old one or the new one.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use crate::path::read_text;

/// Below the folder.
const NAME: &str = "rdt-emu/calibration.json";
/// Longer than any that is written, bytes.
const LONGEST: u64 = 1 << 16;

/// Where it is, by these variables of the environment: `XDG_STATE_HOME` or `HOME` as the XDG Base Directory
/// Specification has it, `LOCALAPPDATA` on Windows. `None` if they say nothing.
pub(crate) fn path(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    // A path that is not absolute is to be ignored, says the specification.
    let folder = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = if cfg!(windows) {
        folder("LOCALAPPDATA")
    } else {
        folder("XDG_STATE_HOME").or_else(|| Some(folder("HOME")?.join(".local/state")))
    };
    Some(state?.join(NAME))
}

/// What it says, if it is there.
pub(crate) fn read(file: &Path) -> io::Result<Option<String>> {
    match read_text(file, LONGEST) {
        Ok(text) => Ok(Some(text)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes it, and its folder if there is none.
#[cfg(target_os = "linux")]
pub(crate) fn save(file: &Path, text: &str) -> io::Result<()> {
    use std::io::Write;

    let folder = file.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let mut new = tempfile::NamedTempFile::new_in(folder)?;
    writeln!(new, "{text}")?;
    new.persist(file)?;
    Ok(())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn it_is_in_the_folder_for_state() {
        let of = |variables: &[(&str, &str)]| {
            let value = |name: &str| variables.iter().find(|pair| pair.0 == name).map(|pair| pair.1.into());
            path(value).map(|path| path.to_string_lossy().into_owned())
        };
        let at_home = Some("/home/a/.local/state/rdt-emu/calibration.json".to_owned());
        assert_eq!(of(&[("HOME", "/home/a")]), at_home);
        assert_eq!(of(&[("HOME", "/home/a"), ("XDG_STATE_HOME", "not/absolute")]), at_home);
        let set = of(&[("HOME", "/home/a"), ("XDG_STATE_HOME", "/s")]);
        assert_eq!(set.as_deref(), Some("/s/rdt-emu/calibration.json"));
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn what_is_saved_is_read_and_replaces_what_was_there() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("not/there/yet");
        assert_eq!(read(&file).unwrap(), None);
        for text in ["one", "two"] {
            save(&file, text).unwrap();
            assert_eq!(read(&file).unwrap(), Some(format!("{text}\n")));
        }
        assert_eq!(file.parent().unwrap().read_dir().unwrap().count(), 1, "nothing else is left");
        std::fs::write(&file, vec![b'1'; 1 << 17]).unwrap();
        assert!(read(&file).is_err(), "too long");
        assert!(save(&file.join("below a file"), "").is_err());
    }
}
