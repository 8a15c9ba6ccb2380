//! The batch to send next: choice of the send call, the unsent rest while the socket is full, and
//! the handling of each error. A [`Kernel`] makes the system calls.

use std::io;
use std::sync::Arc;

use rdt_datagram::{Ecn, FrameSource, TransmitBuf};

use crate::buffer_pool::PooledBatch;
use crate::error::{SendFailure, classify, is_lasting};
use crate::icmp::IcmpErrors;
use crate::zerocopy::{self, File, Pages as _};
use crate::{Remote, UdpStats};

/// Most datagrams in one send call: Linux's limit for GSO, used for `sendmmsg` too.
pub const MAX_SEGMENTS: usize = 64;

/// System call that sends a batch, the cheapest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SendCall {
    /// One large datagram that the kernel or the network card segments (GSO).
    Gso,
    /// Many datagrams in one call (`sendmmsg`, Linux).
    Sendmmsg,
    /// One datagram in each call.
    Single,
}

impl SendCall {
    /// Returns the name used in the JSON output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gso => "gso",
            Self::Sendmmsg => "sendmmsg",
            Self::Single => "single",
        }
    }
}

/// Error numbers of send calls that failed although the kernel had announced them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GivenUp {
    /// Error of segmentation offload (GSO).
    pub gso: Option<i32>,
    /// Error of `sendmmsg`.
    pub sendmmsg: Option<i32>,
}

/// Datagrams of `size` bytes, one after another in `bytes`; the last may be shorter.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Datagrams<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) size: usize,
    pub(crate) ecn: Ecn,
}

pub(crate) trait Kernel {
    /// Returns the largest number of segments that offload accepts at present; 1 without offload.
    fn max_gso_segments(&self) -> usize;

    /// Sends datagrams with `call`, and returns the number sent.
    fn send(&self, call: SendCall, peer: Remote, datagrams: Datagrams<'_>) -> io::Result<usize>;

    /// Sends `datagrams`, at `offset` of `file`, by reference (zero-copy). Returns the bytes sent.
    fn send_zerocopy(
        &self,
        peer: Remote,
        file: &File,
        offset: u64,
        datagrams: Datagrams<'_>,
    ) -> io::Result<usize>;

    /// Reads and removes the pending ICMP errors of the socket. `error` is the error of the call
    /// that failed, which may repeat one of them.
    fn drain_icmp_errors(&self, error: Option<&io::Error>) -> IcmpErrors;
}

/// The batch to send next, and the send calls that still work.
pub(crate) struct SendBatch {
    batch: PooledBatch,
    /// File of zero-copy frames, if there are any. Batches that lie in it are sent by reference.
    file: Option<Arc<File>>,
    /// Peer of an unsent batch, and the bytes of it that were sent before the socket was full.
    stuck: Option<(Remote, usize)>,
    gso: bool,
    sendmmsg: bool,
    sendmmsg_works: bool,
    given_up: GivenUp,
}

struct Pass {
    /// Bytes of the batch that were sent or counted as lost.
    at: usize,
    /// False once segments of this batch exceed the path MTU: the rest is sent without offload, and
    /// fragmented. Segments of the next batch may be smaller.
    offload: bool,
    /// Offset of the last datagram that was retried after an earlier one's error.
    retried: Option<usize>,
    result: io::Result<()>,
}

enum Step {
    /// Number of datagrams sent, or counted as lost.
    Done(usize),
    Retry,
    Full,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ZerocopySend {
    Sent,
    Full,
    /// The batch must be sent by copying.
    Copy,
}

impl SendBatch {
    /// Creates an empty batch. `gso` and `sendmmsg` allow the use of those calls.
    pub(crate) fn new(gso: bool, sendmmsg: bool) -> Self {
        Self {
            batch: PooledBatch::new(),
            file: None,
            stuck: None,
            gso,
            sendmmsg,
            sendmmsg_works: false,
            given_up: GivenUp::default(),
        }
    }

    /// Opens a pool of frames for a socket with one peer, whose batches are sent by reference from
    /// now on. `None` without segmentation offload, or if the kernel does not support zero-copy.
    pub(crate) fn open_zerocopy_pool(&mut self) -> Option<Box<dyn FrameSource>> {
        if !self.gso {
            return None;
        }
        match zerocopy::open() {
            Ok((file, pool)) => {
                self.file = Some(file);
                Some(Box::new(pool))
            }
            Err(error) => {
                tracing::debug!(%error, "batches are copied");
                None
            }
        }
    }

    pub(crate) fn is_zerocopy(&self) -> bool {
        self.gso && self.file.as_ref().is_some_and(|file| !file.is_closed())
    }

    pub(crate) fn given_up(&self) -> GivenUp {
        self.given_up
    }

