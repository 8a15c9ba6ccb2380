//! Kernel accounting of a UDP socket's receive buffer. Linux charges a datagram more than its bytes
//! (`truesize`), so a listener needs these values to offer windows that the buffer can hold.

use std::time::Duration;

use rdt_transport::SocketBuffer;

/// Bytes in flight of all peers together above which throughput does not grow. A thread that shares
/// its processor sends a window in one go and keeps it in memory until it is acknowledged; more
/// than this fits no cache, and no processor is busier for it. Measured:
/// docs/measurements/2026-11-22-connections.md.
const USEFUL_BYTES: u64 = 20 << 20;
/// Bytes in flight that are worth waking one peer up for: 1.5 times what one system call takes.
const USEFUL_PEER_BYTES: u64 = 144 << 10;
/// Bytes a second that a busy host processes at least if that much arrives.
const MIN_DRAIN_RATE: u64 = 2_000_000_000;
/// Part of an RTT that is not the network's: hosts wake up and batch. Data in flight in that time
/// may as well be in the socket's buffer.
const MIN_HOST_DELAY: Duration = Duration::from_millis(1);

/// Describes a receive buffer of this many bytes (what `SO_RCVBUF` returns) for
/// [`ListenerConfig::socket_buffer`](rdt_transport::ListenerConfig::socket_buffer).
pub fn socket_buffer(receive_buffer: usize) -> SocketBuffer {
    SocketBuffer {
        // Linux returns space only after a quarter of the buffer was read while more waits
        // (`udp_rmem_release`).
        capacity: receive_buffer as u64 / 4 * 3,
        charge,
        useful_bytes: USEFUL_BYTES,
        useful_peer_bytes: USEFUL_PEER_BYTES,
        min_drain_rate: MIN_DRAIN_RATE,
        min_host_delay: MIN_HOST_DELAY,
    }
}

/// Returns an upper bound of the bytes that Linux charges for a datagram with this many bytes of
/// payload that arrives alone. Measured with `SO_MEMINFO` over loopback: up to 16 KiB, memory comes
/// in powers of two, which include all headers and 320 bytes of bookkeeping; a record of 256 bytes
/// is charged besides. So 1472 bytes are charged as 2304, and 12 as
/// 832. Coalesced datagrams (GRO) are charged little more than their bytes.
fn charge(payload: u64) -> u64 {
    const OVERHEAD: u64 = 480;
    const RECORD: u64 = 256;
    const MAX_POWER_OF_TWO: u64 = 15 << 10;
    if payload > MAX_POWER_OF_TWO {
        return payload.saturating_add(1024);
    }
    (payload + OVERHEAD).next_power_of_two().max(1024) + RECORD
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charge_bounds_measured_truesize() {
        let seen =
            [(12, 832), (100, 832), (590, 1280), (620, 1280), (1000, 2304), (1444, 2304), (1472, 2304)];
        let large = [(2000, 4352), (4000, 8448), (9000, 16_640), (20_000, 20_832), (60_000, 60_832)];
        for (datagram, charged) in seen.into_iter().chain(large) {
            assert!((charged..=2 * charged).contains(&charge(datagram)), "{datagram}: {}", charge(datagram));
        }
        assert_eq!((charge(1472), charge(1444)), (2304, 2304));
    }

    #[test]
    fn three_quarters_of_the_buffer_are_usable() {
        assert_eq!(socket_buffer(425_984).capacity, 319_488);
    }
}
