//! The batch of datagrams that leaves next: how it is handed to the kernel, what is left of it when the socket
//! is full, and what each refusal means for the rest. Makes no calls itself.

use std::io;
use std::sync::Arc;

use rdt_datagram::{Ecn, FrameSource, TransmitBuf};

use crate::buffer_pool::PooledBatch;
use crate::error::{SendFailure, classify};
use crate::icmp::IcmpErrors;
use crate::zerocopy::{self, File, Pages as _};
use crate::{Remote, UdpStats};

/// Most segments that Linux takes in one send with offload, and most datagrams that one `sendmmsg` gets.
pub const MAX_SEGMENTS: usize = 64;

/// How a batch is handed to the kernel, the cheapest way first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SendCall {
    /// As one large datagram that the kernel or the card cuts: segmentation offload.
    Gso,
    /// Datagram by datagram, many in one call (`sendmmsg`, Linux).
    Sendmmsg,
    /// One datagram a call.
    Single,
}

impl SendCall {
    /// As JSON has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gso => "gso",
            Self::Sendmmsg => "sendmmsg",
            Self::Single => "single",
        }
    }
}

/// Ways to send that the kernel took for possible and then refused, each with the number of its error.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GivenUp {
    /// Segmentation offload.
    pub gso: Option<i32>,
    /// Many datagrams in one call.
    pub sendmmsg: Option<i32>,
}

/// Datagrams of `size` bytes but perhaps the last, end to end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Datagrams<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) size: usize,
    /// The codepoint of them all.
    pub(crate) ecn: Ecn,
}

/// What makes the calls.
pub(crate) trait Kernel {
    /// Most segments that it takes with offload at present; 1 if it has none.
    fn max_gso_segments(&self) -> usize;

