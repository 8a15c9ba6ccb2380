//! Output of `--debug`: a line for every packet, in the formats of the reference sender. Sequence
//! numbers are those in the packets: of packets in classic, byte offsets in native.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rdt_program::Console;
use rdt_transport::{Observer, Resend, Trace};

pub(crate) struct PacketLog {
    pub(crate) console: Console,
    pub(crate) start: Instant,
    pub(crate) peer: SocketAddr,
}

fn rto(rto: Duration) -> String {
    format!("RTO {:.3}", rto.as_secs_f64())
}

fn limit(of: u32) -> String {
    if of == u32::MAX { String::new() } else { format!(" of {of}") }
}

fn cause(resend: Option<Resend>) -> &'static str {
    match resend {
        None => "",
        Some(Resend::Timeout) => ", timeout",
        Some(Resend::DupAcks) => ", 3-dup ACK",
        Some(Resend::Lost) => ", lost",
        Some(Resend::Probe) => ", probe",
    }
}

impl PacketLog {
    fn since_start(&self, time: Instant) -> f64 {
        time.saturating_duration_since(self.start).as_secs_f64()
    }

    fn format(&self, now: Instant, trace: &Trace) -> Option<String> {
        let t = self.since_start(now);
        let line = match *trace {
            Trace::SynSent { seq, attempt, of, rto: timeout } => {
                format!(
                    "[{t:6.3}] --> SYN {seq} (attempt {attempt}{}, {}) to {}",
                    limit(of),
                    rto(timeout),
                    self.peer.ip()
                )
            }
            Trace::SynAckReceived { ack, window, rto: timeout } => {
                let timeout = timeout.as_secs_f64();
                format!("[{t:6.3}] <-- SYN-ACK {ack} window {window}; setting initial RTO to {timeout:.3}")
            }
            Trace::DataSent { seq, attempt, of, rto: timeout, deadline, resend } => {
                let why = cause(resend);
                let expires = self.since_start(deadline);
                format!(
                    "[{t:6.3}] --> {seq} (attempt {attempt}{}, {}, timer expires @ {expires:.3}{why})",
                    limit(of),
                    rto(timeout)
                )
            }
            Trace::AckReceived { ack, window, rto: timeout, deadline: Some(deadline), .. } => {
                let expires = self.since_start(deadline);
                format!(
                    "[{t:6.3}] <-- ACK {ack} (window {window}, {}, timer expires @ {expires:.3})",
                    rto(timeout)
                )
            }
            Trace::AckReceived { ack, window, .. } => {
                format!("[{t:6.3}] <-- ACK {ack} (window {window}, no outstanding packets)")
            }
            Trace::DupAckReceived { ack, window, dup_acks } => {
                format!("[{t:6.3}] <-- ACK {ack} (window {window}, dupACK {dup_acks})")
            }
            Trace::AttemptsExhausted { seq } => format!("{t:.3}\treached max retx count on packet {seq}"),
            Trace::FinSent { seq, attempt, of, rto: timeout } => {
                format!("[{t:6.3}] --> FIN {seq} (attempt {attempt}{}, {})", limit(of), rto(timeout))
            }
            // The status lines print these events, with and without `--debug`.
            _ => return None,
        };
        Some(line)
    }
}

impl Observer for PacketLog {
    fn on(&mut self, now: Instant, trace: &Trace) {
        if let Some(line) = self.format(now, trace) {
            self.console.line(&line);
        }
    }
}