    /// Returns the call used at present for several datagrams.
    pub(crate) fn call(&self, kernel: &impl Kernel) -> SendCall {
        if self.gso && kernel.max_gso_segments() > 1 {
            SendCall::Gso
        } else if self.sendmmsg {
            SendCall::Sendmmsg
        } else {
            SendCall::Single
        }
    }

    /// Returns the largest number of datagrams in one send call at present.
    pub(crate) fn max_segments(&self, kernel: &impl Kernel) -> usize {
        match self.call(kernel) {
            SendCall::Gso => kernel.max_gso_segments().min(MAX_SEGMENTS),
            SendCall::Sendmmsg => MAX_SEGMENTS,
            SendCall::Single => 1,
        }
    }

    /// Returns true if a part of the batch is unsent because the socket was full.
    pub(crate) fn is_stuck(&self) -> bool {
        self.stuck.is_some()
    }

    /// Returns the batch, emptied: an unsent part of it would be lost.
    pub(crate) fn open(&mut self, kernel: &impl Kernel) -> &mut TransmitBuf {
        let max_segments = self.max_segments(kernel);
        let batch = self.batch.attach();
        batch.clear();
        batch.set_max_segments(max_segments);
        batch
    }

    /// Releases the memory of the batch to other sockets, unless a part of it is unsent.
    pub(crate) fn leave(&mut self) {
        if self.stuck.is_none() {
            self.batch.release();
        }
    }

    pub(crate) fn batch(&self) -> &TransmitBuf {
        &self.batch
    }

    /// Sends the batch. If the socket is full, [`SendBatch::resume`] sends the rest. Fails if the
    /// first datagram of the socket is refused; later refused datagrams only count as lost.
    pub(crate) fn send(
        &mut self,
        kernel: &impl Kernel,
        stats: &mut UdpStats,
        peer: Remote,
    ) -> io::Result<()> {
        self.send_from(kernel, stats, peer, 0)
    }

    pub(crate) fn resume(&mut self, kernel: &impl Kernel, stats: &mut UdpStats) -> io::Result<()> {
        match self.stuck {
            Some((peer, from)) => self.send_from(kernel, stats, peer, from),
            None => Ok(()),
        }
    }

    /// Sends the batch from byte offset `from` on.
    fn send_from(
        &mut self,
        kernel: &impl Kernel,
        stats: &mut UdpStats,
        peer: Remote,
        from: usize,
    ) -> io::Result<()> {
        self.stuck = None;
        if from == 0 {
            match self.send_zerocopy(kernel, stats, peer) {
                ZerocopySend::Sent => return Ok(()),
                ZerocopySend::Full => {
                    self.stuck = Some((peer, 0));
                    return Ok(());
                }
                ZerocopySend::Copy => {}
            }
        }
        let (size, total) = (self.batch().segment_size().max(1), self.batch().bytes().len());
        let mut pass = Pass { at: from, offload: true, retried: None, result: Ok(()) };
        loop {
            match self.send_chunk(kernel, stats, peer, &mut pass) {
                Step::Done(datagrams) => pass.at += datagrams * size,
                Step::Retry => continue,
                Step::Full => {
                    stats.blocked += 1;
                    self.stuck = Some((peer, pass.at));
                    return pass.result;
                }
            }
            if pass.at >= total {
                return pass.result;
            }
        }
    }

    /// Sends as many of the remaining datagrams as one call accepts.
    fn send_chunk(
        &mut self,
        kernel: &impl Kernel,
        stats: &mut UdpStats,
        peer: Remote,
        pass: &mut Pass,
    ) -> Step {
        let (size, total) = (self.batch().segment_size().max(1), self.batch().bytes().len());
        let chunk = (self.max_segments(kernel) * size).min(total - pass.at);
        // Only a batch of one empty datagram has no bytes.
        let segments = chunk.div_ceil(size).max(1);
        let call = match self.call(kernel) {
            _ if segments == 1 => SendCall::Single,
            SendCall::Gso if !pass.offload && self.sendmmsg => SendCall::Sendmmsg,
            SendCall::Gso if !pass.offload => SendCall::Single,
            call => call,
        };
        let bytes = &self.batch().bytes()[pass.at..pass.at + chunk];
        let error = match kernel.send(call, peer, Datagrams { bytes, size, ecn: self.batch().ecn() }) {
            Ok(sent) => {
                stats.send_calls += 1;
                stats.sent += sent as u64;
                self.sendmmsg_works |= call == SendCall::Sendmmsg;
                if sent < segments {
                    // A short count of `sendmmsg` hides an error. If it was an ICMP error, it must
                    // be read, or the socket would remain readable.
                    stats.note_icmp_errors(kernel.drain_icmp_errors(None));
                }
                return Step::Done(sent);
            }
            Err(error) => error,
        };
        if self.gives_up(call, &error) {
            return Step::Retry;
        }
        if call == SendCall::Gso && classify(&error, true) == SendFailure::TooBig {
            pass.offload = false;
            return Step::Retry;
        }
        // `sendmmsg` fails only with the error of its first datagram.
        let refused = if call == SendCall::Sendmmsg { 1 } else { segments };
        on_refusal(kernel, stats, peer, pass, error, refused)
    }

