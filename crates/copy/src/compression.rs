//! Compression of the frames that leave a source: batch by batch, all by one zstd stream, so that
//! small files are compressed together and with those before them.
//!
//! A batch is compressed only while that pays: the stream takes bytes more slowly than this host
//! compresses them, and the last ones became smaller.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use rdt_udp::clock;
use tokio::sync::mpsc::{Receiver, Sender};
use zstd::stream::raw::{CParameter, DParameter, Decoder, Encoder, InBuffer, Operation, OutBuffer};

use crate::Compression;
use crate::frame::{BATCH_BYTES, Batch};
use crate::report::Report;
use crate::source::Spare;
use crate::threads::Ended;

/// Window of both sides, as a power of two: 2 MiB, whatever the level. It bounds the memory of the
/// side that decompresses.
const WINDOW_LOG: u32 = 21;
/// Level of [`Compression::Auto`], zstd's default.
const AUTO_LEVEL: i32 = 3;
/// Smaller batches are sent as they are.
const MIN_BATCH_BYTES: usize = 256;
/// Bytes that the stream must have taken for a new measurement of its speed.
const MEASURED_BYTES: u64 = 256 << 10;
/// Data that does not become smaller than this share, in percent, is sent as it is.
const WORTH_PERCENT: usize = 95;
/// Factor by which a stream must be slower than compression, because other threads and the kernel
/// need the processor, too.
const MARGIN: f64 = 2.0;
/// Share of the measured time that remains with each measurement which is shorter while compression
/// is on: a line that compressed data does not fill may be slow all the same.
const DECAY: f64 = 0.8;
/// Limit on batches that pass after some did not become smaller.
const MAX_SKIPPED: u32 = 32;

/// Speed at which a stream takes bytes.
#[derive(Debug, Default)]
pub(crate) struct Line {
    bytes: AtomicU64,
    nanos: AtomicU64,
}

impl Line {
    /// Counts a write to the stream and the time that it waited for.
    pub(crate) fn took(&self, bytes: usize, time: Duration) {
        self.nanos.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Relaxed);
        self.bytes.fetch_add(bytes as u64, Relaxed);
    }

    /// Returns the time for a byte since the last measurement, if there were enough bytes.
    fn measure(&self) -> Option<f64> {
        let bytes = self.bytes.load(Relaxed);
        if bytes < MEASURED_BYTES {
            return None;
        }
        self.bytes.fetch_sub(bytes, Relaxed);
        Some(nanos_each(self.nanos.swap(0, Relaxed), bytes))
    }
}

#[expect(clippy::cast_precision_loss, reason = "a speed")]
fn nanos_each(nanos: u64, bytes: u64) -> f64 {
    nanos as f64 / bytes.max(1) as f64
}

/// Decides whether the next batch is compressed.
#[derive(Debug)]
struct Judge {
    is_auto: bool,
    /// Time that the stream takes for a byte, ns. `None`: not measured yet.
    line: Option<f64>,
    /// True: the last batch was compressed.
    is_on: bool,
    /// Time that compression takes for a byte, ns.
    processor: f64,
    /// Batches to send as they are, because those before did not become smaller.
    skipped: u32,
    next_skip: u32,
}

impl Judge {
    fn new(is_auto: bool) -> Self {
        Self { is_auto, line: None, is_on: false, processor: 0.0, skipped: 0, next_skip: 1 }
    }

    fn compresses(&mut self, bytes: usize, line: Option<f64>) -> bool {
        if let Some(new) = line {
            let slowest = self.line.filter(|_| self.is_on).map_or(new, |old| new.max(DECAY * old));
            self.line = Some(slowest);
        }
        if bytes < MIN_BATCH_BYTES {
            return false;
        }
        if self.skipped > 0 {
            self.skipped -= 1;
            return false;
        }
        self.is_on = !self.is_auto || self.line.is_none_or(|line| line > MARGIN * self.processor);
        self.is_on
    }

    fn compressed(&mut self, bytes: usize, to: usize, nanos: u64) {
        let each = nanos_each(nanos, bytes as u64);
        self.processor = if self.processor > 0.0 { (3.0 * self.processor + each) / 4.0 } else { each };
        if to * 100 > bytes * WORTH_PERCENT {
            self.skipped = self.next_skip;
            self.next_skip = (2 * self.next_skip).min(MAX_SKIPPED);
        } else {
            self.next_skip = 1;
        }
    }
}

/// Thread between the threads that fill batches and the network.
pub(crate) struct Compressor {
    encoder: Encoder<'static>,
    judge: Judge,
    line: Arc<Line>,
    spare: Spare,
    report: Report,
}

impl Compressor {
    /// Returns `None` if nothing is to be compressed.
    pub(crate) fn new(
        compression: Compression,
        line: &Arc<Line>,
        spare: &Spare,
        report: &Report,
    ) -> io::Result<Option<Self>> {
        let (level, is_auto) = match compression {
            Compression::Off => return Ok(None),
            Compression::Auto => (AUTO_LEVEL, true),
            Compression::Level(level) => (level.into(), false),
        };
        let mut encoder = Encoder::new(level)?;
        encoder.set_parameter(CParameter::WindowLog(WINDOW_LOG))?;
        let (line, spare, report) = (Arc::clone(line), spare.clone(), report.clone());
        Ok(Some(Self { encoder, judge: Judge::new(is_auto), line, spare, report }))
    }

