//! Lines about the sockets at the end of a program: batching, buffer sizes, overflows, and offload
//! that failed.

use std::io;

use rdt_transport::ReceiverStats;
use rdt_udp::{Offload, SendCall, UdpStats};

pub(crate) fn sent_line(stats: &UdpStats, offload: &Offload) -> Option<String> {
    let each = mean(stats.sent, stats.send_calls)?;
    let call = match offload.send_call {
        SendCall::Single => "single calls",
        other => other.name(),
    };
    let zero_copy = if stats.sent_by_reference > 0 { ", zero-copy" } else { "" };
    let buffers = [stats.send_buffer, stats.receive_buffer].map(size);
    Some(format!(
        "sent by {call}, {each} a call{zero_copy}; socket buffers {} to send and {} to receive",
        buffers[0], buffers[1]
    ))
}

pub(crate) fn received_line(stats: &UdpStats, offload: &Offload) -> Option<String> {
    let each = mean(stats.received, stats.received_messages)?;
    let joined = if offload.receive_segments > 1 { "gro" } else { "no gro" };
    Some(format!(
        "received {} messages of {each} datagrams ({joined}); socket buffer {}",
        stats.received_messages,
        size(stats.receive_buffer)
    ))
}

/// Returns warnings about offload that the system announced but that failed.
pub(crate) fn warnings(stats: &UdpStats, offload: &Offload) -> Vec<String> {
    let now = offload.send_call.name();
    let failed = |what, errno| {
        format!("warning: {what} failed: {}; sent by {now} from then on", io::Error::from_raw_os_error(errno))
    };
    let given_up = offload.given_up;
    let mut lines: Vec<String> =
        given_up.gso.map(|errno| failed("segmentation offload", errno)).into_iter().collect();
    lines.extend(given_up.sendmmsg.map(|errno| failed("sendmmsg", errno)));
    // Zero-copy needs GSO, and the failure of GSO is already reported.
    if stats.sent_by_reference > 0 && !offload.by_reference && given_up.gso.is_none() {
        lines.push("warning: zero-copy failed; the kernel copied batches from then on".into());
    }
    lines
}

/// Returns a line about receive buffer overflows, with a remedy; `None` without overflows.
pub(crate) fn overflow_line(name: &str, socket: &UdpStats) -> Option<String> {
    let lost = socket.receive_overflow.filter(|lost| *lost > 0)?;
    Some(format!(
        "{lost} messages (up to 64 datagrams each) found the {name} buffer ({} bytes) full: lost in this host, not in the network; {}",
        socket.receive_buffer,
        remedy(socket)
    ))
}

/// Returns a line about windows that the receive buffer limited, with a remedy.
pub(crate) fn limit_line(name: &str, socket: &UdpStats, receivers: &ReceiverStats) -> Option<String> {
    let limited = Some(receivers.socket_limited).filter(|limited| *limited > 0)?;
    Some(format!(
        "senders waited for a window that the {name} buffer ({} bytes) kept small, in {limited} round trips; {}",
        socket.receive_buffer,
        remedy(socket)
    ))
}

/// Returns the remedy for a small receive buffer. The system's limit is the cause if less was
/// granted than requested; Linux grants twice the request.
fn remedy(socket: &UdpStats) -> String {
    let asked = socket.receive_buffer_asked;
    if socket.receive_buffer < asked.saturating_mul(2) && cfg!(target_os = "linux") {
        format!("sysctl net.core.rmem_max={asked} raises it")
    } else {
        "a larger --socket-buffer raises it".into()
    }
}

/// Formats `count / of`, small values with one decimal; `None` if `of` is 0.
#[expect(clippy::cast_precision_loss, reason = "printed to two digits")]
fn mean(count: u64, of: u64) -> Option<String> {
    let mean = (of > 0).then(|| count as f64 / of as f64)?;
    let decimals = usize::from(mean < 9.95 && (mean - mean.round()).abs() >= 0.05);
    Some(format!("{mean:.decimals$}"))
}

