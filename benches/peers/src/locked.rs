//! Versions of the crates in `Cargo.lock`.

use anyhow::{Context as _, Result};

/// Returns the version of a crate in `Cargo.lock`.
pub(crate) fn version(name: &str) -> Result<String> {
    let head = format!("name = \"{name}\"\nversion = \"");
    let (_, rest) = include_str!("../Cargo.lock").split_once(&head).context("not in Cargo.lock")?;
    Ok(rest.split('"').next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    #[test]
    fn finds_versions_of_libraries() {
        for name in ["quinn", "s2n-quic", "tokio", "tokio_kcp", "crc32fast", "crc"] {
            assert!(super::version(name).unwrap().starts_with(|c: char| c.is_ascii_digit()));
        }
    }
}
