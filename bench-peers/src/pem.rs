//! Certificates for libraries of C, which read them from files.

use std::fs;
use std::path::PathBuf;

use anyhow::Result;
use tempfile::TempDir;

/// A certificate of its own name's, in a directory that goes with it.
pub(crate) struct Pem {
    directory: TempDir,
    text: String,
}

impl Pem {
    /// A new one with its key, for "localhost".
    pub(crate) fn make() -> Result<Self> {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
        let pem = Self::write(&made.cert.pem())?;
        fs::write(pem.key(), made.signing_key.serialize_pem())?;
        Ok(pem)
    }

    /// One that the receiver told of.
    pub(crate) fn write(text: &str) -> Result<Self> {
        let pem = Self { directory: TempDir::new()?, text: text.to_owned() };
        fs::write(pem.certificate(), text)?;
        Ok(pem)
    }

    /// What is in its file.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// The certificate's file.
    pub(crate) fn certificate(&self) -> PathBuf {
        self.directory.path().join("certificate.pem")
    }

    /// The key's file, of one that was made here.
    pub(crate) fn key(&self) -> PathBuf {
        self.directory.path().join("key.pem")
    }
}
