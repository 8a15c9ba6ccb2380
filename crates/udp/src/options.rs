//! Options of a socket, and the buffer sizes that are requested.

use socket2::Socket as RawSocket;

/// What to ask the kernel for.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "switches, each of which a user may turn")]
pub struct UdpOptions {
    /// Bytes of buffer for what arrives.
    pub receive_buffer: usize,
    /// Bytes of buffer for what leaves.
    pub send_buffer: usize,
    /// Send with segmentation offload where the system has it.
    pub gso: bool,
    /// Receive with datagrams joined where the system does that.
    pub gro: bool,
    /// Lend large batches to the kernel where it sends by reference and the socket has one peer, in place of having
    /// them copied. It pays for a connection that has a processor and its cache for itself: among 64 in one thread
    /// copying is faster.
    pub by_reference: bool,
    /// Let other sockets of this user bind to the same port; the system spreads senders over them.
    pub share_port: bool,
}

impl Default for UdpOptions {
    /// 32 MiB each way (the kernel grants what its limits allow), offload on, batches copied.
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

/// The kernel grants what it allows; what that was is in the statistics. A receiver's buffer that is smaller
/// than its senders' windows overflows whenever the receiver is not scheduled for a moment, so where the
/// process may exceed the system's limit, it does.
pub(crate) fn request_buffers(socket: &RawSocket, options: &UdpOptions) {
    let _ = socket.set_send_buffer_size(options.send_buffer);
    #[cfg(linux_api)]
    if rustix::net::sockopt::set_socket_recv_buffer_size_force(socket, options.receive_buffer).is_ok() {
        return;
    }
    let _ = socket.set_recv_buffer_size(options.receive_buffer);
}
