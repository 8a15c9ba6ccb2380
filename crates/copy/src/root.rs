//! Part of the file system that a server offers to its peer.

use std::io;
use std::path::{Path, PathBuf};

/// Part of the file system that a server offers.
#[derive(Debug, Clone)]
#[cfg_attr(not(unix), expect(dead_code, reason = "sessions need Unix"))]
pub struct Root {
    pub(crate) directory: PathBuf,
    /// True: nothing outside of `directory` can be named or reached.
    pub(crate) confined: bool,
    pub(crate) permission: Permission,
}

/// What a peer may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Permission {
    /// Pull and push.
    #[default]
    ReadWrite,
    /// Pull alone.
    ReadOnly,
    /// Push alone.
    WriteOnly,
}

impl Root {
    /// Offers all that the user of this process may access. Relative paths begin at the current
    /// directory.
    pub fn whole() -> io::Result<Self> {
        let directory = std::env::current_dir()?;
        Ok(Self { directory, confined: false, permission: Permission::ReadWrite })
    }

    /// Offers one directory. Its contents can be reached, also by links that stay inside, and
    /// nothing else.
    pub fn confined(directory: &Path, permission: Permission) -> io::Result<Self> {
        let directory = directory.canonicalize()?;
        if !directory.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(Self { directory, confined: true, permission })
    }
}
