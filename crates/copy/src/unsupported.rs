//! Sessions on systems without Unix file descriptors, where nothing can be copied yet.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::{CopyError, Observer, Request, Root, Summary};

/// Stream that carries a copy.
pub trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> ByteStream for S {}

/// Fails on this system.
pub async fn push(_: impl ByteStream, _: Request, _: Arc<dyn Observer>) -> Result<Summary, CopyError> {
    unsupported()
}

/// Fails on this system.
pub async fn pull(_: impl ByteStream, _: Request, _: Arc<dyn Observer>) -> Result<Summary, CopyError> {
    unsupported()
}

pub(crate) use pull as pull_unconfirmed;

/// Fails on this system.
pub async fn serve(_: impl ByteStream, _: Root, _: Arc<dyn Observer>) -> Result<Summary, CopyError> {
    unsupported()
}

fn unsupported() -> Result<Summary, CopyError> {
    Err(CopyError::Request("rdt-copy runs on Linux, macOS and other Unix systems alone".into()))
}
