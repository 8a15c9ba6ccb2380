//! `--qlog`: what the sender tells, written to a file.

mod place;
mod writer;

use std::fs::File;
use std::io::BufWriter;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rdt_transport::{Observer, SenderConfig, Wire};

use crate::Failure;
use crate::console::talk;
pub(crate) use place::check;
use writer::{Qlog, QlogConfig};

/// Bytes that are written in one call.
const BUFFER: usize = 256 * 1024;

/// The file and what writes it.
pub(crate) struct QlogFile {
    path: PathBuf,
    log: Qlog<BufWriter<File>>,
}

impl QlogFile {
    /// Replaces what was in the file. Times count from `start`, which is now or was a moment ago.
    pub(crate) fn create(
        path: &Path,
        start: Instant,
        peer: SocketAddr,
        config: &SenderConfig,
    ) -> Result<Self, Failure> {
        let file = File::create(path).map_err(|error| Failure::output(path, error))?;
        let classic = config.wire == Wire::Classic;
        let config = QlogConfig {
            title: format!("rdt-send to {peer}, {}", config.congestion),
            epoch: start,
            reference_time_ms: jiff::Timestamp::now().as_millisecond(),
            peer: Some(peer),
            window_unit: if classic { config.payload_size() as u64 } else { 1 },
        };
        Ok(Self { path: path.to_owned(), log: Qlog::new(BufWriter::with_capacity(BUFFER, file), &config) })
    }

    pub(crate) fn observer(&self) -> Box<dyn Observer> {
        Box::new(self.log.clone())
    }
}

/// Completes the file. That it could not be written is how the program ends, unless the transfer failed: then it
/// is only told.
pub(crate) fn finish(file: Option<QlogFile>, failure: Option<Failure>) -> Option<Failure> {
    let Some(QlogFile { path, log }) = file else { return failure };
    let Err(error) = log.finish() else { return failure };
    let unwritten = Failure::output(&path, error);
    if failure.is_some() {
        talk(&format!("rdt-send: {unwritten}"));
    }
    failure.or(Some(unwritten))
}

#[cfg(test)]
mod tests;
