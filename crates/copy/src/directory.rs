//! Handles of directories. A directory is reached from its parent's handle by one component, never
//! by a path, so that a directory that is replaced while the copy runs leads nowhere else.
//!
//! Handles are closed when too many are open or the process has no descriptor left, and opened
//! again when needed. A directory that is opened again must be the same one. So neither the depth
//! nor the breadth of a tree needs descriptors.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, openat, statat};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::Root;
use crate::protocol::HashBytes;

/// Limits on handles of directories that are kept open. Between them, it is a quarter of the
/// descriptors that the process may have.
const MIN_OPEN_DIRECTORIES: usize = 8;
const MAX_OPEN_DIRECTORIES: usize = 512;
/// Attempts to open something while other threads take all descriptors, and the time between two.
const MAX_ATTEMPTS: u32 = 20;
const ATTEMPT_INTERVAL: Duration = Duration::from_millis(20);
const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// How symbolic links are treated in the last component of a path below a source.
#[derive(Debug, Clone)]
pub(crate) enum Links {
    Keep,
    /// They are followed anywhere.
    Follow,
    /// They are followed inside of this directory.
    FollowBeneath(Arc<OwnedFd>),
}

/// Directory that was opened, or its name until it is opened again.
#[derive(Debug)]
pub(crate) struct Directory {
    origin: Origin,
    /// Component in the parent. Of a directory without parent: its path in the root.
    name: PathBuf,
    /// Device and inode.
    pub(crate) id: (u64, u64),
    pub(crate) depth: usize,
    links: Links,
    handle: Mutex<Option<Arc<OwnedFd>>>,
}

/// Place from which a directory is opened again.
#[derive(Debug)]
enum Origin {
    /// None: its handle stays open.
    Open,
    Root(Arc<RootDirectory>),
    Parent(Arc<Directory>),
}

/// Directories with an open handle, the oldest first. All copies share the list, because
/// descriptors are those of the process.
static OPEN: OpenDirectories = OpenDirectories(Mutex::new(VecDeque::new()));

struct OpenDirectories(Mutex<VecDeque<Weak<Directory>>>);

impl Directory {
    /// Wraps the directory where a copy begins. Its handle stays open. `path` is its path in the
    /// root, for links that are followed.
    pub(crate) fn top(handle: OwnedFd, path: PathBuf, links: Links) -> io::Result<Arc<Self>> {
        Self::new(Origin::Open, handle, path, links, 0)
    }

    /// Opens a directory where a copy begins, of which there may be many.
    pub(crate) fn in_root(root: &Arc<RootDirectory>, path: PathBuf, links: Links) -> io::Result<Arc<Self>> {
        let handle = root.open_directory(&path)?;
        Self::new(Origin::Root(Arc::clone(root)), handle, path, links, 0)
    }

    pub(crate) fn open_directory(self: &Arc<Self>, name: &[u8]) -> io::Result<Arc<Self>> {
        let handle = self.open(name, DIRECTORY)?;
        let name = OsStr::from_bytes(name).into();
        Self::new(Origin::Parent(Arc::clone(self)), handle, name, self.links.clone(), self.depth + 1)
    }

    fn new(
        origin: Origin,
        handle: OwnedFd,
        name: PathBuf,
        links: Links,
        depth: usize,
    ) -> io::Result<Arc<Self>> {
        let id = file_id(&fstat(&handle)?);
        let handle = Mutex::new(Some(Arc::new(handle)));
        let new = Arc::new(Self { origin, name, id, depth, links, handle });
        OPEN.add(&new);
        Ok(new)
    }

    /// Opens a name in this directory. Links are followed only where [`Links`] allows it. Other
    /// users cannot read a file that is created.
    pub(crate) fn open(self: &Arc<Self>, name: &[u8], flags: OFlags) -> io::Result<OwnedFd> {
        let flags = match &self.links {
            Links::FollowBeneath(root) => {
                return beneath(root.as_fd(), &self.path().join(OsStr::from_bytes(name)), flags);
            }
            Links::Follow => flags | OFlags::CLOEXEC,
            Links::Keep => flags | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        };
        let handle = self.handle()?;
        with_descriptor(|| Ok(openat(&*handle, name, flags, owner_only())?))
    }

