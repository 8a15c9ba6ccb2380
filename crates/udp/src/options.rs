//! Options of a socket, and the buffer sizes that are requested.

use socket2::Socket as RawSocket;

/// Options of a socket.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "switches, each of which a user may turn")]
pub struct UdpOptions {
    /// Requested receive buffer, bytes.
    pub receive_buffer: usize,
    /// Requested send buffer, bytes.
    pub send_buffer: usize,
    /// Send with segmentation offload (GSO), if the system has it.
    pub gso: bool,
    /// Receive with offload (GRO), if the system has it.
    pub gro: bool,
    /// Send large batches by reference (zero-copy), if the system can and the socket has one peer.
    /// Faster for a connection with a processor and its cache for itself; with 64 connections in
    /// one thread, copying is faster.
    pub by_reference: bool,
    /// Let other sockets of this user bind to the same port; the system spreads the peers over
    /// them.
    pub share_port: bool,
}

impl Default for UdpOptions {
    /// 32 MiB in each direction (the kernel grants less by its limits), offloads on, batches
    /// copied.
    fn default() -> Self {
        Self {
            receive_buffer: 32 << 20,
            send_buffer: 32 << 20,
            gso: true,
            gro: true,
            by_reference: false,
            share_port: false,
        }
    }
}

/// Requests buffer sizes; [`UdpStats`](crate::UdpStats) has those granted. A receive buffer smaller
/// than the senders' windows overflows whenever the receiver is not scheduled for a moment, so a
/// privileged process exceeds the system's limit.
pub(crate) fn request_buffers(socket: &RawSocket, options: &UdpOptions) {
    let _ = socket.set_send_buffer_size(options.send_buffer);
    #[cfg(linux_api)]
    if rustix::net::sockopt::set_socket_recv_buffer_size_force(socket, options.receive_buffer).is_ok() {
        return;
    }
    let _ = socket.set_recv_buffer_size(options.receive_buffer);
}
