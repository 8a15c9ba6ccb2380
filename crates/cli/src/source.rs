//! Sources of the bytes that a sender sends: generated data, files, pipes.

use std::fs::File;
use std::io::{self, IoSliceMut, Read};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::thread;
use std::time::SystemTime;

use rdt_sim::payload;
use rdt_transport::{Connection, Sender, Spare};
use rdt_udp::Waker;

/// Size of a chunk read from a pipe, bytes, and limit on the chunks read ahead.
const PIPE_CHUNK: usize = 256 * 1024;
const PIPE_AHEAD: usize = 4;

/// Limit on the buffers filled by one vectored read: more than the packets of 1500 bytes in a
/// frame.
const PIECES: usize = 64;

/// Interval between two comparisons of a file with its state at the start, bytes read. A transfer
/// of a changed file fails at the next comparison and not only at the end of the file.
const CHECK_INTERVAL_BYTES: usize = 64 << 20;

/// Result of [`Source::read`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fill {
    /// Number of bytes read, at least 1.
    Bytes(usize),
    /// No bytes are available now; the source uses its waker when some are.
    Pending,
    /// End of the stream.
    End,
}

/// Stream of bytes whose reads do not block.
pub(crate) trait Source: Send {
    /// Reads the next bytes into `out`, which is not empty.
    fn read(&mut self, out: &mut [u8]) -> io::Result<Fill>;

    /// Reads into the free memory of a sender.
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

/// Stream that a source fills.
pub(crate) enum Sink<'a> {
    /// Stream of a transfer that is not encrypted.
    Sender(&'a mut Sender),
    /// Own stream of an encrypted connection.
    Connection(&'a mut Connection),
}

impl Sink<'_> {
    /// Returns room for the next bytes; empty while enough is buffered, and of a stream that is not
    /// open.
    fn room(&mut self) -> Spare<'_> {
        match self {
            Self::Sender(sender) => sender.spare().unwrap_or_default(),
            Self::Connection(connection) => connection.spare().unwrap_or_default(),
        }
    }

    /// Appends the first `n` bytes of [`Sink::room`].
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

    /// Ends the stream.
    fn finish(&mut self) {
        match self {
            // Fails only before the sender is open, when there is no room.
            Self::Sender(sender) => drop(sender.finish()),
            Self::Connection(connection) => connection.finish(),
        }
    }
}

/// Reads from `source` into an open stream, as many bytes as are available and fit. At the end of
/// the source, ends the stream and sets `source` to `None`.
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

/// Source of generated data: the first bytes of the payload of the reference programs, consecutive
/// 32-bit numbers.
#[derive(Debug)]
pub(crate) struct DwordArray {
    offset: u64,
    bytes: u64,
}

impl DwordArray {
    /// Creates a source of the first `bytes` bytes.
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

impl Source for File {
    fn read(&mut self, out: &mut [u8]) -> io::Result<Fill> {
        loop {
            match Read::read(self, out) {
                Ok(0) => return Ok(Fill::End),
                Ok(n) => return Ok(Fill::Bytes(n)),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Fills many packets with one vectored read.
    fn read_into(&mut self, mut out: Spare<'_>) -> io::Result<Fill> {
        let mut pieces: [_; PIECES] =
            std::array::from_fn(|_| IoSliceMut::new(out.next().unwrap_or_default()));
        loop {
            match self.read_vectored(&mut pieces) {
                Ok(0) => return Ok(Fill::End),
                Ok(n) => return Ok(Fill::Bytes(n)),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
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

/// Regular file that must not be written to while it is read, because the bytes read would be a
/// mixture of old and new contents. If it was, reading fails instead of returning the end.
struct CheckedFile {
    file: File,
    before: FileState,
    /// Bytes read since the last comparison.
    unchecked: usize,
}

/// Properties of a file that change with its contents. The change time is none of them, because it
/// also changes when a file is renamed, removed or replaced by a new one, after which an open file
/// has its old contents.
#[derive(PartialEq, Eq)]
struct FileState {
    length: u64,
    /// `None` where the system has no such time.
    modified: Option<SystemTime>,
}

impl FileState {
    fn of(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        Ok(Self { length: metadata.len(), modified: metadata.modified().ok() })
    }
}

impl CheckedFile {
    fn new(file: File) -> io::Result<Self> {
        Ok(Self { before: FileState::of(&file)?, file, unchecked: 0 })
    }

    /// Compares the file with its state at the start if it is time to. `fill` is the result of the
    /// last read.
    fn check(&mut self, fill: Fill) -> io::Result<Fill> {
        if let Fill::Bytes(n) = fill {
            self.unchecked += n;
        }
        if fill == Fill::End || self.unchecked >= CHECK_INTERVAL_BYTES {
            self.unchecked = 0;
            if FileState::of(&self.file)? != self.before {
                return Err(io::Error::other("it changed while it was sent"));
            }
        }
        Ok(fill)
    }
}

impl Source for CheckedFile {
    fn read(&mut self, out: &mut [u8]) -> io::Result<Fill> {
        let fill = Source::read(&mut self.file, out)?;
        self.check(fill)
    }

    fn read_into(&mut self, out: Spare<'_>) -> io::Result<Fill> {
        let fill = self.file.read_into(out)?;
        self.check(fill)
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
    /// Starts the thread. It ends at the end of the input, or when it has read another chunk after
    /// this source was dropped.
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;

    use super::*;

    /// Reads a file of `length` bytes and writes to it after the first MiB. Returns the number of
    /// bytes read before the error.
    fn read_before_error(length: usize) -> usize {
        let path = std::env::temp_dir().join(format!("rdt-source-{}-{length}", std::process::id()));
        fs::write(&path, vec![1; length]).unwrap();
        // A file that was just written may get the same time again.
        let file = File::options().read(true).write(true).open(&path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        let mut source = CheckedFile::new(file).unwrap();
        let mut out = vec![0; 1 << 20];
        assert_eq!(source.read(&mut out).unwrap(), Fill::Bytes(out.len()));
        File::options().write(true).open(&path).unwrap().write_all(b"new").unwrap();
        // An open file outlives its name.
        fs::remove_file(&path).unwrap();
        let mut total = out.len();
        loop {
            match source.read(&mut out) {
                Ok(Fill::Bytes(n)) => total += n,
                Ok(fill) => panic!("{fill:?} of a changed file"),
                Err(error) => {
                    assert_eq!(error.to_string(), "it changed while it was sent");
                    return total;
                }
            }
        }
    }

    #[test]
    fn changed_file_fails_at_end_or_next_check() {
        assert_eq!(read_before_error(3 << 20), 3 << 20);
        assert_eq!(read_before_error(CHECK_INTERVAL_BYTES + (3 << 20)), CHECK_INTERVAL_BYTES - (1 << 20));
    }

    #[test]
    fn removed_file_is_read_to_its_end() {
        let path = std::env::temp_dir().join(format!("rdt-source-{}", std::process::id()));
        fs::write(&path, b"old").unwrap();
        let mut source = CheckedFile::new(File::open(&path).unwrap()).unwrap();
        fs::rename(&path, path.with_extension("renamed")).unwrap();
        fs::remove_file(path.with_extension("renamed")).unwrap();
        let mut out = [0; 8];
        assert_eq!(source.read(&mut out).unwrap(), Fill::Bytes(3));
        assert_eq!(source.read(&mut out).unwrap(), Fill::End);
    }
}