    /// Opens the list of the names in this directory.
    pub(crate) fn list(self: &Arc<Self>) -> io::Result<Dir> {
        let handle = self.handle()?;
        with_descriptor(|| Ok(Dir::read_from(&*handle)?))
    }

    /// Opens a file for reading, without waiting for the writer of a pipe that took the name.
    pub(crate) fn open_file(self: &Arc<Self>, name: &[u8]) -> io::Result<File> {
        Ok(self.open(name, OFlags::RDONLY | OFlags::NONBLOCK)?.into())
    }

    /// Returns the attributes of a name, of a link itself unless links are followed.
    pub(crate) fn stat(self: &Arc<Self>, name: &[u8]) -> io::Result<Stat> {
        match &self.links {
            Links::Keep => self.stat_name(name),
            Links::Follow => Ok(statat(&*self.handle()?, name, AtFlags::empty())?),
            // Opened without waiting for the writer of a pipe.
            Links::FollowBeneath(_) => {
                let stat = self.stat_name(name)?;
                if !is_symlink(&stat) {
                    return Ok(stat);
                }
                Ok(fstat(self.open(name, path_only())?)?)
            }
        }
    }

    /// Returns the attributes of a name, of a link itself.
    pub(crate) fn stat_name(self: &Arc<Self>, name: &[u8]) -> io::Result<Stat> {
        Ok(statat(&*self.handle()?, name, AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Returns the handle, opened again if it was closed.
    pub(crate) fn handle(self: &Arc<Self>) -> io::Result<Arc<OwnedFd>> {
        // Not by recursion, which a deep tree would make too deep.
        let (mut closed, mut directory) = (Vec::new(), self);
        let mut handle = loop {
            if let Some(handle) = &*directory.slot() {
                break Some(Arc::clone(handle));
            }
            closed.push(directory);
            match &directory.origin {
                Origin::Parent(parent) if !matches!(directory.links, Links::FollowBeneath(_)) => {
                    directory = parent;
                }
                _ => break None,
            }
        };
        while let Some(directory) = closed.pop() {
            handle = Some(directory.open_again(handle.as_deref())?);
        }
        handle.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Opens a directory that was closed, from its parent's handle or by its path.
    fn open_again(self: &Arc<Self>, parent: Option<&OwnedFd>) -> io::Result<Arc<OwnedFd>> {
        let handle = match (&self.origin, &self.links) {
            (Origin::Root(root), _) => root.open_directory(&self.name)?,
            (_, Links::FollowBeneath(root)) => beneath(root.as_fd(), &self.path(), DIRECTORY)?,
            (_, links) => {
                let nofollow = if matches!(links, Links::Keep) { OFlags::NOFOLLOW } else { OFlags::empty() };
                let parent = parent.ok_or(io::ErrorKind::NotFound)?;
                with_descriptor(|| Ok(openat(parent, &self.name, DIRECTORY | nofollow, Mode::empty())?))?
            }
        };
        if file_id(&fstat(&handle)?) != self.id {
            return Err(io::Error::other("the directory was replaced while it was copied"));
        }
        let handle = Arc::new(handle);
        *self.slot() = Some(Arc::clone(&handle));
        OPEN.add(self);
        Ok(handle)
    }

    fn slot(&self) -> MutexGuard<'_, Option<Arc<OwnedFd>>> {
        self.handle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn parent(&self) -> Option<&Self> {
        if let Origin::Parent(parent) = &self.origin { Some(parent) } else { None }
    }

    /// Returns the identity of this directory for both sides of a copy.
    pub(crate) fn identity(&self) -> Option<HashBytes> {
        identity(self.id)
    }

    /// Returns true if this directory, or one that contains it, has this identity.
    pub(crate) fn is_within(&self, stat: &Stat) -> bool {
        std::iter::successors(Some(self), |it| it.parent()).any(|it| it.id == file_id(stat))
    }

    fn path(&self) -> PathBuf {
        let names: Vec<_> = std::iter::successors(Some(self), |it| it.parent()).map(|it| &it.name).collect();
        names.into_iter().rev().collect()
    }
}

impl OpenDirectories {
    /// Adds a directory that was opened, and closes the oldest one if there are too many.
    fn add(&self, directory: &Arc<Directory>) {
        if matches!(directory.origin, Origin::Open) {
            return;
        }
        let mut open = self.lock();
        open.push_back(Arc::downgrade(directory));
        let excess = if open.len() > max_open() { open.pop_front() } else { None };
        drop(open);
        // Outside of the lock, because dropping a directory may drop its parents.
        if let Some(oldest) = excess.and_then(|oldest| oldest.upgrade()) {
            oldest.slot().take();
        }
    }

    /// Closes all directories. Returns false if none was open.
    fn close(&self) -> bool {
        let closed = std::mem::take(&mut *self.lock());
        let closed = closed.iter().filter_map(Weak::upgrade).filter_map(|it| it.slot().take());
        closed.count() > 0
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Weak<Directory>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the limit on open directories.
fn max_open() -> usize {
    static LIMIT: OnceLock<usize> = OnceLock::new();
    *LIMIT.get_or_init(|| {
        let descriptors = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let quarter = usize::try_from(descriptors / 4).unwrap_or(usize::MAX);
        quarter.clamp(MIN_OPEN_DIRECTORIES, MAX_OPEN_DIRECTORIES)
    })
}

/// Opens something. If the process has no descriptor left, closes directories, or waits until
/// another thread closes something.
pub(crate) fn with_descriptor<T>(open: impl Fn() -> io::Result<T>) -> io::Result<T> {
    for _ in 0..MAX_ATTEMPTS {
        match open() {
            Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::MFILE | Errno::NFILE)) => {
                if !OPEN.close() {
                    #[expect(clippy::disallowed_methods, reason = "no event tells of a free descriptor")]
                    std::thread::sleep(ATTEMPT_INTERVAL);
                }
            }
            result => return result,
        }
    }
    open()
}

/// Directory where the paths of a request begin.
#[derive(Debug)]
pub(crate) struct RootDirectory {
    /// Path of the directory when it was opened.
    pub(crate) path: PathBuf,
    handle: Arc<OwnedFd>,
    pub(crate) is_confined: bool,
}

impl RootDirectory {
    pub(crate) fn open(root: &Root) -> io::Result<Self> {
        let open = || Ok(rustix::fs::open(&root.directory, DIRECTORY, Mode::empty())?);
        let handle = with_descriptor(open)?;
        Ok(Self { path: root.directory.clone(), handle: Arc::new(handle), is_confined: root.confined })
    }

    /// Opens a directory. Links are followed, inside of the root if it is confined.
    pub(crate) fn open_directory(&self, path: &Path) -> io::Result<OwnedFd> {
        if self.is_confined {
            return beneath(self.handle.as_fd(), path, DIRECTORY);
        }
        let path = if path == Path::new("") { Path::new(".") } else { path };
        with_descriptor(|| Ok(openat(&self.handle, path, DIRECTORY, Mode::empty())?))
    }

    /// Returns how links below a source are treated.
    pub(crate) fn links(&self, follow: bool) -> Links {
        match (follow, self.is_confined) {
            (false, _) => Links::Keep,
            (true, false) => Links::Follow,
            (true, true) => Links::FollowBeneath(Arc::clone(&self.handle)),
        }
    }
}

/// Returns a hash that identifies a directory of this host until the next boot. `None` if the
/// system has no boot ID.
pub(crate) fn identity((device, inode): (u64, u64)) -> Option<HashBytes> {
    static BOOT: OnceLock<Option<String>> = OnceLock::new();
    let boot = BOOT.get_or_init(|| std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok());
    let mut hasher = blake3::Hasher::new_derive_key("rdt-copy 1 directory");
    hasher.update(boot.as_ref()?.as_bytes());
    hasher.update(&device.to_le_bytes()).update(&inode.to_le_bytes());
    Some(hasher.finalize().into())
}

/// Opens a path below a directory. Links and `..` may not lead out of it.
fn beneath(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    with_descriptor(|| confined(root, relative(path), flags))
}

#[cfg(target_os = "linux")]
fn confined(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    use rustix::fs::{ResolveFlags, openat2};

    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    loop {
        return match openat2(root, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
            // The kernel asks for another attempt when a directory was renamed meanwhile.
            Err(Errno::AGAIN) => continue,
            Err(Errno::XDEV) => {
                let text = "the path leads out of the directory that is served";
                Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
            }
            Err(Errno::NOSYS) => by_components(root, path, flags),
            result => Ok(result?),
        };
    }
}

#[cfg(not(target_os = "linux"))]
fn confined(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    by_components(root, path, flags)
}

/// Opens one component after the other, without any links: for systems that cannot confine them.
fn by_components(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    use std::path::Component;

    let mut handle = openat(root, ".", DIRECTORY, Mode::empty())?;
    let mut rest = path.components().filter(|component| *component != Component::CurDir).peekable();
    if rest.peek().is_none() {
        return Ok(openat(&handle, ".", flags | OFlags::CLOEXEC, Mode::empty())?);
    }
    while let Some(component) = rest.next() {
        let Component::Normal(name) = component else {
            return Err(io::ErrorKind::PermissionDenied.into());
        };
        let step = if rest.peek().is_some() { DIRECTORY } else { flags | OFlags::CLOEXEC };
        handle = openat(&handle, name, step | OFlags::NOFOLLOW, Mode::empty())?;
    }
    Ok(handle)
}

/// Returns the path as one of the root: a leading `/` is the root itself.
fn relative(path: &Path) -> &Path {
    let bytes = path.as_os_str().as_bytes();
    let start = bytes.iter().position(|byte| *byte != b'/').unwrap_or(bytes.len());
    let rest = &bytes[start..];
    Path::new(OsStr::from_bytes(if rest.is_empty() { b"." } else { rest }))
}

/// Flags to open a name of any kind for its attributes alone.
fn path_only() -> OFlags {
    #[cfg(target_os = "linux")]
    return OFlags::PATH;
    #[cfg(not(target_os = "linux"))]
    OFlags::RDONLY.union(OFlags::NONBLOCK)
}

/// Mode of files in progress. Other users may read a file only when it has its own mode.
pub(crate) fn owner_only() -> Mode {
    Mode::RUSR | Mode::WUSR
}

pub(crate) fn is_symlink(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Symlink
}

/// Returns true for a regular file of this size.
pub(crate) fn is_file_of(stat: &Stat, size: u64) -> bool {
    let is_regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    is_regular && u64::try_from(stat.st_size) == Ok(size)
}

/// Returns what this is if it is neither file, directory nor symbolic link. Such a name leads to
/// something beyond the file system, which no copy may replace.
pub(crate) fn special_kind(stat: &Stat) -> Option<&'static str> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile | FileType::Directory | FileType::Symlink => None,
        FileType::Fifo => Some("a named pipe"),
        FileType::Socket => Some("a socket"),
        _ => Some("a device"),
    }
}

pub(crate) fn mode_of(stat: &Stat) -> Mode {
    Mode::from_raw_mode(stat.st_mode & 0o7777)
}

/// Returns the time of the last write: seconds since 1970, and nanoseconds.
#[allow(clippy::unnecessary_cast, reason = "systems have different types")]
pub(crate) fn mtime(stat: &Stat) -> (i64, u32) {
    (stat.st_mtime as i64, u32::try_from(stat.st_mtime_nsec).unwrap_or(0))
}

#[allow(clippy::useless_conversion, reason = "systems have different types")]
pub(crate) fn inode(stat: &Stat) -> u64 {
    stat.st_ino.into()
}

/// Returns device and inode.
#[allow(clippy::unnecessary_cast, clippy::cast_sign_loss, reason = "systems have different types")]
pub(crate) fn file_id(stat: &Stat) -> (u64, u64) {
    (stat.st_dev as u64, inode(stat))
}
