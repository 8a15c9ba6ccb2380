//! Output files that only their owner may read: captures and traces have the data of others. The
//! limit on open files.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

/// Creates a file with mode 0600. A regular file of this name is refused, or replaced with `force`.
///
/// A symbolic link is refused: in a folder to which others may write, it can lead to any file of
/// this user. Devices, named pipes and open descriptors (`/dev/fd/3`) are written to as they are.
pub fn create_private(path: &Path, force: bool) -> io::Result<File> {
    if is_descriptor(path) {
        return File::create(path);
    }
    match create_new(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        result => return result,
    }
    let kind = path.symlink_metadata()?.file_type();
    if kind.is_symlink() {
        return Err(io::Error::other("it is a symbolic link"));
    }
    if !kind.is_file() {
        return open_existing(path);
    }
    if !force {
        return Err(exists());
    }
    // Not truncated, because it may have other names, another owner and other permissions.
    fs::remove_file(path)?;
    create_new(path)
}

/// Raises the soft limit on open descriptors to the hard one, and returns it. The soft one is often
/// 1024, for programs that call `select`.
#[cfg(unix)]
pub fn raise_descriptor_limit() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // If the system refuses (macOS without a hard limit), the soft limit stays.
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).is_ok();
    // `None` is no limit.
    (if raised { maximum } else { current }).unwrap_or(u64::MAX)
}

/// Returns `u64::MAX`: this system has no such limit.
#[cfg(not(unix))]
pub fn raise_descriptor_limit() -> u64 {
    u64::MAX
}

fn exists() -> io::Error {
    io::Error::new(io::ErrorKind::AlreadyExists, "it exists already: --force replaces it")
}

/// True if both paths lead to the same regular file, or would once it is created.
pub fn is_same_path(one: &Path, other: &Path) -> bool {
    let place = |path: &Path| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        (folder.canonicalize().unwrap_or(folder.to_owned()), path.file_name().map(OsStr::to_owned))
    };
    let is_file = |path: &Path| path.metadata().map_or(true, |found| found.is_file());
    let resolved = |path: &Path| path.canonicalize().ok();
    is_file(one)
        && (place(one) == place(other) || resolved(one).is_some_and(|path| Some(path) == resolved(other)))
}

/// True for `/dev/fd/3`, `/dev/stdout` and the like: links to files that this process has open.
pub fn is_descriptor(path: &Path) -> bool {
    let folder = path.parent();
    ["/dev/fd", "/proc/self/fd"].iter().any(|of_system| folder == Some(Path::new(of_system)))
        || ["/dev/stdin", "/dev/stdout", "/dev/stderr"].iter().any(|name| path == Path::new(name))
}

fn create_new(path: &Path) -> io::Result<File> {
    without_links(File::options().write(true).create_new(true)).open(path)
}

/// Opens a device or a pipe. Does not truncate, as a regular file may take its place.
fn open_existing(path: &Path) -> io::Result<File> {
    let file = without_links(File::options().write(true)).open(path)?;
    if file.metadata()?.is_file() { Err(exists()) } else { Ok(file) }
}

#[cfg(unix)]
fn without_links(options: &mut OpenOptions) -> &mut OpenOptions {
    use std::os::unix::fs::OpenOptionsExt as _;
    options.mode(0o600).custom_flags(libc::O_NOFOLLOW)
}

#[cfg(not(unix))]
fn without_links(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn existing_file_is_replaced_only_with_force() {
        let folder = tempfile::tempdir().expect("a folder");
        let [path, other] = ["file", "other"].map(|name| folder.path().join(name));
        fs::write(&path, "old").expect("a file");
        fs::hard_link(&path, &other).expect("a second name");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("permissions");
        let error = create_private(&path, false).expect_err("it exists");
        assert_eq!(error.to_string(), "it exists already: --force replaces it");
        create_private(&path, true).expect("a new file").write_all(b"new").expect("written");
        assert_eq!(fs::metadata(&path).expect("the file").mode() & 0o777, 0o600);
        assert_eq!([&path, &other].map(|path| fs::read_to_string(path).expect("text")), ["new", "old"]);
    }

    #[test]
    fn links_are_refused_wherever_they_lead() {
        let folder = tempfile::tempdir().expect("a folder");
        let [link, target] = ["link", "target"].map(|name| folder.path().join(name));
        symlink(&target, &link).expect("a link");
        for text in [None, Some("old")] {
            text.map_or(Ok(()), |text| fs::write(&target, text)).expect("a file");
            for force in [false, true] {
                let error = create_private(&link, force).expect_err("a link");
                assert_eq!(error.to_string(), "it is a symbolic link");
            }
            assert_eq!(fs::read_to_string(&target).ok().as_deref(), text);
        }
    }

    #[test]
    fn paths_of_one_file_are_same() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("sub")).expect("a folder");
        assert!(is_same_path(&at("new"), &at("sub/../new")) && !is_same_path(&at("new"), &at("sub/new")));
        fs::write(at("there"), "").expect("a file");
        symlink(at("there"), at("link")).expect("a link");
        assert!(is_same_path(&at("there"), &at("link")));
        assert!(is_same_path(Path::new("new"), Path::new("./new")));
        assert!(!is_same_path(Path::new("/dev/null"), Path::new("/dev/null")));
    }

    #[test]
    fn devices_and_descriptors_are_opened() {
        create_private(Path::new("/dev/null"), false).expect("a device");
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        let file = File::create(&path).expect("a file");
        let descriptor = format!("/dev/fd/{}", file.as_raw_fd());
        create_private(Path::new(&descriptor), false)
            .expect("an open file")
            .write_all(b"a")
            .expect("written");
        assert_eq!(fs::read(&path).expect("the file"), b"a");
    }
}
