//! What of the system's ways to move datagrams a program used, for people: told once, at its end.

use std::io;

use rdt_driver::{Offload, SendCall, UdpStats};

/// How datagrams left, and with what buffers.
pub(crate) fn sent_line(stats: &UdpStats, offload: &Offload) -> Option<String> {
    let each = mean(stats.sent, stats.send_calls)?;
    let call = match offload.send_call {
        SendCall::Single => "single calls",
        other => other.name(),
    };
    let lent = if stats.sent_by_reference > 0 { ", lent" } else { "" };
    let buffers = [stats.send_buffer, stats.receive_buffer].map(size);
    Some(format!(
        "sent by {call}, {each} a call{lent}; socket buffers {} to send and {} to receive",
        buffers[0], buffers[1]
    ))
}

/// How datagrams arrived.
pub(crate) fn received_line(stats: &UdpStats, offload: &Offload) -> Option<String> {
    let each = mean(stats.received, stats.received_messages)?;
    let joined = if offload.receive_segments > 1 { "gro" } else { "no gro" };
    Some(format!(
        "received {} messages of {each} datagrams ({joined}); socket buffer {}",
        stats.received_messages,
        size(stats.receive_buffer)
    ))
}

/// What did not work any more, or not at all, although the system has it.
pub(crate) fn warnings(stats: &UdpStats, offload: &Offload) -> Vec<String> {
    let now = offload.send_call.name();
    let failed = |what, errno| {
        format!("warning: {what} failed: {}; sent by {now} from then on", io::Error::from_raw_os_error(errno))
    };
    let given_up = offload.given_up;
    let mut lines: Vec<String> =
        given_up.gso.map(|errno| failed("segmentation offload", errno)).into_iter().collect();
    lines.extend(given_up.sendmmsg.map(|errno| failed("sendmmsg", errno)));
    // Without segmentation offload nothing can be lent, which goes without saying then.
    if stats.sent_by_reference > 0 && !offload.by_reference && given_up.gso.is_none() {
        lines.push("warning: sending by reference failed; copied from then on".into());
    }
    lines
}

/// `count` over `of`, in words: to a tenth where that is much.
#[expect(clippy::cast_precision_loss, reason = "printed to two digits")]
fn mean(count: u64, of: u64) -> Option<String> {
    let mean = (of > 0).then(|| count as f64 / of as f64)?;
    let decimals = usize::from(mean < 9.95 && (mean - mean.round()).abs() >= 0.05);
    Some(format!("{mean:.decimals$}"))
}

/// Bytes, in decimal units.
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
    use rdt_driver::GivenUp;

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
    fn what_was_used_is_told() {
        let sent = sent_line(&stats(), &OFFLOAD).unwrap();
        assert_eq!(sent, "sent by gso, 44 a call, lent; socket buffers 4.2 MB to send and 426 kB to receive");
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
    fn what_failed_is_told_once() {
        assert_eq!(warnings(&stats(), &OFFLOAD), [""; 0]);
        let copies = Offload { by_reference: false, ..OFFLOAD };
        assert_eq!(
            warnings(&stats(), &copies),
            ["warning: sending by reference failed; copied from then on"]
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
}
