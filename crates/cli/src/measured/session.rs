//! Peer of `rdt-recv` over TCP or over a connection of rdt: its request, the answer, the data, the
//! report, and the end of both streams.

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use super::message::{REQUEST_BYTES, Report, Request, Verdict};
use super::peer_slots::PeerSlot;
use super::recv::{LoggedPeer, MAX_TIME, Server};
use super::stream::{CHUNK, Flowed, Outflow, Pace, SendError, is_pause};
use crate::source::DwordArray;

/// Time in which a new connection must send its request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest silence of a peer: that of native senders.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(120);
/// Longest wait for a peer to take what was sent at the end.
const END_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval of the looks at unacknowledged data.
const ACK_INTERVAL: Duration = Duration::from_millis(2);
const ONLY_MEASURES: &str = "this rdt-recv only measures: it sends to rdt-send --reverse, and stores nothing";

/// Streams to and from a peer. A call that would wait fails with `WouldBlock`, some after a moment.
pub(super) trait Pipe {
    /// Reads what has arrived: 0 bytes at the end of the peer's stream.
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize>;
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;
    /// Ends the outgoing stream.
    fn finish(&mut self) -> io::Result<()>;
    /// Sets the congestion control. Returns false if there is none of this name.
    fn set_congestion(&mut self, name: &str) -> bool;
    /// True if the peer has acknowledged all that was written.
    fn is_acknowledged(&self) -> bool;
    fn counters(&self) -> Report;
}

/// What the driver of a session does next.
pub(super) enum Step {
    /// Calls [`Session::step`] again at once.
    Again,
    /// Calls it when the streams have changed, or at this time.
    Wait(Option<Instant>),
    Ended(End),
}

pub(super) enum End {
    /// The peer has everything.
    Whole,
    /// The peer must not take what arrived for all.
    Broken,
    /// The peer asked for nothing, or was refused, for this reason.
    NotServed(&'static str),
}

/// Session of one peer.
pub(super) struct Session {
    peer: LoggedPeer,
    slot: Option<PeerSlot>,
    stage: Stage,
    /// Accepted request.
    request: Option<Request>,
    /// Part of a message that the outgoing stream has not taken yet.
    unsent: Vec<u8>,
    /// Time at which the session ends if its stage has not.
    until: Instant,
}

enum Stage {
    /// Reads the request, which `refusal` answers if there is one.
    Asked {
        message: Vec<u8>,
        refusal: Option<Verdict>,
    },
    Receiving {
        chunk: Vec<u8>,
        bytes: u64,
        times: Option<[Instant; 2]>,
    },
    Sending(Box<Sending>),
    /// Ends the outgoing stream after the last message. Without a report the peer was refused.
    Ending(Result<Report, Verdict>),
    /// Waits for the end of the peer's stream: then it has read everything.
    Ended(Result<Report, Verdict>),
}

/// Data that a peer asked for.
struct Sending {
    flow: Outflow,
    data: DwordArray,
    begun_at: Instant,
    ends_at: Option<Instant>,
    /// End of the omitted start, and the counters then, once it is over.
    omit_until: Instant,
    omitted: Option<Report>,
    is_written: bool,
}

impl Session {
    /// Begins a session, whose request is answered by `refusal` if there is one.
    pub(super) fn new(now: Instant, peer: LoggedPeer, slot: PeerSlot, refusal: Option<Verdict>) -> Self {
        let stage = Stage::Asked { message: Vec::new(), refusal };
        let until = now + REQUEST_TIMEOUT;
        Self { peer, slot: Some(slot), stage, request: None, unsent: Vec::new(), until }
    }

    /// Does what can be done without waiting.
    pub(super) fn step(&mut self, now: Instant, server: &Server, pipe: &mut impl Pipe) -> Step {
        let is_over = server.stop.is_set() || now >= self.until;
        let stepped = if is_over { Err(ErrorKind::TimedOut.into()) } else { self.advance(now, server, pipe) };
        match stepped {
            Ok(step) => step,
            Err(error) if is_pause(&error) => Step::Wait(None),
            Err(error) => Step::Ended(self.fail(server, &error)),
        }
    }

