//! Frames on the stream: writing into batches, reading from the peer. The module documentation of
//! `protocol` has the bytes.

use std::io;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};

use crate::CopyError;
use crate::compression::Decompressor;
use crate::protocol::{Answer, HashBytes, MAX_CONTROL_BYTES, MAX_DATA_BYTES, VERSION};

const CONTROL: u8 = 1;
const DATA: u8 = 2;
const COMPRESSED: u8 = 3;
/// Bytes of kind and length.
const HEADER_BYTES: usize = 5;
/// Bytes of id and offset in a data frame.
const DATA_PREFIX_BYTES: usize = 16;
/// Bytes of a data frame before those of the file.
const DATA_HEADER_BYTES: usize = HEADER_BYTES + DATA_PREFIX_BYTES;
/// Room of a batch, bytes: one data frame of the largest size and the messages around it.
pub(crate) const BATCH_BYTES: usize = MAX_DATA_BYTES + (32 << 10);
/// Bytes of the length before compressed frames.
const LENGTH_BYTES: usize = 4;
/// Room for a batch of the largest size that compression makes larger.
const COMPRESSED_BYTES: usize = BATCH_BYTES + (8 << 10);
/// Input buffer, bytes. Larger data is read past it.
const INPUT_BYTES: usize = 128 << 10;

/// Frames that leave with one write. The memory stays initialised, so that file reads go into it.
#[derive(Debug)]
pub(crate) struct Batch {
    bytes: Box<[u8]>,
    used: usize,
}

impl Batch {
    pub(crate) fn new() -> Self {
        let bytes = HEADER_BYTES + LENGTH_BYTES + COMPRESSED_BYTES;
        Self { bytes: vec![0; bytes].into_boxed_slice(), used: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.used == 0
    }

    pub(crate) fn clear(&mut self) {
        self.used = 0;
    }

    pub(crate) fn len(&self) -> usize {
        self.used
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.used]
    }

    /// Adds a message. Returns false if there is no room for it.
    pub(crate) fn put_control(&mut self, message: &impl Serialize) -> bool {
        let start = self.used + HEADER_BYTES;
        let Some(room) = self.bytes[..BATCH_BYTES].get_mut(start..) else { return false };
        let Ok(written) = postcard::to_slice(message, room) else { return false };
        let length = written.len();
        self.bytes[self.used..start].copy_from_slice(&header(CONTROL, length));
        self.used = start + length;
        true
    }

    /// Returns the number of file bytes for which a data frame has room.
    pub(crate) fn data_room(&self) -> usize {
        (BATCH_BYTES - self.used).saturating_sub(DATA_HEADER_BYTES).min(MAX_DATA_BYTES)
    }

    /// Adds a data frame of `length` bytes, at most [`Self::data_room`], which `read` provides.
    pub(crate) fn put_data<E>(
        &mut self,
        id: u64,
        offset: u64,
        length: usize,
        read: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<&[u8], E> {
        let start = self.used + DATA_HEADER_BYTES;
        let bytes = &mut self.bytes[self.used..start + length];
        bytes[..HEADER_BYTES].copy_from_slice(&header(DATA, DATA_PREFIX_BYTES + length));
        bytes[5..13].copy_from_slice(&id.to_le_bytes());
        bytes[13..21].copy_from_slice(&offset.to_le_bytes());
        read(&mut bytes[DATA_HEADER_BYTES..])?;
        self.used = start + length;
        Ok(&self.bytes[start..self.used])
    }
}

impl Batch {
    /// Fills an empty batch with frames of `plain` bytes, which `compress` puts into its room.
    pub(crate) fn put_compressed<E>(
        &mut self,
        plain: usize,
        compress: impl FnOnce(&mut [u8]) -> Result<usize, E>,
    ) -> Result<(), E> {
        let (head, room) = self.bytes.split_at_mut(HEADER_BYTES + LENGTH_BYTES);
        let length = compress(room)?;
        head[..HEADER_BYTES].copy_from_slice(&header(COMPRESSED, LENGTH_BYTES + length));
        let [.., a, b, c, d] = (plain as u64).to_be_bytes();
        head[HEADER_BYTES..].copy_from_slice(&[d, c, b, a]);
        self.used = HEADER_BYTES + LENGTH_BYTES + length;
        Ok(())
    }
}

/// Writes a message at once, of any length that the peer accepts.
pub(crate) async fn write_message(
    writer: &mut (impl AsyncWrite + Unpin),
    message: &impl Serialize,
) -> Result<(), CopyError> {
    writer.write_all(&control_frame(message)?).await.map_err(CopyError::Stream)?;
    writer.flush().await.map_err(CopyError::Stream)
}

pub(crate) fn control_frame(message: &impl Serialize) -> Result<Vec<u8>, CopyError> {
    let too_long = || CopyError::Request("the request is too long: name fewer sources".into());
    let message = postcard::to_allocvec(message).map_err(|_| too_long())?;
    if message.len() > MAX_CONTROL_BYTES {
        return Err(too_long());
    }
    Ok([&header(CONTROL, message.len())[..], &message].concat())
}

fn header(kind: u8, length: usize) -> [u8; HEADER_BYTES] {
    let [a, b, c, d, ..] = (length as u64).to_le_bytes();
    [kind, a, b, c, d]
}

/// Kind and length of the next frame, read with [`FrameReader::control`] or
/// [`FrameReader::data`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FrameHead {
    /// Message of this length.
    Control(usize),
    /// Bytes of a file.
    Data { id: u64, offset: u64, length: usize },
}