    /// Says how many of them went.
    fn send(&self, call: SendCall, peer: Remote, datagrams: Datagrams<'_>) -> io::Result<usize>;

    /// Sends `datagrams`, which lie at `offset` of `file`, by reference. Says how many bytes went.
    fn lend(&self, peer: Remote, file: &File, offset: u64, datagrams: Datagrams<'_>) -> io::Result<usize>;

    /// Takes reports of undelivered datagrams off the socket. `error` is what a call failed with, if that told of them.
    fn drain_icmp_errors(&self, error: Option<&io::Error>) -> IcmpErrors;
}

/// The batch and the ways that are left to send it.
pub(crate) struct SendBatch {
    batch: PooledBatch,
    /// Batches that lie in here can be lent to the kernel, where that works.
    file: Option<Arc<File>>,
    /// Where the batch goes that the socket did not take, and how many of its bytes have gone.
    stuck: Option<(Remote, usize)>,
    gso: bool,
    sendmmsg: bool,
    /// `sendmmsg` was not refused yet and has worked.
    proven: bool,
    given_up: GivenUp,
}

impl SendBatch {
    /// Uses segmentation offload only if `gso`, and `sendmmsg` only if that.
    pub(crate) fn new(gso: bool, sendmmsg: bool) -> Self {
        let batch = PooledBatch::new();
        let given_up = GivenUp::default();
        Self { batch, file: None, stuck: None, gso, sendmmsg, proven: false, given_up }
    }

    /// Opens a pool of frames for a socket with one peer. Batches in these frames are sent by reference from now on. `None`
    /// without segmentation offload, or if the kernel cannot.
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

    /// Batches are lent to the kernel at present.
    pub(crate) fn lends(&self) -> bool {
        self.gso && self.file.as_ref().is_some_and(|file| !file.is_closed())
    }

    /// What was refused so far.
    pub(crate) fn given_up(&self) -> GivenUp {
        self.given_up
    }

    /// How more than one datagram is sent at present.
    pub(crate) fn call(&self, kernel: &impl Kernel) -> SendCall {
        if self.gso && kernel.max_gso_segments() > 1 {
            SendCall::Gso
        } else if self.sendmmsg {
            SendCall::Sendmmsg
        } else {
            SendCall::Single
        }
    }

    /// The datagrams that one call takes at present.
    pub(crate) fn max_segments(&self, kernel: &impl Kernel) -> usize {
        match self.call(kernel) {
            SendCall::Gso => kernel.max_gso_segments().min(MAX_SEGMENTS),
            SendCall::Sendmmsg => MAX_SEGMENTS,
            SendCall::Single => 1,
        }
    }

    /// The socket has not taken all of the batch.
    pub(crate) fn is_stuck(&self) -> bool {
        self.stuck.is_some()
    }

    /// The batch, emptied to be filled again. What is stuck would be lost.
    pub(crate) fn open(&mut self, kernel: &impl Kernel) -> &mut TransmitBuf {
        let max_segments = self.max_segments(kernel);
        let batch = self.batch.fetch();
        batch.clear();
        batch.set_max_segments(max_segments);
        batch
    }

    /// The batch is not needed for now: it is empty, or nothing of it is stuck.
    pub(crate) fn leave(&mut self) {
        if self.stuck.is_none() {
            self.batch.put_back();
        }
    }

    /// What is in the batch.
    pub(crate) fn batch(&self) -> &TransmitBuf {
        &self.batch
    }

    /// Sends the batch; what the socket does not take now is stuck.
    ///
    /// # Errors
    /// That of a datagram that was refused before any was taken: what never worked will not.
    pub(crate) fn send(
        &mut self,
        kernel: &impl Kernel,
        stats: &mut UdpStats,
        peer: Remote,
    ) -> io::Result<()> {
        self.send_from(kernel, stats, peer, 0)
    }

    /// Sends what is stuck.
    ///
    /// # Errors
    /// As [`SendBatch::send`].
    pub(crate) fn resume(&mut self, kernel: &impl Kernel, stats: &mut UdpStats) -> io::Result<()> {
        match self.stuck {
            Some((peer, from)) => self.send_from(kernel, stats, peer, from),
            None => Ok(()),
        }
    }

    /// Sends the batch from its byte `from` on.
    fn send_from(
        &mut self,
        kernel: &impl Kernel,
        stats: &mut UdpStats,
        peer: Remote,
        from: usize,
    ) -> io::Result<()> {
        let (size, total) = (self.batch().segment_size().max(1), self.batch().bytes().len());
        let (mut at, mut result) = (from, Ok(()));
        // Segments longer than the path takes are sent one by one, and cut on their way; the next batch's may be shorter.
        let mut offload = true;
        // The datagram that was tried once more, because the error was that of an earlier one.
        let mut retried = None;
        self.stuck = None;
        if from == 0 {
            match self.lend(kernel, stats, peer) {
                ZerocopySend::Sent => return result,
                ZerocopySend::Blocked => {
                    self.stuck = Some((peer, 0));
                    return result;
                }
                ZerocopySend::NotSent => {}
            }
        }
        loop {
            // Zero segments of a batch remain only when it is a single empty datagram.
            let chunk = (self.max_segments(kernel) * size).min(total - at);
            let segments = chunk.div_ceil(size).max(1);
            let call = match self.call(kernel) {
                _ if segments == 1 => SendCall::Single,
                SendCall::Gso if !offload && self.sendmmsg => SendCall::Sendmmsg,
                SendCall::Gso if !offload => SendCall::Single,
                call => call,
            };
            let bytes = &self.batch().bytes()[at..at + chunk];
            let gone = match kernel.send(call, peer, Datagrams { bytes, size, ecn: self.batch().ecn() }) {
                Ok(taken) => {
                    stats.send_calls += 1;
                    stats.sent += taken as u64;
                    self.proven |= call == SendCall::Sendmmsg;
                    if taken < segments {
                        // The reason is not told: a report that nobody has read would keep the socket "ready".
                        stats.note_icmp_errors(kernel.drain_icmp_errors(None));
                    }
                    taken
                }
                Err(error) if self.must_change(call, &error) => continue,
                Err(error) if call == SendCall::Gso && classify(&error, true) == SendFailure::TooBig => {
                    offload = false;
                    continue;
                }
                Err(error) => {
                    // Of several datagrams in one `sendmmsg` it is the first that was refused.
                    let refused = if call == SendCall::Sendmmsg { 1 } else { segments };
                    let mut failure = classify(&error, false);
                    match failure {
                        SendFailure::WouldBlock => {
                            stats.blocked += 1;
                            self.stuck = Some((peer, at));
                            return result;
                        }
                        SendFailure::Unreachable => {
                            stats.note_icmp_errors(kernel.drain_icmp_errors(Some(&error)));
                            continue;
                        }
                        SendFailure::Soft => {
                            let reports = kernel.drain_icmp_errors(Some(&error));
                            stats.note_icmp_errors(reports);
                            if reports.count() > 0 && retried.replace(at) != Some(at) {
                                continue;
                            }
                            failure = match reports.count() {
                                0 => SendFailure::Refused,
                                _ => SendFailure::Unreachable,
                            };
                        }
                        _ => {}
                    }
                    stats.count_lost(failure, refused);
                    tracing::debug!(%error, peer = %peer.addr, "a datagram could not be sent");
                    if failure == SendFailure::Refused && stats.sent == 0 {
                        result = Err(error);
                    }
                    refused
                }
            };
            at += gone * size;
            if at >= total {
                return result;
            }
        }
    }

    /// Lends the batch to the kernel, if it may be and is worth it.
    fn lend(&mut self, kernel: &impl Kernel, stats: &mut UdpStats, peer: Remote) -> ZerocopySend {
        let gso = self.call(kernel) == SendCall::Gso;
        let (batch, Some(file)) = (&*self.batch, &self.file) else { return ZerocopySend::NotSent };
        let (bytes, size, ecn) = (batch.bytes(), batch.segment_size(), batch.ecn());
        let may = gso && !file.is_closed();
        let Some(place) = batch.file_offset().filter(|place| may && place.file == file.name()) else {
            return ZerocopySend::NotSent;
        };
        match kernel.lend(peer, file, place.offset, Datagrams { bytes, size, ecn }) {
            Ok(taken) if taken == bytes.len() => {
                stats.send_calls += 1;
                stats.sent += batch.segments() as u64;
                stats.sent_by_reference += batch.segments() as u64;
                ZerocopySend::Sent
            }
            Err(error) if classify(&error, false) == SendFailure::WouldBlock => {
                stats.blocked += 1;
                ZerocopySend::Blocked
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                stats.note_icmp_errors(kernel.drain_icmp_errors(Some(&error)).or(&error));
                ZerocopySend::NotSent
            }
            // Either the copy will meet the same, or it was news of an earlier datagram and is told with it.
            Err(error) if classify(&error, false) == SendFailure::Soft && !is_loan_refused(&error) => {
                stats.note_icmp_errors(kernel.drain_icmp_errors(Some(&error)));
                ZerocopySend::NotSent
            }
            // The copy will meet the same, and be counted.
            Err(error) if !is_loan_refused(&error) => ZerocopySend::NotSent,
            refused => {
                tracing::debug!(?refused, "the kernel takes no memory by reference; batches are copied");
                file.close();
                ZerocopySend::NotSent
            }
        }
    }

    /// Gives up a way to send that the kernel refuses; true if it was this error's reason.
    fn must_change(&mut self, call: SendCall, error: &io::Error) -> bool {
        match call {
            SendCall::Gso if classify(error, true) == SendFailure::Offload => {
                tracing::info!(%error, "segmentation offload failed; sending without it");
                self.gso = false;
                self.given_up.gso = error.raw_os_error();
                true
            }
            SendCall::Sendmmsg if is_call_refused(error, self.proven) => {
                tracing::info!(%error, "sendmmsg failed; sending datagrams one by one");
                self.sendmmsg = false;
                self.given_up.sendmmsg = error.raw_os_error();
                true
            }
            _ => false,
        }
    }
}

/// What became of the offer of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ZerocopySend {
    Sent,
    /// The socket is full.
    Blocked,
    /// It is to be copied.
    NotSent,
}

/// EINVAL, ENOSYS and EOPNOTSUPP from a kernel that takes no pages for a datagram, EIO from a card that cannot cut them,
/// EPERM from a filter of system calls: reasons that stay.
fn is_loan_refused(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(1 | 5 | 22 | 38 | 95))
}

/// ENOSYS from a kernel without the call, EPERM from a filter of system calls, EINVAL from one that takes no codepoint
/// with it; once the call has worked, the last two are rules against this peer.
fn is_call_refused(error: &io::Error, proven: bool) -> bool {
    match error.raw_os_error() {
        Some(38) => true,
        Some(1 | 22) => !proven,
        _ => false,
    }
}

#[cfg(test)]
mod tests;