    fn advance(&mut self, now: Instant, server: &Server, pipe: &mut impl Pipe) -> io::Result<Step> {
        flush(&mut self.unsent, pipe)?;
        match &mut self.stage {
            Stage::Asked { message, .. } => {
                read_request(message, pipe)?;
                self.answer(now, server, pipe)?;
            }
            Stage::Receiving { chunk, bytes, times } => match pipe.read(chunk)? {
                0 => {
                    let elapsed = times.map_or(Duration::ZERO, |[first, last]| last - first);
                    let report = Report { bytes: *bytes, elapsed, ..Report::default() };
                    self.report(now, report);
                }
                read => {
                    *bytes += read as u64;
                    times.get_or_insert([now; 2])[1] = now;
                    self.until = now + IDLE_TIMEOUT;
                }
            },
            Stage::Sending(sending) if sending.is_written => {
                // Then the counters are those of all data.
                if !pipe.is_acknowledged() {
                    return Ok(Step::Wait(Some(now + ACK_INTERVAL)));
                }
                let report = sending.report(now, pipe.counters());
                self.report(now, report);
            }
            Stage::Sending(sending) => {
                let before = sending.flow.progress.written;
                let flowed = sending.step(now, pipe)?;
                if flowed == Flowed::Ended || sending.flow.progress.written > before {
                    self.until = (now + IDLE_TIMEOUT).min(sending.begun_at + MAX_TIME);
                }
                sending.is_written = flowed == Flowed::Ended;
                if let Flowed::Paced(at) | Flowed::Starved(at) = flowed {
                    return Ok(Step::Wait(Some(at)));
                }
            }
            Stage::Ending(end) => {
                pipe.finish()?;
                self.stage = Stage::Ended(*end);
            }
            Stage::Ended(end) => match (pipe.read(&mut [0; 16])?, *end) {
                (0, Ok(report)) => return Ok(Step::Ended(self.finish(server, &report))),
                (0, Err(verdict)) => return Ok(Step::Ended(End::NotServed(verdict.sentence()))),
                _ => return Err(ErrorKind::InvalidData.into()),
            },
        }
        Ok(Step::Again)
    }

    /// Answers the request.
    fn answer(&mut self, now: Instant, server: &Server, pipe: &mut impl Pipe) -> io::Result<()> {
        let Stage::Asked { message, refusal } = &self.stage else { return Ok(()) };
        // A program that is no rdt-send gets no answer.
        let request = Request::decode(message).ok_or(ErrorKind::InvalidData)?;
        let verdict = match refusal.unwrap_or_else(|| server.judge(&request)) {
            Verdict::Accepted if request.congestion.is_some_and(|name| !pipe.set_congestion(name)) => {
                Verdict::NoCongestionControl
            }
            verdict => verdict,
        };
        self.unsent.extend_from_slice(&verdict.encode());
        if verdict != Verdict::Accepted {
            self.stage = Stage::Ending(Err(verdict));
            return Ok(());
        }
        server.connected(self.peer, &request);
        self.request = Some(request);
        self.until = now + IDLE_TIMEOUT;
        self.stage = if request.is_reverse {
            Stage::Sending(Box::new(Sending::new(now, &request, server.rate(&request))))
        } else {
            Stage::Receiving { chunk: vec![0; CHUNK], bytes: 0, times: None }
        };
        Ok(())
    }

    fn report(&mut self, now: Instant, report: Report) {
        self.unsent.extend_from_slice(&report.encode());
        self.until = now + END_TIMEOUT;
        self.stage = Stage::Ending(Ok(report));
    }

    fn finish(&mut self, server: &Server, report: &Report) -> End {
        if let Some(request) = self.request.take() {
            server.finished(self.peer, &request, report);
            self.slot = None;
            server.cleaned_up(self.peer, &request, false);
        }
        End::Whole
    }

    /// Ends a session whose streams have failed, or whose time is over.
    pub(super) fn fail(&mut self, server: &Server, error: &io::Error) -> End {
        if let Some(request) = self.request.take() {
            self.slot = None;
            server.cleaned_up(self.peer, &request, true);
            return End::Broken;
        }
        match (&self.stage, error.kind()) {
            (Stage::Asked { .. }, ErrorKind::TimedOut) => End::NotServed("no request came"),
            (Stage::Ending(Err(verdict)) | Stage::Ended(Err(verdict)), _) => {
                End::NotServed(verdict.sentence())
            }
            _ => End::NotServed(ONLY_MEASURES),
        }
    }
}

/// Writes what is left of a message.
fn flush(unsent: &mut Vec<u8>, pipe: &mut impl Pipe) -> io::Result<()> {
    while !unsent.is_empty() {
        let taken = pipe.write(unsent)?;
        unsent.drain(..taken);
    }
    Ok(())
}

/// Reads the rest of a request into `message`.
fn read_request(message: &mut Vec<u8>, pipe: &mut impl Pipe) -> io::Result<()> {
    while message.len() < REQUEST_BYTES {
        let mut chunk = [0; REQUEST_BYTES];
        match pipe.read(&mut chunk[..REQUEST_BYTES - message.len()])? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            read => message.extend_from_slice(&chunk[..read]),
        }
    }
    Ok(())
}

