//! Opening, checking, making and locking files; where they are.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rdt_crypto::Entropy;
use rdt_crypto::base32;
use zeroize::Zeroizing;

use crate::{FileError, LineError};

/// Largest file, bytes: 8,000 known hosts.
const MAX_BYTES: u64 = 1 << 20;
/// Time between two attempts to lock a file. Programs hold the lock for less than 1 ms, and longer
/// only while the system does not let them run.
const LOCK_INTERVAL: Duration = Duration::from_millis(2);
/// Attempts to lock a file: for 3 s.
const LOCK_ATTEMPTS: u32 = 1500;

/// True if this process or the system has too many files open.
pub fn is_out_of_descriptors(error: &io::Error) -> bool {
    #[cfg(unix)]
    {
        use rustix::io::Errno;
        matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
    }
    #[cfg(not(unix))]
    {
        let _ = error;
        false
    }
}

/// Returns the folder of identity and known hosts: `$XDG_CONFIG_HOME/rdt`, else `~/.config/rdt`.
pub fn config_folder() -> Result<PathBuf, FileError> {
    folder(env::var_os("XDG_CONFIG_HOME").map(PathBuf::from), env::home_dir())
}

/// A relative path in the variable is ignored (XDG Base Directory Specification).
fn folder(xdg: Option<PathBuf>, home: Option<PathBuf>) -> Result<PathBuf, FileError> {
    let home = || home.filter(|home| home.is_absolute()).map(|home| home.join(".config"));
    let base = xdg.filter(|path| path.is_absolute()).or_else(home).ok_or(FileError::NoFolder)?;
    Ok(base.join("rdt"))
}

/// Access by group and others that makes the program refuse a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Forbid {
    /// Any access. For secrets.
    All,
    /// Writing. For lists that decide who is trusted.
    Writing,
    /// Writing. The file may be a link and may belong to root, as parts of a host's configuration
    /// do.
    WritingOfConfiguration,
}

/// Returns an error that names what was tried and the file.
pub(crate) fn refused(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FileError {
    let path = path.to_owned();
    move |source| FileError::Io { action, path, source }
}

/// Opens a file, then checks it. A check before could see another file than the one that is read.
pub(crate) fn open(path: &Path, options: &mut OpenOptions, forbid: Forbid) -> Result<File, FileError> {
    let links = forbid == Forbid::WritingOfConfiguration;
    system::prepare(options, links);
    let file = match options.open(path) {
        Err(_) if !links && path.is_symlink() => return Err(FileError::Link(path.to_owned())),
        result => result.map_err(refused("open", path))?,
    };
    let metadata = file.metadata().map_err(refused("read", path))?;
    if !metadata.is_file() {
        return Err(FileError::NotRegular(path.to_owned()));
    }
    system::check(path, &metadata, forbid)?;
    Ok(file)
}

/// Checks that only the user has access to a file with a secret. A pipe needs no check.
#[cfg(feature = "options")]
pub(crate) fn check_secret(path: &Path, file: &File) -> Result<(), FileError> {
    let metadata = file.metadata().map_err(refused("read", path))?;
    if metadata.is_file() { system::check(path, &metadata, Forbid::All) } else { Ok(()) }
}

/// Reads a whole file as text. Erased from memory when dropped.
pub(crate) fn read(path: &Path, file: &mut File) -> Result<Zeroizing<String>, FileError> {
    let mut bytes = Zeroizing::new(Vec::new());
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(refused("read", path))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(FileError::TooLong(path.to_owned()));
    }
    match std::str::from_utf8(&bytes) {
        Ok(text) => Ok(Zeroizing::new(text.to_owned())),
        Err(error) => {
            let line = bytes[..error.valid_up_to()].split(|&byte| byte == b'\n').count();
            Err(FileError::Line { path: path.to_owned(), line, reason: LineError::Utf8 })
        }
    }
}

/// Makes the folder of a file, mode 0700, if it is missing.
pub(crate) fn make_folder_of(path: &Path) -> Result<(), FileError> {
    let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) else { return Ok(()) };
    if folder.is_dir() {
        return Ok(());
    }
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    system::set_folder_mode(&mut builder);
    builder.create(folder).map_err(refused("make", folder))
}