/// Formats a number of bytes, in decimal units.
#[expect(clippy::cast_precision_loss, reason = "printed to two digits")]
fn size(bytes: usize) -> String {
    match bytes {
        0..1000 => format!("{bytes} B"),
        1000..1_000_000 => format!("{:.0} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use rdt_udp::GivenUp;

    use super::*;

    const OFFLOAD: Offload = Offload {
        send_call: SendCall::Gso,
        send_segments: 44,
        by_reference: true,
        receive_segments: 64,
        given_up: GivenUp { gso: None, sendmmsg: None },
    };

    fn stats() -> UdpStats {
        UdpStats {
            sent: 4400,
            sent_by_reference: 44,
            send_calls: 100,
            received: 35,
            received_messages: 10,
            send_buffer: 4_194_304,
            receive_buffer: 425_984,
            ..UdpStats::default()
        }
    }

    #[test]
    fn socket_lines_name_call_and_buffers() {
        let sent = sent_line(&stats(), &OFFLOAD).unwrap();
        assert_eq!(
            sent,
            "sent by gso, 44 a call, zero-copy; socket buffers 4.2 MB to send and 426 kB to receive"
        );
        let received = received_line(&stats(), &OFFLOAD).unwrap();
        assert_eq!(received, "received 10 messages of 3.5 datagrams (gro); socket buffer 426 kB");
        let without = Offload { send_call: SendCall::Single, receive_segments: 1, ..OFFLOAD };
        let copied = UdpStats { sent: 100, sent_by_reference: 0, ..stats() };
        assert!(sent_line(&copied, &without).unwrap().starts_with("sent by single calls, 1 a call; "));
        assert!(received_line(&copied, &without).unwrap().contains("(no gro)"));
        let nothing = UdpStats::default();
        assert_eq!((sent_line(&nothing, &OFFLOAD), received_line(&nothing, &OFFLOAD)), (None, None));
    }

    #[test]
    fn failed_offload_gives_one_warning_each() {
        assert_eq!(warnings(&stats(), &OFFLOAD), [""; 0]);
        let copies = Offload { by_reference: false, ..OFFLOAD };
        assert_eq!(
            warnings(&stats(), &copies),
            ["warning: zero-copy failed; the kernel copied batches from then on"]
        );
        assert_eq!(warnings(&UdpStats { sent_by_reference: 0, ..stats() }, &copies), [""; 0], "never worked");
        let given_up = GivenUp { gso: Some(22), sendmmsg: Some(38) };
        let single = Offload { given_up, send_call: SendCall::Single, ..copies };
        let lines = warnings(&stats(), &single);
        assert_eq!(lines.len(), 2, "{lines:?}");
        for (line, what) in lines.iter().zip(["segmentation offload", "sendmmsg"]) {
            assert!(line.starts_with(&format!("warning: {what} failed: ")), "{line}");
            assert!(line.ends_with("; sent by single from then on"), "{line}");
        }
    }

    fn full(lost: Option<u64>, receive_buffer: usize) -> UdpStats {
        let receive_buffer_asked = 32 << 20;
        UdpStats { receive_overflow: lost, receive_buffer, receive_buffer_asked, ..UdpStats::default() }
    }

    #[test]
    fn overflow_line_names_remedy() {
        assert_eq!(overflow_line("socket's", &full(None, 4096)), None);
        assert_eq!(overflow_line("socket's", &full(Some(0), 4096)), None);
        let line = overflow_line("receiver's socket", &full(Some(7), 4096)).unwrap();
        let start =
            "7 messages (up to 64 datagrams each) found the receiver's socket buffer (4096 bytes) full: ";
        assert!(line.starts_with(start), "{line}");
        if cfg!(target_os = "linux") {
            assert!(line.ends_with("; sysctl net.core.rmem_max=33554432 raises it"), "{line}");
        }
        let line = overflow_line("socket's", &full(Some(7), 64 << 20)).unwrap();
        assert!(line.ends_with("; a larger --socket-buffer raises it"), "{line}: all was granted");
    }

    #[test]
    fn limited_window_line_names_remedy() {
        let limited = |socket_limited| ReceiverStats { socket_limited, ..ReceiverStats::default() };
        assert_eq!(limit_line("socket's", &full(None, 4096), &limited(0)), None);
        let line = limit_line("socket's", &full(None, 4096), &limited(9)).unwrap();
        let start = "senders waited for a window that the socket's buffer (4096 bytes) kept small, in 9 round trips; ";
        assert!(line.starts_with(start) && line.ends_with(" raises it"), "{line}");
    }
}