    /// Passes batches on until the queue ends.
    pub(crate) fn run(mut self, mut batches: Receiver<Batch>, queue: &Sender<Batch>) -> Result<(), Ended> {
        while let Some(batch) = batches.blocking_recv() {
            let is_worth = self.judge.compresses(batch.len(), self.line.measure());
            let batch = if is_worth { self.compress(batch) } else { batch };
            queue.blocking_send(batch).map_err(|_| Ended)?;
        }
        Ok(())
    }

    fn compress(&mut self, batch: Batch) -> Batch {
        let begun_at = clock::now();
        let Ok(compressed) = self.compressed(&batch) else {
            // Without memory: all data goes as it is.
            self.judge.skipped = u32::MAX;
            return batch;
        };
        let nanos = clock::now().saturating_duration_since(begun_at).as_nanos();
        self.judge.compressed(batch.len(), compressed.len(), u64::try_from(nanos).unwrap_or(u64::MAX));
        self.report.compressed(batch.len() as u64, compressed.len() as u64);
        self.spare.give(batch);
        compressed
    }

    fn compressed(&mut self, batch: &Batch) -> io::Result<Batch> {
        let mut compressed = self.spare.take().unwrap_or_else(Batch::new);
        compressed.put_compressed(batch.len(), |room| {
            let (mut input, mut output) = (InBuffer::around(batch.as_bytes()), OutBuffer::around(room));
            while input.pos() < input.src.len() {
                self.encoder.run(&mut input, &mut output)?;
            }
            // The room is enough for data that does not become smaller.
            while self.encoder.flush(&mut output)? > 0 {}
            Ok::<_, io::Error>(output.pos())
        })?;
        Ok(compressed)
    }
}

/// Reader of compressed batches.
pub(crate) struct Decompressor {
    decoder: Decoder<'static>,
    report: Report,
}

impl std::fmt::Debug for Decompressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decompressor").finish_non_exhaustive()
    }
}

impl Decompressor {
    pub(crate) fn new(report: &Report) -> io::Result<Self> {
        let mut decoder = Decoder::new()?;
        decoder.set_parameter(DParameter::WindowLogMax(WINDOW_LOG))?;
        Ok(Self { decoder, report: report.clone() })
    }

    /// Fills `plain` with what was compressed. Fails if that is damaged, or has another length.
    pub(crate) fn decompress(&mut self, compressed: &[u8], plain: &mut [u8]) -> io::Result<()> {
        debug_assert!(plain.len() <= BATCH_BYTES);
        let (length, wrong) = (plain.len(), || io::Error::from(io::ErrorKind::InvalidData));
        let (mut input, mut output) = (InBuffer::around(compressed), OutBuffer::around(plain));
        loop {
            let before = (input.pos(), output.pos());
            self.decoder.run(&mut input, &mut output)?;
            if (input.pos(), output.pos()) == before {
                break;
            }
        }
        if input.pos() < compressed.len() || output.pos() < length {
            return Err(wrong());
        }
        // More than was declared stays in the decoder.
        let mut more = [0];
        let mut rest = OutBuffer::around(&mut more[..]);
        self.decoder.run(&mut InBuffer::around(&[]), &mut rest)?;
        if rest.pos() > 0 {
            return Err(wrong());
        }
        self.report.compressed(length as u64, compressed.len() as u64);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fast_line_is_not_compressed_for() {
        let mut judge = Judge::new(true);
        assert!(judge.compresses(1 << 20, None), "until the line is measured");
        judge.compressed(1 << 20, 1 << 18, 3 << 20);
        assert!(judge.compresses(1 << 20, Some(80.0)), "100 Mbit/s");
        assert!(judge.compresses(1 << 20, Some(1.0)), "the line may be idle because of compression");
        let more = (0..20).filter(|_| judge.compresses(1 << 20, Some(1.0))).count();
        assert!((5..15).contains(&more), "8 Gbit/s: {more}");
        assert!(!judge.compresses(1 << 20, None));
        assert!(judge.compresses(1 << 20, Some(8.0)), "1 Gbit/s");
        assert!(!judge.compresses(10, None), "as small as a message");
        let mut judge = Judge::new(false);
        judge.compressed(1 << 20, 1 << 18, 5 << 20);
        assert!(judge.compresses(1 << 20, Some(1.0)), "a level that the user has chosen");
    }

    #[test]
    fn data_that_stays_as_large_is_tried_rarely() {
        let mut judge = Judge::new(true);
        let mut tries = 0;
        for _ in 0..1000 {
            if judge.compresses(1 << 20, Some(80.0)) {
                judge.compressed(1 << 20, 1 << 20, 1 << 20);
                tries += 1;
            }
        }
        assert!((20..50).contains(&tries), "{tries}");
        while !judge.compresses(1 << 20, None) {}
        judge.compressed(1 << 20, 1 << 19, 1 << 20);
        assert!(judge.compresses(1 << 20, None), "it becomes smaller again");
    }

    #[test]
    fn line_is_measured_by_bytes_and_time() {
        let line = Line::default();
        line.took(1000, Duration::from_micros(80));
        assert_eq!(line.measure(), None);
        line.took(999_000, Duration::from_micros(79_920));
        assert_eq!(line.measure(), Some(80.0));
        assert_eq!(line.measure(), None);
    }
}
