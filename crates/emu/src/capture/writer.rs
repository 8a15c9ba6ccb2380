//! Thread that writes a capture to its file.
//!
//! Owns the file. If a write fails, truncates the file to its last complete block.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::thread::{self, JoinHandle};

use super::block;

/// Size at which a chunk is queued for writing, bytes.
pub(super) const CHUNK_BYTES: usize = 64 << 10;
/// Limit on the chunks that wait for the disk: 32 MiB.
const MAX_QUEUED_CHUNKS: usize = 512;

/// Blocks that are written with one call.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    pub(super) bytes: Vec<u8>,
    pub(super) packets: u64,
}

pub(super) struct Writer {
    to_thread: SyncSender<Chunk>,
    used: Receiver<Vec<u8>>,
    thread: JoinHandle<Written>,
}

#[derive(Debug, Default)]
pub(super) struct Written {
    pub(super) packets: u64,
    pub(super) error: Option<io::Error>,
}

impl Writer {
    pub(super) fn start(path: &Path, file: File) -> Self {
        let (to_thread, chunks) = sync_channel(MAX_QUEUED_CHUNKS);
        let (give_back, used) = channel();
        let path = path.to_owned();
        let thread = thread::spawn(move || write(file, &path, chunks, &give_back));
        Self { to_thread, used, thread }
    }

    /// Queues the chunk for writing, and empties it. Drops its contents if the queue is full or
    /// writing has ended.
    pub(super) fn write(&self, chunk: &mut Chunk) {
        let next = Chunk { bytes: self.used.try_recv().unwrap_or_default(), packets: 0 };
        let full = std::mem::replace(chunk, next);
        if let Err(TrySendError::Full(lost) | TrySendError::Disconnected(lost)) =
            self.to_thread.try_send(full)
        {
            chunk.bytes = lost.bytes;
            chunk.bytes.clear();
        }
    }

    pub(super) fn finish(self) -> Written {
        drop(self.to_thread);
        let ended = || Written { packets: 0, error: Some(io::Error::other("its thread panicked")) };
        self.thread.join().unwrap_or_else(|_| ended())
    }
}

fn write(mut file: File, path: &Path, chunks: Receiver<Chunk>, used: &Sender<Vec<u8>>) -> Written {
    let mut written = Written::default();
    let mut len = 0;
    for Chunk { mut bytes, packets } in chunks {
        if let Err((error, part)) = put(&mut file, &bytes) {
            let (whole, packets) = block::whole(&bytes[..part]);
            written.error = Some(error);
            written.packets += packets;
            let len = (written.packets > 0).then_some(len + whole as u64);
            cut(&file, path, len);
            break;
        }
        len += bytes.len() as u64;
        written.packets += packets;
        bytes.clear();
        // Fails only at the end, when the relay no longer reuses buffers.
        let _ = used.send(bytes);
    }
    written
}

/// Writes all bytes. An error comes with the number of bytes written before it.
fn put(file: &mut File, bytes: &[u8]) -> Result<(), (io::Error, usize)> {
    let mut part = 0;
    while part < bytes.len() {
        match file.write(&bytes[part..]) {
            Ok(0) => return Err((io::ErrorKind::WriteZero.into(), part)),
            Ok(more) => part += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err((error, part)),
        }
    }
    Ok(())
}

/// Truncates the file to `len`, or removes it if `len` is `None`.
fn cut(file: &File, path: &Path, len: Option<u64>) {
    // Only a regular file can be truncated.
    if !file.metadata().is_ok_and(|data| data.is_file()) {
        return;
    }
    let result = len.map_or_else(|| std::fs::remove_file(path), |len| file.set_len(len));
    if let Err(error) = result {
        tracing::warn!(%error, path = %PathBuf::from(path).display(), "cannot remove the incomplete block");
    }
}