/// Makes a file, mode 0600, whole or not at all: written under a temporary name, then linked to its
/// name. False if the name exists already; then nothing is changed.
pub(crate) fn create(path: &Path, text: &str, entropy: &mut Entropy) -> Result<bool, FileError> {
    make_folder_of(path)?;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", base32::encode(&entropy.array::<10>())));
    let temporary = path.with_file_name(name);
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    system::prepare(&mut options, false);
    let mut file = options.open(&temporary).map_err(refused("make", &temporary))?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    let linked = written.and_then(|()| match fs::hard_link(&temporary, path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => create_in_place(path, &options, text),
        result => result,
    });
    // The link is the final name. If the removal fails, the temporary name stays, mode 0600.
    let removed = fs::remove_file(&temporary);
    match linked {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(refused("make", path)(error)),
        Ok(()) => {
            // The key is shown next, so its name must survive a loss of power, too. Not every file
            // system can do that, and the file is right without.
            if let Some(folder) = path.parent().and_then(|folder| File::open(folder).ok()) {
                let _ = folder.sync_all();
            }
            removed.map(|()| true).map_err(refused("remove", &temporary))
        }
    }
}

/// Makes a new file on a file system without hard links (exFAT, some of FUSE and SMB). Another
/// program that opens it before the end finds it incomplete.
fn create_in_place(path: &Path, options: &OpenOptions, text: &str) -> io::Result<()> {
    let mut file = options.open(path)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    if written.is_err() {
        let _ = fs::remove_file(path);
    }
    written
}

/// Opens a file for reading and changing, and makes it with mode 0600 if it is missing. Holds an
/// exclusive lock until the file is closed, so that programs change it one after the other.
///
/// Gives up after 3 s if a program keeps the lock: this is called while an endpoint is locked.
pub(crate) fn open_locked(path: &Path, forbid: Forbid) -> Result<File, FileError> {
    make_folder_of(path)?;
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true);
    let file = open(path, &mut options, forbid)?;
    for _ in 1..LOCK_ATTEMPTS {
        match system::lock(&file) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                #[expect(clippy::disallowed_methods, reason = "the attempts are counted")]
                std::thread::sleep(LOCK_INTERVAL);
            }
            locked => return locked.map(|()| file).map_err(refused("lock", path)),
        }
    }
    system::lock(&file).map_err(refused("lock", path))?;
    Ok(file)
}

#[cfg(unix)]
mod system {
    use std::fs::{DirBuilder, File, Metadata, OpenOptions};
    use std::io;
    use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
    use std::path::Path;

    use rustix::fs::{FlockOperation, OFlags, flock};

    use super::Forbid;
    use crate::FileError;

    /// Sets the flags to open a file: refuses symbolic links unless `links` is true, and does not
    /// block on a pipe that no other program has open. A file that is made has mode 0600.
    pub(super) fn prepare(options: &mut OpenOptions, links: bool) {
        let links = if links { OFlags::empty() } else { OFlags::NOFOLLOW };
        options.custom_flags((links | OFlags::NONBLOCK).bits().cast_signed()).mode(0o600);
    }

    pub(super) fn set_folder_mode(builder: &mut DirBuilder) {
        builder.mode(0o700);
    }

    pub(super) fn check(path: &Path, metadata: &Metadata, forbid: Forbid) -> Result<(), FileError> {
        let owner = metadata.uid();
        let root = forbid == Forbid::WritingOfConfiguration && owner == 0;
        if owner != rustix::process::geteuid().as_raw() && !root {
            return Err(FileError::Owner { path: path.to_owned(), owner });
        }
        let mode = metadata.mode() & 0o777;
        let (forbidden, access, right) = match forbid {
            Forbid::All => (0o077, "have access to", "600"),
            Forbid::Writing | Forbid::WritingOfConfiguration => (0o022, "may write", "go-w"),
        };
        if mode & forbidden != 0 {
            return Err(FileError::Exposed { path: path.to_owned(), mode, access, right });
        }
        check_folder(path)
    }