impl Sending {
    fn new(now: Instant, request: &Request, rate: Option<u64>) -> Self {
        Self {
            flow: Outflow::new(Pace::new(rate, (0, CHUNK), now)),
            data: DwordArray::new(request.bytes.unwrap_or(u64::MAX)),
            begun_at: now,
            ends_at: request.bytes.is_none().then(|| now + request.omit + request.time),
            omit_until: now + request.omit,
            omitted: request.omit.is_zero().then(Report::default),
            is_written: false,
        }
    }

    fn step(&mut self, now: Instant, pipe: &mut impl Pipe) -> io::Result<Flowed> {
        if self.omitted.is_none() && now >= self.omit_until {
            self.omitted = Some(pipe.counters());
        }
        if self.ends_at.is_some_and(|at| at <= now) {
            return Ok(Flowed::Ended);
        }
        let flowed = self.flow.step(now, &mut self.data, |bytes| pipe.write(bytes));
        flowed.map_err(|(SendError::Read(error) | SendError::Write(error))| error)
    }

    /// Returns the report, without the counts of the omitted start.
    fn report(&self, now: Instant, counters: Report) -> Report {
        let omitted = self.omitted.unwrap_or_default();
        Report {
            bytes: self.flow.progress.written,
            elapsed: now.saturating_duration_since(self.begun_at),
            retransmitted: counters.retransmitted.saturating_sub(omitted.retransmitted),
            retransmitted_bytes: counters.retransmitted_bytes.saturating_sub(omitted.retransmitted_bytes),
            timeouts: counters.timeouts.map(|count| count.saturating_sub(omitted.timeouts.unwrap_or(0))),
            ..counters
        }
    }
}

#[cfg(test)]
mod tests {
    use rdt_udp::clock;

    use super::super::Wire;
    use super::super::peer_slots::PeerSlots;
    use super::super::recv::tests::server;
    use super::*;

    /// Streams of a test: what the peer says, and what was said to it.
    #[derive(Default)]
    struct Script {
        says: Vec<u8>,
        has_ended: bool,
        /// Bytes that a write takes at most; 0 for no room.
        room: usize,
        heard: Vec<u8>,
        is_finished: bool,
        unacknowledged: bool,
        counters: Report,
    }

