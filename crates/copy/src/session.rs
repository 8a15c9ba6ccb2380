//! Sessions: one copy over one stream.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::{CopyError, Observer, Request, Root, Summary};

/// Stream that carries a copy: `rdt_endpoint::tokio::Stream`, or anything like it.
pub trait ByteStream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> ByteStream for S {}

/// Copies from this host to the peer, which calls [`serve`].
pub async fn push(
    stream: impl ByteStream,
    request: Request,
    observer: Arc<dyn Observer>,
) -> Result<Summary, CopyError> {
    let _ = (stream, request, observer);
    Err(CopyError::Request("not built yet".into()))
}

/// Copies from the peer, which calls [`serve`], to this host.
pub async fn pull(
    stream: impl ByteStream,
    request: Request,
    observer: Arc<dyn Observer>,
) -> Result<Summary, CopyError> {
    let _ = (stream, request, observer);
    Err(CopyError::Request("not built yet".into()))
}

/// Answers one request of the peer within `root`.
pub async fn serve(
    stream: impl ByteStream,
    root: Root,
    observer: Arc<dyn Observer>,
) -> Result<Summary, CopyError> {
    let _ = (stream, root, observer);
    Err(CopyError::Request("not built yet".into()))
}