/// Reader of the peer's frames.
#[derive(Debug)]
pub(crate) struct FrameReader<R> {
    input: BufReader<R>,
    /// Bytes of the last message. The memory is used again.
    message: Vec<u8>,
    /// Frames that were compressed, and the number of bytes read of them.
    plain: Vec<u8>,
    read: usize,
    /// `None`: compressed frames are not expected.
    decompressor: Option<Decompressor>,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    pub(crate) fn new(stream: R) -> Self {
        let input = BufReader::with_capacity(INPUT_BYTES, stream);
        Self { input, message: Vec::new(), plain: Vec::new(), read: 0, decompressor: None }
    }

    /// Lets the peer send compressed frames from here on.
    pub(crate) fn decompress_with(&mut self, decompressor: Decompressor) {
        self.decompressor = Some(decompressor);
    }

    /// Reads the next frame's head; `None` at the end of the stream.
    pub(crate) async fn head(&mut self) -> Result<Option<FrameHead>, CopyError> {
        loop {
            let is_plain = self.read < self.plain.len();
            if !is_plain && self.input.fill_buf().await.map_err(lost)?.is_empty() {
                return Ok(None);
            }
            let mut header = [0; HEADER_BYTES];
            self.exact(&mut header).await?;
            let [kind, a, b, c, d] = header;
            let length = u32::from_le_bytes([a, b, c, d]) as usize;
            match kind {
                CONTROL if length <= MAX_CONTROL_BYTES => return Ok(Some(FrameHead::Control(length))),
                DATA if (DATA_PREFIX_BYTES + 1..=DATA_PREFIX_BYTES + MAX_DATA_BYTES).contains(&length) => {
                    let [mut id, mut offset] = [[0; 8]; 2];
                    self.exact(&mut id).await?;
                    self.exact(&mut offset).await?;
                    let [id, offset] = [id, offset].map(u64::from_le_bytes);
                    return Ok(Some(FrameHead::Data { id, offset, length: length - DATA_PREFIX_BYTES }));
                }
                COMPRESSED
                    if !is_plain
                        && (LENGTH_BYTES + 1..=LENGTH_BYTES + COMPRESSED_BYTES).contains(&length) =>
                {
                    self.decompress(length - LENGTH_BYTES).await?;
                }
                CONTROL | DATA | COMPRESSED => {
                    return Err(CopyError::Protocol(format!("frame of {length} bytes")));
                }
                _ => return Err(CopyError::Protocol(format!("frame of kind {kind}"))),
            }
        }
    }

    /// Reads frames that take that many bytes compressed.
    async fn decompress(&mut self, length: usize) -> Result<(), CopyError> {
        let wrong = |why| CopyError::Protocol(format!("compressed frames {why}"));
        let Some(decompressor) = &mut self.decompressor else { return Err(wrong("before the copy")) };
        let plain = self.input.read_u32_le().await.map_err(lost)? as usize;
        if plain == 0 || plain > BATCH_BYTES {
            return Err(wrong("of a wrong length"));
        }
        self.message.resize(length, 0);
        self.input.read_exact(&mut self.message).await.map_err(lost)?;
        self.plain.resize(plain, 0);
        self.read = 0;
        decompressor.decompress(&self.message, &mut self.plain).map_err(|_| wrong("that are damaged"))
    }

    /// Fills the buffer with the next bytes of frames.
    async fn exact(&mut self, bytes: &mut [u8]) -> Result<(), CopyError> {
        let rest = &self.plain[self.read..];
        if rest.is_empty() {
            return self.input.read_exact(bytes).await.map(drop).map_err(lost);
        }
        let Some((read, _)) = rest.split_at_checked(bytes.len()) else {
            return Err(CopyError::Protocol("a frame that goes on after its compressed part".into()));
        };
        bytes.copy_from_slice(read);
        self.read += bytes.len();
        Ok(())
    }

