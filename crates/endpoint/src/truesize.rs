//! Kernel accounting of a UDP socket's receive buffer. Linux charges more memory for a datagram
//! than its payload (`truesize`), so a listener needs these values to advertise windows that fit
//! the buffer.

use std::time::Duration;

use rdt_transport::SocketBuffer;

/// Bytes in flight of all peers together beyond which throughput no longer grows. A thread that
/// shares its processor sends a whole window at once, and the window stays in memory until it is
/// acknowledged; more than this exceeds the processor caches. Measured:
/// docs/measurements/2026-11-22-connections.md (20 MiB), 2026-11-26-windows.md (8 MiB).
const USEFUL_BYTES: u64 = 8 << 20;
/// Bytes in flight that are worth a wake-up of one peer: 1.5 times the bytes of one system call.
const USEFUL_PEER_BYTES: u64 = 144 << 10;
/// Lower bound of the rate at which a busy host reads arriving data, bytes/s.
const MIN_DRAIN_RATE: u64 = 2_000_000_000;
/// Lower bound of the part of an RTT spent in the hosts, for scheduling and batching. Data in
/// flight during that time may be waiting in the socket's receive buffer.
const MIN_HOST_DELAY: Duration = Duration::from_millis(1);

/// Describes a receive buffer of `receive_buffer` bytes (the value of `SO_RCVBUF`) for
/// [`ConnectionSetConfig::socket_buffer`](rdt_transport::ConnectionSetConfig::socket_buffer).
pub fn socket_buffer(receive_buffer: usize) -> SocketBuffer {
    SocketBuffer {
        // Linux frees space for new datagrams only once a quarter of the buffer was read, as long
        // as more data waits (`udp_rmem_release`).
        capacity: receive_buffer as u64 / 4 * 3,
        charge,
        useful_bytes: USEFUL_BYTES,
        useful_peer_bytes: USEFUL_PEER_BYTES,
        min_drain_rate: MIN_DRAIN_RATE,
        min_host_delay: MIN_HOST_DELAY,
    }
}

/// Returns an upper bound of the bytes that Linux charges for a datagram of `payload` bytes that
/// arrives alone. Measured with `SO_MEMINFO` over loopback: up to 15 KiB, the data, all headers and
/// 320 bytes of bookkeeping occupy a power of two; the packet's descriptor adds 256 bytes. So 1472
/// bytes are charged as 2304. A tiny datagram is charged as 832; the bound is 1280 there. Coalesced
/// datagrams (GRO) are charged little more than their bytes.
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
