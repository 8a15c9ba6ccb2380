//! The versions of the crates that a program was built with.

use anyhow::{Context as _, Result};

/// The version of a crate, as `Cargo.lock` has it.
pub(crate) fn version(name: &str) -> Result<String> {
    let head = format!("name = \"{name}\"\nversion = \"");
    let (_, rest) = include_str!("../Cargo.lock").split_once(&head).context("not in Cargo.lock")?;
    Ok(rest.split('"').next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    #[test]
    fn finds_the_versions_of_the_libraries() {
        for name in ["quinn", "s2n-quic", "tokio", "tokio_kcp", "crc32fast", "crc"] {
            assert!(super::version(name).unwrap().starts_with(|c: char| c.is_ascii_digit()));
        }
    }
}
