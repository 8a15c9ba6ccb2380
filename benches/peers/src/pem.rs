//! Certificates as files, for C libraries.

use std::fs;
use std::path::PathBuf;

use anyhow::Result;
use tempfile::TempDir;

/// Self-signed certificate in a temporary directory.
pub(crate) struct Pem {
    directory: TempDir,
    text: String,
}

impl Pem {
    /// Creates a certificate for "localhost", and its key.
    pub(crate) fn make() -> Result<Self> {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
        let pem = Self::write(&made.cert.pem())?;
        fs::write(pem.key(), made.signing_key.serialize_pem())?;
        Ok(pem)
    }

    /// Writes the certificate of the receiver.
    pub(crate) fn write(text: &str) -> Result<Self> {
        let pem = Self { directory: TempDir::new()?, text: text.to_owned() };
        fs::write(pem.certificate(), text)?;
        Ok(pem)
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn certificate(&self) -> PathBuf {
        self.directory.path().join("certificate.pem")
    }

    /// Returns the path of the key file, which exists if [`Pem::make`] created it.
    pub(crate) fn key(&self) -> PathBuf {
        self.directory.path().join("key.pem")
    }
}