    impl Pipe for Script {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            if self.says.is_empty() && !self.has_ended {
                return Err(ErrorKind::WouldBlock.into());
            }
            let read = self.says.len().min(out.len());
            out[..read].copy_from_slice(&self.says[..read]);
            self.says.drain(..read);
            Ok(read)
        }

        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.len().min(self.room);
            self.heard.extend_from_slice(&bytes[..taken]);
            if taken == 0 { Err(ErrorKind::WouldBlock.into()) } else { Ok(taken) }
        }

        fn finish(&mut self) -> io::Result<()> {
            self.is_finished = true;
            Ok(())
        }

        fn set_congestion(&mut self, name: &str) -> bool {
            name == "reno"
        }

        fn is_acknowledged(&self) -> bool {
            !self.unacknowledged
        }

        fn counters(&self) -> Report {
            self.counters
        }
    }

    struct Run {
        server: Server,
        slots: PeerSlots,
        session: Session,
        pipe: Script,
    }

    impl Run {
        fn new(wire: Wire, request: &Request) -> Self {
            let (slots, peer) = (PeerSlots::new(1, None), "192.0.2.1:5".parse().unwrap());
            let session = Session::new(clock::now(), (peer, None), slots.take(peer).unwrap(), None);
            let pipe = Script { says: request.encode().to_vec(), room: usize::MAX, ..Script::default() };
            Self { server: server(wire, false, None), slots, session, pipe }
        }

        /// Steps until the session waits or ends.
        fn go(&mut self, now: Instant) -> Option<End> {
            loop {
                match self.session.step(now, &self.server, &mut self.pipe) {
                    Step::Again => {}
                    Step::Wait(_) => return None,
                    Step::Ended(end) => return Some(end),
                }
            }
        }
    }

    fn asks(bytes: u64) -> Request {
        Request { is_reverse: true, bytes: Some(bytes), ..Request::default() }
    }

    #[test]
    fn data_and_report_follow_answer() {
        let mut run = Run::new(Wire::Native, &asks(100_000));
        // Each write takes a little.
        run.pipe.room = 7;
        assert!(run.go(clock::now()).is_none() && run.pipe.is_finished);
        let (answer, rest) = run.pipe.heard.split_at(super::super::message::ANSWER_BYTES);
        assert_eq!((Verdict::decode(answer), rest[100_000..].len()), (Some(Verdict::Accepted), 120));
        assert_eq!(Report::decode(&rest[100_000..]).unwrap().bytes, 100_000);
        run.pipe.has_ended = true;
        assert!(matches!(run.go(clock::now()), Some(End::Whole)));
        assert_eq!(run.slots.counts().active, 0);
    }

    #[test]
    fn counters_exclude_omitted_start() {
        let omitted =
            Report { retransmitted: 5, retransmitted_bytes: 70, timeouts: Some(1), ..Report::default() };
        let all = Report { retransmitted: 9, retransmitted_bytes: 100, timeouts: Some(1), ..omitted };
        let mut sending = Sending::new(clock::now(), &asks(1), None);
        sending.omitted = Some(omitted);
        let counted = sending.report(clock::now(), all);
        assert_eq!((counted.retransmitted, counted.retransmitted_bytes, counted.timeouts), (4, 30, Some(0)));
    }

    #[test]
    fn peer_without_progress_is_given_up() {
        for room in [0, 20] {
            let mut run = Run::new(Wire::Native, &asks(1_000_000));
            let now = clock::now();
            run.pipe.room = room;
            if room > 0 {
                run.pipe.unacknowledged = true;
            }
            assert!(run.go(now).is_none());
            assert!(run.go(now + IDLE_TIMEOUT.mul_f64(0.99)).is_none());
            assert!(matches!(run.go(now + IDLE_TIMEOUT), Some(End::Broken)), "{room}");
            assert_eq!(run.slots.counts().active, 0);
        }
    }

    #[test]
    fn peer_without_valid_request_is_not_served() {
        let mut silent = Run::new(Wire::Native, &asks(1));
        silent.pipe.says.truncate(63);
        assert!(silent.go(clock::now()).is_none());
        let late = silent.go(clock::now() + REQUEST_TIMEOUT);
        assert!(matches!(late, Some(End::NotServed("no request came"))));
        let mut foreign = Run::new(Wire::Native, &asks(1));
        foreign.pipe.says[0] ^= 1;
        assert!(matches!(foreign.go(clock::now()), Some(End::NotServed(ONLY_MEASURES))));
        assert!(foreign.pipe.heard.is_empty(), "no answer to a foreign program");
        let mut short = Run::new(Wire::Native, &asks(1));
        short.pipe.says.truncate(5);
        short.pipe.has_ended = true;
        assert!(matches!(short.go(clock::now()), Some(End::NotServed(ONLY_MEASURES))));
    }

    #[test]
    fn refused_peer_reads_answer_before_end() {
        for (request, verdict) in [
            (Request { bytes: None, ..asks(1) }, Verdict::Invalid),
            (Request { congestion: Some("bbr"), ..asks(1) }, Verdict::NoCongestionControl),
        ] {
            let mut run = Run::new(Wire::Tcp, &request);
            assert!(run.go(clock::now()).is_none() && run.pipe.is_finished);
            assert_eq!(Verdict::decode(&run.pipe.heard), Some(verdict));
            run.pipe.has_ended = true;
            let end = run.go(clock::now());
            assert!(matches!(end, Some(End::NotServed(why)) if why == verdict.sentence()));
        }
    }

    #[test]
    fn arrived_bytes_are_counted() {
        let mut run = Run::new(Wire::Tcp, &Request::default());
        run.pipe.says.resize(REQUEST_BYTES + 200_000, 1);
        run.pipe.has_ended = true;
        assert!(matches!(run.go(clock::now()), Some(End::Whole)));
        let report = &run.pipe.heard[super::super::message::ANSWER_BYTES..];
        assert_eq!(Report::decode(report).unwrap().bytes, 200_000);
    }
}
