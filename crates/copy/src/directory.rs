//! Handles of directories. A directory is reached from its parent's handle by one component, never
//! by a path, so that a directory that is replaced while the copy runs leads nowhere else.
//!
//! Handles are closed when too many are open, and opened again when needed. A directory that is
//! opened again must be the same one.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fstat, openat, statat};

use crate::Root;
use crate::protocol::HashBytes;

/// Limit on handles of directories that are kept open.
const MAX_OPEN_DIRECTORIES: usize = 128;
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
    parent: Option<Arc<Self>>,
    /// Component in the parent. Of a directory without parent: its path in the root.
    name: PathBuf,
    /// Device and inode.
    pub(crate) id: (u64, u64),
    pub(crate) depth: usize,
    links: Links,
    cache: Arc<Cache>,
    handle: Mutex<Option<Arc<OwnedFd>>>,
}

/// Directories with an open handle, the oldest first.
#[derive(Debug, Default)]
struct Cache(Mutex<VecDeque<Weak<Directory>>>);

impl Directory {
    /// Wraps the directory where a copy begins. Its handle stays open. `path` is its path in the
    /// root, for links that are followed.
    pub(crate) fn top(handle: OwnedFd, path: PathBuf, links: Links) -> io::Result<Arc<Self>> {
        let stat = fstat(&handle)?;
        Ok(Arc::new(Self {
            parent: None,
            name: path,
            id: file_id(&stat),
            depth: 0,
            links,
            cache: Arc::default(),
            handle: Mutex::new(Some(Arc::new(handle))),
        }))
    }

    pub(crate) fn open_directory(self: &Arc<Self>, name: &[u8]) -> io::Result<Arc<Self>> {
        let handle = self.open(name, DIRECTORY)?;
        let stat = fstat(&handle)?;
        let child = Arc::new(Self {
            parent: Some(Arc::clone(self)),
            name: OsStr::from_bytes(name).into(),
            id: file_id(&stat),
            depth: self.depth + 1,
            links: self.links.clone(),
            cache: Arc::clone(&self.cache),
            handle: Mutex::new(Some(Arc::new(handle))),
        });
        self.cache.opened(&child);
        Ok(child)
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
        Ok(openat(&*self.handle()?, name, flags, owner_only())?)
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
        let mut slot = self.handle.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(handle) = &*slot {
            return Ok(Arc::clone(handle));
        }
        let Some(parent) = &self.parent else { return Err(io::ErrorKind::NotFound.into()) };
        let handle = Arc::new(parent.open(self.name.as_os_str().as_bytes(), DIRECTORY)?);
        if file_id(&fstat(&handle)?) != self.id {
            return Err(io::Error::other("the directory was replaced while it was copied"));
        }
        *slot = Some(Arc::clone(&handle));
        drop(slot);
        self.cache.opened(self);
        Ok(handle)
    }

    /// Returns the identity of this directory for both sides of a copy.
    pub(crate) fn identity(&self) -> Option<HashBytes> {
        identity(self.id)
    }

    /// Returns true if this directory, or one that contains it, has this identity.
    pub(crate) fn is_within(&self, stat: &Stat) -> bool {
        std::iter::successors(Some(self), |it| it.parent.as_deref()).any(|it| it.id == file_id(stat))
    }

    fn path(&self) -> PathBuf {
        match &self.parent {
            Some(parent) => parent.path().join(&self.name),
            None => self.name.clone(),
        }
    }

    fn close(&self) {
        // Skipped while another thread opens it, because that thread needs the handle.
        if let Ok(mut slot) = self.handle.try_lock() {
            *slot = None;
        }
    }
}

impl Cache {
    fn opened(&self, directory: &Arc<Directory>) {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.push_back(Arc::downgrade(directory));
        let excess = if open.len() > MAX_OPEN_DIRECTORIES { open.pop_front() } else { None };
        drop(open);
        // Outside of the lock, because dropping a directory may drop its parents.
        if let Some(oldest) = excess.and_then(|oldest| oldest.upgrade()) {
            oldest.close();
        }
    }
}

/// Directory where the paths of a request begin.
#[derive(Debug)]
pub(crate) struct RootDirectory {
    /// Path of the directory when it was opened.
    pub(crate) path: PathBuf,
    handle: Arc<OwnedFd>,
    is_confined: bool,
}

impl RootDirectory {
    pub(crate) fn open(root: &Root) -> io::Result<Self> {
        let handle = rustix::fs::open(&root.directory, DIRECTORY, Mode::empty())?;
        Ok(Self { path: root.directory.clone(), handle: Arc::new(handle), is_confined: root.confined })
    }

    /// Opens a directory. Links are followed, inside of the root if it is confined.
    pub(crate) fn open_directory(&self, path: &Path) -> io::Result<OwnedFd> {
        if self.is_confined {
            return beneath(self.handle.as_fd(), path, DIRECTORY);
        }
        let path = if path == Path::new("") { Path::new(".") } else { path };
        Ok(openat(&self.handle, path, DIRECTORY, Mode::empty())?)
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
#[cfg(target_os = "linux")]
fn beneath(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    use rustix::fs::{ResolveFlags, openat2};
    use rustix::io::Errno;

    let path = relative(path);
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
fn beneath(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    by_components(root, relative(path), flags)
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
