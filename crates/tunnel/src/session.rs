//! One connection of a tunnel: a local stream and an rdt stream, until both have ended.

use std::future::pending;
use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rdt_endpoint::StreamError;
use rdt_endpoint::tokio::Stream;
use rdt_program::TaskStop;
use rdt_transport::Closed;
use tokio::time::sleep;

use crate::copy::{End, Local, relay};
use crate::protocol::{Code, PeerEnd};
use crate::report::Report;

/// Time for a session to end by itself after the program was told to stop: ssh sends a signal to
/// its `ProxyCommand`, and closes the pipes just after.
const STOP_GRACE: Duration = Duration::from_millis(200);

#[derive(Debug)]
pub(crate) enum Outcome {
    /// Both directions have ended, and the peer has passed everything on.
    Finished,
    LocalFailed(io::Error),
    PeerFailed(PeerEnd),
    Stopped,
}

impl Outcome {
    fn words(&self) -> (&'static str, Option<String>) {
        match self {
            Self::Finished => ("finished", None),
            Self::LocalFailed(error) => ("reset", Some(error.to_string())),
            Self::PeerFailed(end) => (end.word(), Some(end.to_string())),
            Self::Stopped => ("stopped", None),
        }
    }
}

/// Copies between both streams until they have ended and all is delivered. A failure of one is
/// passed to the other: a CLOSE with a code, or a reset.
pub(crate) async fn carry<L: Local>(
    report: &Report,
    stop: &TaskStop,
    name: &str,
    mut local: L,
    mut stream: Stream,
) -> Outcome {
    let opened = report.opened(name, stream.peer_addr());
    let counters = &opened.counters;
    let stopped = async {
        stop.wait().await;
        sleep(STOP_GRACE).await;
    };
    let closed = stream.closed();
    let failed = async {
        match closed.await {
            // The last bytes may still wait for the local stream.
            StreamError::Closed(Closed::Finished) => pending().await,
            error => io::Error::from(error),
        }
    };
    let passed = async {
        match relay(&mut local, &mut stream, failed, counters).await {
            // The last bytes may still be under way, or wait for a target that reads slowly.
            End::Finished => match stream.delivered().await {
                Ok(_) => Outcome::Finished,
                Err(error) => Outcome::PeerFailed(PeerEnd::of_error(&error.into())),
            },
            End::LocalFailed(error) => Outcome::LocalFailed(error),
            End::PeerFailed(error) => Outcome::PeerFailed(PeerEnd::of_error(&error)),
        }
    };
    let outcome = tokio::select! {
        outcome = passed => outcome,
        () = stopped => Outcome::Stopped,
    };
    let stats = stream.stats();
    let is_sent = counters.is_sent.load(Ordering::Relaxed);
    pass_on(&outcome, is_sent, &local, &stream);
    let (end, text) = outcome.words();
    report.closed(&opened, stats.as_ref(), (end, text.as_deref()));
    outcome
}

/// Tells the other side of a failure: the peer by a CLOSE with a code, the local program by a
/// reset.
fn pass_on(outcome: &Outcome, is_sent: bool, local: &impl Local, stream: &Stream) {
    match outcome {
        Outcome::Finished => return,
        Outcome::LocalFailed(_) => stream.close(Code::Reset.number(), ""),
        // What was sent is complete, and reaches the peer after the drop of the stream.
        Outcome::Stopped if is_sent => {}
        Outcome::Stopped => stream.close(Code::Stopped.number(), ""),
        Outcome::PeerFailed(_) => {}
    }
    local.reset_at_drop();
}
