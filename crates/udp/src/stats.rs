//! Counters of a socket, and the offloads in use.

use crate::error::SendFailure;
use crate::icmp::IcmpErrors;
use crate::send_batch::{GivenUp, SendCall};

/// How batches are moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offload {
    /// How more than one datagram is sent at present.
    pub send_call: SendCall,
    /// Datagrams in one call at present.
    pub send_segments: usize,
    /// Large batches are lent to the kernel at present, not copied.
    pub by_reference: bool,
    /// Segments that one received message may hold; 1 without offload.
    pub receive_segments: usize,
    /// What was tried and is not any more.
    pub given_up: GivenUp,
}

impl Offload {
    /// Adds another socket's: what all of them can do at present, and what any gave up.
    pub fn merge(&mut self, other: &Self) {
        self.send_call = self.send_call.max(other.send_call);
        self.send_segments = self.send_segments.min(other.send_segments);
        self.by_reference &= other.by_reference;
        self.receive_segments = self.receive_segments.min(other.receive_segments);
        self.given_up.gso = self.given_up.gso.or(other.given_up.gso);
        self.given_up.sendmmsg = self.given_up.sendmmsg.or(other.given_up.sendmmsg);
    }
}

/// What a socket counted.
#[derive(Debug, Clone, Copy, Default)]
pub struct UdpStats {
    /// Datagrams that the kernel took.
    pub sent: u64,
    /// Of these, datagrams that were lent to the kernel and not copied.
    pub sent_by_reference: u64,
    /// Calls that sent them.
    pub send_calls: u64,
    /// Datagrams read.
    pub received: u64,
    /// Messages in which they came: receive offload joins many datagrams in one.
    pub received_messages: u64,
    /// Calls that read them.
    pub receive_calls: u64,
    /// Times that the socket was full; the batch was kept.
    pub blocked: u64,
    /// Datagrams lost because the kernel had no memory for them.
    pub lost_no_buffers: u64,
    /// Datagrams lost because they are longer than the interface can carry.
    pub lost_too_big: u64,
    /// Datagrams that could not be sent for another reason.
    pub lost_other: u64,
    /// IcmpErrors that a datagram found nobody at its destination, or no way there.
    pub unreachable: u64,
    /// Those of them that say that nobody listens.
    pub refused: u64,
    /// The newest of these says that there is no way there, and not that nobody listens; of several sockets, that of each
    /// which was told anything.
    pub no_route: bool,
    /// Messages that arrived and found the receive buffer full, where the system tells: lost in this host, not in the
    /// network. With receive offload a message is up to 64 datagrams, and how many they were nobody counts.
    pub receive_overflow: Option<u64>,
    /// Receive buffer granted, bytes. Linux grants twice what it was asked for, and charges more than a datagram's bytes.
    pub receive_buffer: usize,
    /// Receive buffer asked for, bytes.
    pub receive_buffer_asked: usize,
    /// Send buffer granted, bytes.
    pub send_buffer: usize,
}

impl UdpStats {
    /// Adds another socket's counts; buffer sizes are per socket and stay.
    pub fn merge(&mut self, other: &Self) {
        self.sent += other.sent;
        self.sent_by_reference += other.sent_by_reference;
        self.send_calls += other.send_calls;
        self.received += other.received;
        self.received_messages += other.received_messages;
        self.receive_calls += other.receive_calls;
        self.blocked += other.blocked;
        self.lost_no_buffers += other.lost_no_buffers;
        self.lost_too_big += other.lost_too_big;
        self.lost_other += other.lost_other;
        // A socket that was told nothing says nothing, and one that was refused found a way.
        let silent = |stats: &Self| stats.unreachable == 0;
        self.no_route =
            (self.no_route || silent(self) && other.no_route) && (other.no_route || silent(other));
        self.unreachable += other.unreachable;
        self.refused += other.refused;
        self.receive_overflow = self.receive_overflow.zip(other.receive_overflow).map(|(a, b)| a + b);
    }

    /// These came, after all others.
    pub(crate) fn note_icmp_errors(&mut self, reports: IcmpErrors) {
        self.unreachable += reports.count();
        self.refused += reports.refused;
        if reports.count() > 0 {
            self.no_route = reports.newest_is_unreachable;
        }
    }

    /// So many datagrams will not arrive, for this reason.
    pub(crate) fn count_lost(&mut self, reason: SendFailure, datagrams: usize) {
        *match reason {
            SendFailure::NoBuffers => &mut self.lost_no_buffers,
            SendFailure::TooBig => &mut self.lost_too_big,
            _ => &mut self.lost_other,
        } += datagrams as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_found_no_way_if_each_that_was_told_anything_found_none() {
        let told = |unreachable, no_route| UdpStats { unreachable, no_route, ..UdpStats::default() };
        let merged = |mut a: UdpStats, b: UdpStats| {
            a.merge(&b);
            (a.unreachable, a.no_route)
        };
        assert_eq!(merged(told(1, true), told(0, false)), (1, true));
        assert_eq!(merged(told(0, false), told(2, true)), (2, true));
        assert_eq!(merged(told(1, true), told(2, true)), (3, true));
        assert_eq!(merged(told(1, true), told(1, false)), (2, false));
        assert_eq!(merged(told(1, false), told(1, true)), (2, false));
        assert_eq!(merged(told(0, false), told(0, false)), (0, false));
    }

    #[test]
    fn sockets_together_do_what_the_weakest_does() {
        let able = Offload {
            send_call: SendCall::Gso,
            send_segments: 64,
            by_reference: true,
            receive_segments: 64,
            given_up: GivenUp::default(),
        };
        let given_up = GivenUp { gso: Some(22), sendmmsg: None };
        let weak = Offload { send_call: SendCall::Sendmmsg, by_reference: false, given_up, ..able };
        let weaker = Offload { send_call: SendCall::Single, send_segments: 1, receive_segments: 1, ..able };
        for mut order in [[able, weak, weaker], [weaker, able, weak], [weak, weaker, able]] {
            let [total, others @ ..] = &mut order;
            for other in others {
                total.merge(other);
            }
            assert_eq!(*total, Offload { given_up, by_reference: false, ..weaker });
        }
    }
}
