//! Calibration file in the user's state directory.
//!
//! Owns the path, and replaces the file atomically: a reader sees the old or the new content.

use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::path::read_text;

/// Path of the file below the state directory.
const FILE_NAME: &str = "rdt-emu/calibration.json";
/// Size limit when reading, bytes; a written file is far smaller.
const MAX_FILE_BYTES: u64 = 1 << 16;

/// Returns the path of the file from environment variables: `XDG_STATE_HOME` or `HOME` as in the
/// XDG Base Directory Specification, `LOCALAPPDATA` on Windows. `None` if the variable is unset or
/// a relative path.
pub(crate) fn path(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    // The specification says to ignore relative paths.
    let folder = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = if cfg!(windows) {
        folder("LOCALAPPDATA")
    } else {
        folder("XDG_STATE_HOME").or_else(|| Some(folder("HOME")?.join(".local/state")))
    };
    Some(state?.join(FILE_NAME))
}

pub(crate) fn read(file: &Path) -> io::Result<Option<String>> {
    let kind = match fs::metadata(file) {
        Ok(metadata) => metadata.file_type(),
        // $HOME may be a file such as /dev/null, below which no file exists.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    // Opening a FIFO would wait for a writer.
    if !kind.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    read_text(file, MAX_FILE_BYTES).map(Some)
}

/// Creates the file's folder and checks that the file can be written, before the measurement.
#[cfg(target_os = "linux")]
pub(crate) fn prepare(file: &Path) -> io::Result<()> {
    if file.is_dir() {
        return Err(ErrorKind::IsADirectory.into());
    }
    temporary(file).map(drop)
}

#[cfg(target_os = "linux")]
pub(crate) fn save(file: &Path, text: &str) -> io::Result<()> {
    use std::io::Write;

    let mut new = temporary(file)?;
    writeln!(new, "{text}")?;
    new.persist(file)?;
    Ok(())
}

#[cfg(target_os = "linux")]
fn temporary(file: &Path) -> io::Result<tempfile::NamedTempFile> {
    use std::os::unix::fs::PermissionsExt;

    let folder = file.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    // Not the mode 0600 of `tempfile`: a user must be able to read a file that root wrote.
    tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o666)).tempfile_in(folder)
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    #[test]
    fn path_follows_xdg_state_home() {
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
    fn saved_calibration_replaces_the_old() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("not/there/yet");
        assert_eq!(read(&file).unwrap(), None);
        for text in ["one", "two"] {
            save(&file, text).unwrap();
            assert_eq!(read(&file).unwrap(), Some(format!("{text}\n")));
        }
        assert_eq!(file.parent().unwrap().read_dir().unwrap().count(), 1, "nothing else is left");
        fs::write(&file, vec![b'1'; 1 << 17]).unwrap();
        assert!(read(&file).is_err(), "too long");
        assert!(save(&file.join("below a file"), "").is_err());
    }

    #[test]
    fn write_check_creates_only_the_folder() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("not/there/yet");
        prepare(&file).unwrap();
        assert_eq!(file.parent().unwrap().read_dir().unwrap().count(), 0);
        assert!(prepare(file.parent().unwrap()).is_err(), "a folder has the name");
        save(&file, "kept").unwrap();
        prepare(&file).unwrap();
        assert_eq!(read(&file).unwrap().as_deref(), Some("kept\n"));
        assert!(prepare(&file.join("below a file")).is_err());
    }

    #[test]
    fn file_mode_follows_umask() {
        use std::os::unix::fs::PermissionsExt;

        let directory = tempfile::tempdir().unwrap();
        let (ours, any) = (directory.path().join("ours"), directory.path().join("any"));
        save(&ours, "").unwrap();
        fs::write(&any, "").unwrap();
        let mode = |file: &Path| fs::metadata(file).unwrap().permissions().mode();
        assert_eq!(mode(&ours), mode(&any));
    }

    #[test]
    fn missing_file_is_none_special_file_is_error() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(read(Path::new("/dev/null/.local/state")).unwrap(), None);
        assert!(read(directory.path()).is_err());
        let fifo = directory.path().join("fifo");
        let (mode, device) = (rustix::fs::Mode::RWXU, 0);
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, device).unwrap();
        assert_eq!(read(&fifo).unwrap_err().to_string(), "it is not a regular file");
    }
}