    pub(crate) async fn control<M: DeserializeOwned>(&mut self, length: usize) -> Result<M, CopyError> {
        let mut message = std::mem::take(&mut self.message);
        message.resize(length, 0);
        let read = self.exact(&mut message).await;
        self.message = message;
        read?;
        match postcard::take_from_bytes(&self.message) {
            Ok((message, [])) => Ok(message),
            _ => Err(CopyError::Protocol("a message of another version, or damaged".into())),
        }
    }

    pub(crate) async fn data(&mut self, bytes: &mut [u8]) -> Result<(), CopyError> {
        self.exact(bytes).await
    }

    /// Reads the next frame, which must be a message.
    pub(crate) async fn message<M: DeserializeOwned>(&mut self) -> Result<Option<M>, CopyError> {
        match self.head().await? {
            None => Ok(None),
            Some(FrameHead::Control(length)) => self.control(length).await.map(Some),
            Some(FrameHead::Data { .. }) => Err(CopyError::Protocol("data in the wrong direction".into())),
        }
    }

    /// Reads the server's answer. Returns the identity of its destination.
    pub(crate) async fn answer(&mut self) -> Result<Option<HashBytes>, CopyError> {
        match self.message().await? {
            Some(Answer::Accepted { version: VERSION, into }) => Ok(into),
            Some(Answer::Accepted { version, .. }) => {
                Err(CopyError::Protocol(format!("the peer answers in version {version}")))
            }
            Some(Answer::Refused { text }) => Err(CopyError::Refused(text)),
            None => Err(CopyError::Stream(io::ErrorKind::UnexpectedEof.into())),
        }
    }

    /// Reads to the end of the stream, and ignores what comes.
    pub(crate) async fn drain(&mut self) -> Result<(), CopyError> {
        loop {
            let length = self.input.fill_buf().await.map_err(lost)?.len();
            if length == 0 {
                return Ok(());
            }
            self.input.consume(length);
        }
    }
}

/// Returns the error of a stream that ended within a frame, or failed.
fn lost(error: io::Error) -> CopyError {
    let is_end = error.kind() == io::ErrorKind::UnexpectedEof;
    CopyError::Stream(if is_end { io::ErrorKind::UnexpectedEof.into() } else { error })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::FromDestination;

    #[tokio::test]
    async fn frames_are_read_as_written() {
        let mut batch = Batch::new();
        assert!(batch.put_control(&FromDestination::Done { id: 7, name: None }));
        batch
            .put_data(3, 9, 100_000, |bytes| {
                bytes.fill(5);
                Ok::<_, ()>(())
            })
            .unwrap();
        assert!(batch.put_control(&FromDestination::Finished));
        let mut reader = FrameReader::new(batch.as_bytes());
        assert_eq!(reader.message().await.unwrap(), Some(FromDestination::Done { id: 7, name: None }));
        let head = reader.head().await.unwrap();
        assert_eq!(head, Some(FrameHead::Data { id: 3, offset: 9, length: 100_000 }));
        let mut bytes = vec![0; 100_000];
        reader.data(&mut bytes).await.unwrap();
        assert!(bytes == vec![5; 100_000]);
        assert_eq!(reader.message().await.unwrap(), Some(FromDestination::Finished));
        assert_eq!(reader.head().await.unwrap(), None);
    }

    #[tokio::test]
    async fn bad_frames_are_errors() {
        let cases: [&[u8]; 7] = [
            &[3, 0, 0, 0, 0],
            &[1, 255, 255, 255, 255],
            &[2, 16, 0, 0, 0],
            &[2, 0, 0, 17, 0],
            &[1, 2, 0, 0, 0, 200, 200],
            &[1, 2, 0, 0, 0, 1],
            &[1, 2],
        ];
        for bytes in cases {
            let mut reader = FrameReader::new(bytes);
            assert!(reader.message::<FromDestination>().await.is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn full_batch_refuses_messages() {
        let mut batch = Batch::new();
        let room = batch.data_room();
        batch.put_data(1, 0, room, |_| Ok::<_, ()>(())).unwrap();
        while batch.put_control(&FromDestination::Finished) {}
        assert!(batch.len() <= BATCH_BYTES && batch.data_room() == 0);
        batch.clear();
        assert!(batch.is_empty() && batch.put_control(&FromDestination::Finished));
    }
}