    /// Refuses the folder of a file if everyone may replace its files.
    fn check_folder(path: &Path) -> Result<(), FileError> {
        const STICKY: u32 = 0o1000;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let mode = folder.metadata().map_or(0, |metadata| metadata.mode());
        if mode & 0o002 != 0 && mode & STICKY == 0 {
            let (access, right) = ("may write", "go-w");
            return Err(FileError::Exposed { path: folder.to_owned(), mode: mode & 0o777, access, right });
        }
        Ok(())
    }

    pub(super) fn lock(file: &File) -> io::Result<()> {
        Ok(flock(file, FlockOperation::NonBlockingLockExclusive)?)
    }
}

#[cfg(not(unix))]
mod system {
    use std::fs::{DirBuilder, File, Metadata, OpenOptions};
    use std::io;
    use std::path::Path;

    use super::Forbid;
    use crate::FileError;

    pub(super) fn prepare(_: &mut OpenOptions, _: bool) {}

    pub(super) fn set_folder_mode(_: &mut DirBuilder) {}

    #[expect(clippy::unnecessary_wraps, reason = "the other systems check")]
    pub(super) fn check(_: &Path, _: &Metadata, _: Forbid) -> Result<(), FileError> {
        Ok(())
    }

    #[expect(clippy::unnecessary_wraps, reason = "the other systems lock")]
    pub(super) fn lock(_: &File) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A folder that vanishes, and a file of it with this text and mode.
    pub(crate) fn file(name: &str, text: &str, mode: u32) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        set_mode(&path, mode);
        (folder, path)
    }

    pub(crate) fn entropy() -> Entropy {
        Entropy::from_seed([1; 32])
    }

    #[cfg(unix)]
    pub(crate) fn set_mode(path: &Path, mode: u32) {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[cfg(not(unix))]
    pub(crate) fn set_mode(_: &Path, _: u32) {}

    /// Returns the error of the result as a sentence in which the folder is left out.
    pub(crate) fn sentence<T: std::fmt::Debug>(result: Result<T, FileError>, path: &Path) -> String {
        let folder = path.parent().unwrap().join("");
        result.unwrap_err().to_string().replace(&folder.display().to_string(), "")
    }

    #[test]
    fn file_without_links_is_created_once() {
        let (_folder, path) = file("other", "", 0o600);
        let path = path.with_file_name("key");
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        create_in_place(&path, &options, "first").unwrap();
        let error = create_in_place(&path, &options, "second").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).unwrap(), "first");
    }

    fn read_with(path: &Path, forbid: Forbid) -> Result<String, FileError> {
        let mut file = open(path, OpenOptions::new().read(true), forbid)?;
        read(path, &mut file).map(|text| text.to_string())
    }

    #[cfg(unix)]
    #[test]
    fn exposed_files_are_refused() {
        for (forbid, good, bad) in [
            (Forbid::All, &[0o600, 0o400][..], &[0o644, 0o640, 0o604, 0o620, 0o660, 0o777][..]),
            (Forbid::Writing, &[0o600, 0o644, 0o444], &[0o664, 0o646, 0o666]),
            (Forbid::WritingOfConfiguration, &[0o600, 0o644], &[0o664, 0o602]),
        ] {
            for &mode in good {
                let (_folder, path) = file("file", "text", mode);
                assert_eq!(read_with(&path, forbid).unwrap(), "text", "{forbid:?} {mode:o}");
            }
            for &mode in bad {
                let (_folder, path) = file("file", "text", mode);
                let refused = read_with(&path, forbid);
                assert!(matches!(refused, Err(FileError::Exposed { .. })), "{forbid:?} {mode:o}");
            }
        }
        let (_folder, path) = file("identity", "", 0o644);
        let expected = "identity: group or others have access to it (mode 644): run chmod 600 identity";
        assert_eq!(sentence(read_with(&path, Forbid::All), &path), expected);
        let (_folder, path) = file("allow", "", 0o664);
        let expected = "allow: group or others may write it (mode 664): run chmod go-w allow";
        assert_eq!(sentence(read_with(&path, Forbid::Writing), &path), expected);
    }

    #[cfg(unix)]
    #[test]
    fn links_are_refused() {
        let (folder, path) = file("real", "text", 0o600);
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        for forbid in [Forbid::All, Forbid::Writing] {
            assert_eq!(
                sentence(read_with(&link, forbid), &link),
                "link is a symbolic link: name the file itself"
            );
            assert!(matches!(open_locked(&link, forbid), Err(FileError::Link { .. })));
        }
        assert_eq!(read_with(&link, Forbid::WritingOfConfiguration).unwrap(), "text");
        // A link to a name that does not exist: nothing is made there.
        fs::remove_file(&path).unwrap();
        assert!(!create(&link, "text", &mut entropy()).unwrap(), "the name is taken");
        assert!(!path.exists());
    }

    #[cfg(unix)]
    #[test]
    fn folders_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let refused = read_with(folder.path(), Forbid::All);
        assert!(matches!(refused, Err(FileError::NotRegular { .. })), "{refused:?}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn pipes_are_refused_without_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        assert_eq!(sentence(read_with(&pipe, Forbid::All), &pipe), "pipe is no regular file");
    }

    /// The check of a key runs while an endpoint is locked.
    #[cfg(unix)]
    #[test]
    fn kept_lock_is_waited_for_up_to_limit() {
        let (_folder, path) = file("file", "", 0o600);
        let kept = open_locked(&path, Forbid::All).unwrap();
        let refused = open_locked(&path, Forbid::All).unwrap_err().to_string();
        assert!(refused.contains("cannot lock"), "{refused}");
        let other = std::thread::spawn({
            let path = path.clone();
            move || open_locked(&path, Forbid::All).map(drop)
        });
        #[expect(clippy::disallowed_methods, reason = "longer than a thousand turns of the scheduler")]
        std::thread::sleep(100 * LOCK_INTERVAL);
        drop(kept);
        other.join().unwrap().unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn files_of_other_users_are_refused() {
        let (_folder, path) = file("file", "text", 0o600);
        // Only root can give a file away.
        if std::os::unix::fs::chown(&path, Some(4711), None).is_err() {
            return;
        }
        for forbid in [Forbid::All, Forbid::Writing, Forbid::WritingOfConfiguration] {
            assert_eq!(sentence(read_with(&path, forbid), &path), "file belongs to user 4711, not to you");
        }
    }

    #[cfg(unix)]
    #[test]
    fn created_files_are_private() {
        use std::os::unix::fs::PermissionsExt;
        let (folder, path) = file("other", "", 0o600);
        let path = path.with_file_name("new").join("folder").join("file");
        let mut entropy = entropy();
        assert!(create(&path, "first", &mut entropy).unwrap());
        assert!(!create(&path, "second", &mut entropy).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "first");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no temporary file");
        let locked = folder.path().join("locked");
        drop(open_locked(&locked, Forbid::All).unwrap());
        assert_eq!(mode(&locked), 0o600);
    }

    #[test]
    fn long_and_foreign_texts_are_refused() {
        let text = "x".repeat(usize::try_from(MAX_BYTES).unwrap());
        let (_folder, path) = file("file", &text, 0o600);
        assert_eq!(read_with(&path, Forbid::All).unwrap(), text);
        fs::write(&path, text + "x").unwrap();
        assert_eq!(sentence(read_with(&path, Forbid::All), &path), "file is longer than 1 MiB");
        fs::write(&path, b"one\ntwo\n\xffthree\n").unwrap();
        assert_eq!(sentence(read_with(&path, Forbid::All), &path), "file, line 3: the text is not UTF-8");
        fs::remove_file(&path).unwrap();
        let missing = sentence(read_with(&path, Forbid::All), &path);
        assert!(missing.starts_with("cannot open file: "), "{missing}");
    }

    #[test]
    fn folders_follow_xdg() {
        let path = |text: &str| Some(PathBuf::from(text));
        let of = |xdg, home| folder(xdg, home).ok();
        if cfg!(unix) {
            assert_eq!(of(path("/x"), path("/home/a")), path("/x/rdt"));
            assert_eq!(of(path("relative"), path("/home/a")), path("/home/a/.config/rdt"));
            assert_eq!(of(path(""), path("/home/a")), path("/home/a/.config/rdt"));
            assert_eq!(of(None, path("home")), None);
        }
        assert_eq!(
            folder(None, None).unwrap_err().to_string(),
            "no folder for keys: set HOME, or name the file"
        );
    }
}
