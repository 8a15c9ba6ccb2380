//! Sockets: addresses, buffer sizes and offload.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use rdt_transport::SenderConfig;
use rdt_trust::bind_or_any;
use rdt_udp::{SocketError, UdpIo, UdpOptions};

use crate::args::target;

/// Smallest default buffer, bytes: room for a burst.
const MIN_BUFFER: usize = 256 << 10;
const MAX_DATA_BUFFER: usize = 32 << 20;
/// Largest default buffer for ACKs, bytes. It is smaller than that for data, because ACKs are short
/// and a later ACK replaces a lost one.
const MAX_ACK_BUFFER: usize = 4 << 20;
/// Limit on the default receive buffers of all threads of a receiver together, bytes.
const MAX_BUFFER_ALL_THREADS: usize = 256 << 20;
/// Kernel memory charged for one short datagram (truesize), bytes.
const ACK_TRUESIZE: usize = 832;
/// Limit on the time to send the last packets at exit while the socket is full.
pub(crate) const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Returns the options of a sender. By default the send buffer has room for a window, and the
/// receive buffer for one ACK of each packet in the window.
pub(crate) fn of_sender(config: &SenderConfig, asked: Option<usize>, options: UdpOptions) -> UdpOptions {
    let window = config.window as usize;
    UdpOptions {
        receive_buffer: asked
            .unwrap_or(window.saturating_mul(ACK_TRUESIZE).clamp(MIN_BUFFER, MAX_ACK_BUFFER)),
        send_buffer: asked
            .unwrap_or(window.saturating_mul(config.packet_size).clamp(MIN_BUFFER, MAX_DATA_BUFFER)),
        ..options
    }
}

pub(crate) fn of_receiver(threads: usize, asked: Option<usize>, options: UdpOptions) -> UdpOptions {
    UdpOptions {
        receive_buffer: asked.unwrap_or(MAX_DATA_BUFFER.min(MAX_BUFFER_ALL_THREADS / threads.max(1))),
        send_buffer: MAX_ACK_BUFFER,
        ..options
    }
}

/// Binds a socket by `bind` to the address that was asked for, or to the default port of all
/// interfaces: of IPv4 alone if this host has no IPv6.
pub(crate) fn bind_asked<T>(
    asked: Option<SocketAddr>,
    bind: impl Fn(SocketAddr) -> io::Result<T>,
) -> Result<T, SocketError> {
    let bound = bind_or_any(asked, target::DEFAULT_PORT, bind);
    bound.map_err(|(address, error)| SocketError::Bind { address, error })
}

/// Binds a UDP socket, for [`bind_asked`].
pub(crate) fn bind_udp(address: SocketAddr, options: UdpOptions) -> io::Result<UdpIo> {
    Ok(UdpIo::bind(address, options)?)
}

#[cfg(test)]
mod tests {
    use rdt_transport::LinkProperties;

    use super::*;

    const LINK: LinkProperties =
        LinkProperties { rtt_s: 0.0, speed_bps: 1e9, loss_forward: 0.0, loss_reverse: 0.0, buffer: 100 };

    #[test]
    fn default_buffers_follow_window_and_threads() {
        let none = UdpOptions::default();
        let of = |window, asked| {
            let options = of_sender(&SenderConfig::new(window, LINK), asked, none);
            (options.receive_buffer, options.send_buffer)
        };
        assert_eq!(of(64, None), (MIN_BUFFER, MIN_BUFFER));
        assert_eq!(of(4096, None), (4096 * 832, 4096 * 1472));
        assert_eq!(of(1_000_000, None), (MAX_ACK_BUFFER, MAX_DATA_BUFFER));
        assert_eq!(of(4096, Some(9000)), (9000, 9000));
        let threads = |threads, asked| of_receiver(threads, asked, none).receive_buffer;
        assert_eq!(
            (threads(1, None), threads(8, None), threads(256, None)),
            (MAX_DATA_BUFFER, MAX_DATA_BUFFER, 1 << 20)
        );
        assert_eq!(threads(256, Some(MAX_DATA_BUFFER)), MAX_DATA_BUFFER);
    }
}
