//! Counters of a socket, and the offloads in use.

use crate::error::SendFailure;
use crate::icmp::IcmpErrors;
use crate::send_batch::{GivenUp, SendCall};

/// Offloads in use by a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offload {
    /// Send call used at present for several datagrams.
    pub send_call: SendCall,
    /// Largest number of datagrams in one send call at present.
    pub send_segments: usize,
    /// True if large batches are sent by reference (zero-copy) at present.
    pub by_reference: bool,
    /// Largest number of datagrams in a received message; 1 without offload.
    pub receive_segments: usize,
    /// Send calls given up because the kernel refused them.
    pub given_up: GivenUp,
}

impl Offload {
    /// Merges the offloads of another socket: the weakest in use, and all that were given up.
    pub fn merge(&mut self, other: &Self) {
        self.send_call = self.send_call.max(other.send_call);
        self.send_segments = self.send_segments.min(other.send_segments);
        self.by_reference &= other.by_reference;
        self.receive_segments = self.receive_segments.min(other.receive_segments);
        self.given_up.gso = self.given_up.gso.or(other.given_up.gso);
        self.given_up.sendmmsg = self.given_up.sendmmsg.or(other.given_up.sendmmsg);
    }
}

/// Counters of a socket.
#[derive(Debug, Clone, Copy, Default)]
pub struct UdpStats {
    /// Datagrams sent.
    pub sent: u64,
    /// Datagrams sent by reference, included in `sent`.
    pub sent_by_reference: u64,
    /// Successful send calls.
    pub send_calls: u64,
    /// Datagrams returned by [`UdpIo::recv`](rdt_datagram::DatagramIo::recv).
    pub received: u64,
    /// Messages received. GRO coalesces many datagrams into one message.
    pub received_messages: u64,
    /// Successful receive calls.
    pub receive_calls: u64,
    /// Sends that found the socket full, whose batch was sent later.
    pub blocked: u64,
    /// Datagrams lost at sending for lack of kernel memory.
    pub lost_no_buffers: u64,
    /// Datagrams lost at sending because they exceed the interface MTU.
    pub lost_too_big: u64,
    /// Datagrams lost at sending for other reasons.
    pub lost_other: u64,
    /// Error number of the newest refusal to send, before any datagram was sent.
    pub refusal: Option<i32>,
    /// ICMP errors of both kinds: port unreachable, and no route.
    pub unreachable: u64,
    /// ICMP port-unreachable errors.
    pub refused: u64,
    /// True if the newest ICMP error is not port unreachable. After a merge: true if that holds for
    /// every socket that received an ICMP error.
    pub no_route: bool,
    /// Messages dropped because the receive buffer of this host was full; `None` if the system does
    /// not report it. A coalesced message counts once, although it has up to 64 datagrams.
    pub receive_overflow: Option<u64>,
    /// Receive buffer granted, bytes. Linux grants twice the request, as it charges truesize.
    pub receive_buffer: usize,
    /// Receive buffer requested, bytes.
    pub receive_buffer_asked: usize,
    /// Send buffer granted, bytes.
    pub send_buffer: usize,
}

impl UdpStats {
    /// Adds the counters of another socket. Buffer sizes are not added: they are per socket.
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
        self.refusal = other.refusal.or(self.refusal);
        // `no_route` holds only if it holds for every socket that got ICMP errors: a
        // port-unreachable error at one of them proves that there is a route.
        let silent = |stats: &Self| stats.unreachable == 0;
        self.no_route =
            (self.no_route || silent(self) && other.no_route) && (other.no_route || silent(other));
        self.unreachable += other.unreachable;
        self.refused += other.refused;
        self.receive_overflow = self.receive_overflow.zip(other.receive_overflow).map(|(a, b)| a + b);
    }

    /// Adds ICMP errors just read, the newest of which determines `no_route`.
    pub(crate) fn note_icmp_errors(&mut self, reports: IcmpErrors) {
        self.unreachable += reports.count();
        self.refused += reports.refused;
        if reports.count() > 0 {
            self.no_route = reports.newest_is_no_route;
        }
    }

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
    fn merged_no_route_needs_all_sockets() {
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
    fn merged_offload_is_the_weakest() {
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
