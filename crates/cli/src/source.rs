//! Sources of the bytes that a sender sends: generated data, files, pipes.

use std::fs::File;
use std::io::{self, IoSliceMut, Read};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread;

use rdt_endpoint::files::CheckedFile;
use rdt_sim::payload;
use rdt_transport::{Connection, Sender, Spare};
use rdt_udp::Waker;

/// Size of a chunk read from a pipe, bytes, and limit on the chunks read ahead.
const PIPE_CHUNK: usize = 256 * 1024;
const PIPE_AHEAD: usize = 4;

/// Buffers filled by one vectored read: more than the packets of 1500 bytes in a frame.
const PIECES: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fill {
    /// Number of bytes read, at least 1.
    Bytes(usize),
    /// No bytes are available now; the source uses its waker when some are.
    Pending,
    End,
}

/// Stream of bytes whose reads do not block.
pub(crate) trait Source: Send {
    /// Reads the next bytes into `out`, which is not empty.
    fn read(&mut self, out: &mut [u8]) -> io::Result<Fill>;

    fn read_into(&mut self, out: Spare<'_>) -> io::Result<Fill> {
        let mut total = 0;
        for piece in out {
            // If bytes were read, the end or a pause is returned by the next call.
            match self.read(piece)? {
                Fill::Bytes(n) => {
                    total += n;
                    if n < piece.len() {
                        break;
                    }
                }
                rest if total == 0 => return Ok(rest),
                Fill::Pending | Fill::End => break,
            }
        }
        Ok(Fill::Bytes(total))
    }
}

pub(crate) enum Sink<'a> {
    Sender(&'a mut Sender),
    Connection(&'a mut Connection),
}

impl Sink<'_> {
    /// Returns room for the next bytes: none while enough is buffered, or before it is open.
    fn room(&mut self) -> Spare<'_> {
        match self {
            Self::Sender(sender) => sender.spare().unwrap_or_default(),
            Self::Connection(connection) => connection.spare().unwrap_or_default(),
        }
    }

    fn advance(&mut self, n: usize) {
        match self {
            Self::Sender(sender) => sender.advance(n),
            Self::Connection(connection) => connection.advance(n),
        }
    }

    /// Allows the bytes so far to be sent in a packet that is not full.
    fn push(&mut self) {
        match self {
            Self::Sender(sender) => sender.push(),
            Self::Connection(connection) => connection.push(),
        }
    }

    fn finish(&mut self) {
        match self {
            // Fails only before the sender is open, when there is no room.
            Self::Sender(sender) => drop(sender.finish()),
            Self::Connection(connection) => connection.finish(),
        }
    }
}

/// Reads from `source` what fits. At its end, ends the stream and sets `source` to `None`.
pub(crate) fn fill(source: &mut Option<Box<dyn Source>>, mut sink: Sink<'_>) -> io::Result<()> {
    while let Some(input) = source {
        let room = sink.room();
        if room.is_empty() {
            break;
        }
        match input.read_into(room)? {
            Fill::Bytes(n) => sink.advance(n),
            Fill::Pending => {
                sink.push();
                break;
            }
            Fill::End => {
                *source = None;
                sink.finish();
            }
        }
    }
    Ok(())
}

/// Generated data: the payload of the reference programs, consecutive 32-bit numbers.
#[derive(Debug)]
pub(crate) struct DwordArray {
    offset: u64,
    bytes: u64,
}

impl DwordArray {
    pub(crate) fn new(bytes: u64) -> Self {
        Self { offset: 0, bytes }
    }
}

impl Source for DwordArray {
    fn read(&mut self, out: &mut [u8]) -> io::Result<Fill> {
        let rest = usize::try_from(self.bytes - self.offset).unwrap_or(usize::MAX);
        let n = out.len().min(rest);
        if n == 0 {
            return Ok(Fill::End);
        }
        payload::fill(self.offset, &mut out[..n]);
        self.offset += n as u64;
        Ok(Fill::Bytes(n))
    }
}

/// Opens a file as a source. Regular files are read directly, and reading fails if they are cut or
/// written to meanwhile. Pipes and devices are read by a thread of their own, because reading them
/// may block.
pub(crate) fn file_source(file: File, waker: Waker) -> io::Result<Box<dyn Source>> {
    if file.metadata()?.is_file() {
        Ok(Box::new(CheckedFile::new(file)?))
    } else {
        Ok(Box::new(Piped::new(file, waker)))
    }
}

impl Source for CheckedFile {
    fn read(&mut self, out: &mut [u8]) -> io::Result<Fill> {
        retried(|| Read::read(self, out))
    }

    /// Fills many packets with one vectored read.
    fn read_into(&mut self, mut out: Spare<'_>) -> io::Result<Fill> {
        let mut pieces: [_; PIECES] =
            std::array::from_fn(|_| IoSliceMut::new(out.next().unwrap_or_default()));
        retried(|| self.read_vectored(&mut pieces))
    }
}

fn retried(mut read: impl FnMut() -> io::Result<usize>) -> io::Result<Fill> {
    loop {
        match read() {
            Ok(0) => return Ok(Fill::End),
            Ok(n) => return Ok(Fill::Bytes(n)),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

/// Blocking input that a thread of its own reads ahead, at most 1.25 MiB.
pub(crate) struct Piped {
    chunks: Receiver<io::Result<Vec<u8>>>,
    chunk: Vec<u8>,
    read: usize,
    ended: bool,
}

impl Piped {
    /// Starts the thread. It ends with the input, or one chunk after this source was dropped.
    pub(crate) fn new(mut input: impl Read + Send + 'static, waker: Waker) -> Self {
        let (send, chunks) = sync_channel(PIPE_AHEAD);
        thread::spawn(move || {
            loop {
                let mut chunk = vec![0; PIPE_CHUNK];
                let result = match input.read(&mut chunk) {
                    Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                    result => result.map(|n| {
                        chunk.truncate(n);
                        chunk
                    }),
                };
                let last = result.as_ref().map_or(true, Vec::is_empty);
                if send.send(result).is_err() {
                    return;
                }
                waker.wake();
                if last {
                    return;
                }
            }
        });
        Self { chunks, chunk: Vec::new(), read: 0, ended: false }
    }
}

impl Source for Piped {
    fn read(&mut self, out: &mut [u8]) -> io::Result<Fill> {
        if self.read == self.chunk.len() && !self.ended {
            match self.chunks.try_recv() {
                Ok(chunk) => {
                    self.chunk = chunk?;
                    self.read = 0;
                    self.ended = self.chunk.is_empty();
                }
                Err(TryRecvError::Empty) => return Ok(Fill::Pending),
                Err(TryRecvError::Disconnected) => self.ended = true,
            }
        }
        let rest = &self.chunk[self.read..];
        let n = rest.len().min(out.len());
        if n == 0 {
            return Ok(Fill::End);
        }
        out[..n].copy_from_slice(&rest[..n]);
        self.read += n;
        Ok(Fill::Bytes(n))
    }
}
