//! Value of `--internet`.

/// NAT program of `--internet`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Internet {
    /// The first one that is installed.
    Auto,
    Slirp4netns,
    Pasta,
}