    /// Sends the whole batch by reference, if it lies in the file of this socket.
    fn send_zerocopy(&mut self, kernel: &impl Kernel, stats: &mut UdpStats, peer: Remote) -> ZerocopySend {
        let gso = self.call(kernel) == SendCall::Gso;
        let (batch, Some(file)) = (&*self.batch, &self.file) else { return ZerocopySend::Copy };
        let (bytes, size, ecn) = (batch.bytes(), batch.segment_size(), batch.ecn());
        let possible = gso && !file.is_closed();
        let Some(place) = batch.file_offset().filter(|place| possible && place.file == file.id()) else {
            return ZerocopySend::Copy;
        };
        match kernel.send_zerocopy(peer, file, place.offset, Datagrams { bytes, size, ecn }) {
            Ok(sent) if sent == bytes.len() => {
                stats.send_calls += 1;
                stats.sent += batch.segments() as u64;
                stats.sent_by_reference += batch.segments() as u64;
                ZerocopySend::Sent
            }
            Err(error) if classify(&error, false) == SendFailure::WouldBlock => {
                stats.blocked += 1;
                ZerocopySend::Full
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                stats.note_icmp_errors(kernel.drain_icmp_errors(Some(&error)).or(&error));
                ZerocopySend::Copy
            }
            // A copy fails in the same way, or the error was an earlier datagram's ICMP error.
            Err(error)
                if classify(&error, false) == SendFailure::Soft && !is_zerocopy_unsupported(&error) =>
            {
                stats.note_icmp_errors(kernel.drain_icmp_errors(Some(&error)));
                ZerocopySend::Copy
            }
            // Sending a copy fails in the same way, and that failure is counted.
            Err(error) if !is_zerocopy_unsupported(&error) => ZerocopySend::Copy,
            refused => {
                tracing::debug!(?refused, "the kernel takes no memory by reference; batches are copied");
                file.close();
                ZerocopySend::Copy
            }
        }
    }

    /// Stops using a send call if `error` shows that the kernel does not support it.
    fn gives_up(&mut self, call: SendCall, error: &io::Error) -> bool {
        match call {
            SendCall::Gso if classify(error, true) == SendFailure::Offload => {
                tracing::info!(%error, "segmentation offload failed; sending without it");
                self.gso = false;
                self.given_up.gso = error.raw_os_error();
                true
            }
            SendCall::Sendmmsg if is_sendmmsg_unsupported(error, self.sendmmsg_works) => {
                tracing::info!(%error, "sendmmsg failed; sending datagrams one by one");
                self.sendmmsg = false;
                self.given_up.sendmmsg = error.raw_os_error();
                true
            }
            _ => false,
        }
    }
}

/// Handles an error of a send call: reports a full socket, retries after an ICMP error caused by an
/// earlier datagram, or counts `datagrams` as lost.
fn on_refusal(
    kernel: &impl Kernel,
    stats: &mut UdpStats,
    peer: Remote,
    pass: &mut Pass,
    error: io::Error,
    datagrams: usize,
) -> Step {
    let mut failure = classify(&error, false);
    match failure {
        SendFailure::WouldBlock => return Step::Full,
        SendFailure::Unreachable => {
            stats.note_icmp_errors(kernel.drain_icmp_errors(Some(&error)));
            return Step::Retry;
        }
        SendFailure::Soft => {
            let errors = kernel.drain_icmp_errors(Some(&error));
            stats.note_icmp_errors(errors);
            if errors.count() > 0 && pass.retried.replace(pass.at) != Some(pass.at) {
                return Step::Retry;
            }
            failure = match errors.count() {
                0 => SendFailure::Refused,
                _ => SendFailure::Unreachable,
            };
        }
        _ => {}
    }
    stats.count_lost(failure, datagrams);
    tracing::debug!(%error, peer = %peer.addr, "a datagram could not be sent");
    if stats.sent == 0 {
        stats.refusal = error.raw_os_error();
        if is_lasting(&error) {
            pass.result = Err(error);
        }
    }
    Step::Done(datagrams)
}

/// Returns true for lasting errors of a zero-copy send: EINVAL, ENOSYS, EOPNOTSUPP (no pages for
/// datagrams), EIO (the network card cannot segment them), EPERM (a system call filter).
fn is_zerocopy_unsupported(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(1 | 5 | 22 | 38 | 95))
}

/// Returns true for lasting errors of `sendmmsg`: ENOSYS (no such call), EPERM (a system call
/// filter), EINVAL (no ECN codepoint accepted). If the call `works`, EPERM and EINVAL concern one
/// peer only.
fn is_sendmmsg_unsupported(error: &io::Error, works: bool) -> bool {
    match error.raw_os_error() {
        Some(38) => true,
        Some(1 | 22) => !works,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
