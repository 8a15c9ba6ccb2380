//! What the programs' sockets are asked for, and what there is to say of their buffers.

use std::time::Duration;

use rdt_driver::UdpOptions;
use rdt_emulator::parse_bytes;
use rdt_transport::SenderConfig;

use crate::Failure;
use crate::args::Switch;

/// The least that is asked for, in bytes: a burst fits.
const LEAST: usize = 256 << 10;
/// The most for what a receiver reads or a sender sends, in bytes.
const MOST: usize = 32 << 20;
/// The most for answers, which are small and of which the newest says it all, in bytes.
const ANSWERS: usize = 4 << 20;
/// The most that the threads of a receiver ask for together, in bytes.
const ALL_THREADS: usize = 256 << 20;
/// What the system charges for an answer at most, in bytes: a short one counts as 832.
const ANSWER: usize = 832;
/// How long a program that exits waits for room in the socket, to send its last packets.
pub(crate) const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);
/// What users may ask for, in bytes.
const ASKED: std::ops::RangeInclusive<u64> = 4 << 10..=1 << 30;

/// Batches as these switches say.
pub(crate) fn offload(gso: Switch, gro: Switch) -> UdpOptions {
    UdpOptions { gso: gso == Switch::On, gro: gro == Switch::On, ..UdpOptions::default() }
}

/// Reads `--socket-buffer`.
pub(crate) fn parse_buffer(text: &str) -> Result<usize, Failure> {
    let bytes = parse_bytes(text).map_err(|e| Failure::Usage(format!("--socket-buffer: {e}")))?;
    match usize::try_from(bytes) {
        Ok(size) if ASKED.contains(&bytes) => Ok(size),
        _ => Err(Failure::Usage("--socket-buffer must be from 4kib to 1gib".into())),
    }
}

/// For a sender: its window leaves, and an answer to each packet of it arrives.
pub(crate) fn of_sender(config: &SenderConfig, asked: Option<usize>, options: UdpOptions) -> UdpOptions {
    let window = config.window as usize;
    UdpOptions {
        receive_buffer: asked.unwrap_or(window.saturating_mul(ANSWER).clamp(LEAST, ANSWERS)),
        send_buffer: asked.unwrap_or(window.saturating_mul(config.packet_size).clamp(LEAST, MOST)),
        ..options
    }
}

/// For each of so many threads of a receiver, whose peers may have windows of any size.
pub(crate) fn of_receiver(threads: usize, asked: Option<usize>, options: UdpOptions) -> UdpOptions {
    UdpOptions {
        receive_buffer: asked.unwrap_or(MOST.min(ALL_THREADS / threads.max(1))),
        send_buffer: ANSWERS,
        ..options
    }
}

#[cfg(test)]
mod tests {
    use rdt_transport::LinkProperties;

    use super::*;

    const LINK: LinkProperties =
        LinkProperties { rtt_s: 0.0, speed_bps: 1e9, loss_forward: 0.0, loss_reverse: 0.0, buffer: 100 };

    #[test]
    fn buffers_are_asked_for_by_need() {
        let none = UdpOptions::default();
        let of = |window, asked| {
            let options = of_sender(&SenderConfig::new(window, LINK), asked, none);
            (options.receive_buffer, options.send_buffer)
        };
        assert_eq!(of(64, None), (LEAST, LEAST));
        assert_eq!(of(4096, None), (4096 * 832, 4096 * 1472));
        assert_eq!(of(1_000_000, None), (ANSWERS, MOST));
        assert_eq!(of(4096, Some(9000)), (9000, 9000));
        let threads = |threads, asked| of_receiver(threads, asked, none).receive_buffer;
        assert_eq!((threads(1, None), threads(8, None), threads(256, None)), (MOST, MOST, 1 << 20));
        assert_eq!(threads(256, Some(MOST)), MOST);
    }

    #[test]
    fn sizes_are_read_within_reason() {
        assert_eq!(parse_buffer("212992").ok(), Some(212_992));
        for bad in ["", "4095", "2gib", "-1", "x"] {
            assert!(parse_buffer(bad).is_err(), "{bad}");
        }
    }
}
