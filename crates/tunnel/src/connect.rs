//! `rdt-tunnel connect` and `rdt-tunnel stdio`: pass local streams to `serve`.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rdt_program::exit::IO;
use rdt_program::memory::return_soon;
use rdt_program::standard::{check_stdin, check_stdout, end_stdout};
use rdt_program::{Failure, Shown, TaskStop};
use rdt_trust::Remote;
use rdt_trust::serving::{linger, most_sessions};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, Stdin, Stdout, stdin, stdout};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::args::{ConnectArgs, DEFAULT_PORT, RemoteArgs, StdioArgs};
use crate::copy::Local;
use crate::link::Link;
use crate::report::Report;
use crate::session::{Outcome, carry};

/// Pause after a failed `accept`, usually because the system has no descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Listens on a TCP port until the program is stopped.
pub(crate) async fn connect(args: &ConnectArgs, report: &Report, stop: &TaskStop) -> Result<usize, Failure> {
    let places = most_sessions(1) as usize;
    let listener = TcpListener::bind(args.listen).await.map_err(|error| Failure::bind(args.listen, error))?;
    let bound = listener.local_addr().map_err(Failure::system("address of the TCP socket"))?;
    let link = link(&args.remote, report).await?;
    tokio::select! {
        tested = link.test() => tested?,
        () = stop.wait() => return Ok(0),
    }
    let metrics = report.serve_metrics(&args.metrics)?;
    announce(report, bound, &link.name(), metrics);
    accept_all(&listener, places, Arc::new(link), report, stop).await
}

fn announce(report: &Report, bound: SocketAddr, name: &str, metrics: Option<SocketAddr>) {
    report.remark(&format!("connections to {} go through {name}", Shown(bound)));
    if !bound.ip().is_loopback() {
        report.remark(&format!("warning: other hosts can connect to {} and reach the target", Shown(bound)));
    }
    report.event(|| {
        json!({
            "event": "listening",
            "address": Shown(bound).to_string(),
            "peer": name,
            "metrics": metrics.map(|address| Shown(address).to_string()),
        })
    });
}

/// Passes the standard input and output.
pub(crate) async fn stdio(args: &StdioArgs, report: &Report, stop: &TaskStop) -> Result<usize, Failure> {
    check_stdin().map_err(|error| Failure::input("the standard input", &error))?;
    check_stdout().map_err(Failure::stdout)?;
    let link = link(&args.remote, report).await?;
    let stream = tokio::select! {
        stream = link.open() => stream?,
        () = stop.wait() => return Err(Failure::interrupted()),
    };
    let local = Standard { input: stdin(), output: stdout() };
    let outcome = carry(report, stop, "stdio", local, stream).await;
    linger(link.endpoint(), JoinSet::new()).await;
    match outcome {
        Outcome::Finished => Ok(0),
        Outcome::LocalFailed(error) => {
            Err(Failure::new(IO, format_args!("standard input or output: {error}")))
        }
        Outcome::PeerFailed(end) => Err(link.failure(end)),
        Outcome::Stopped => Err(Failure::interrupted()),
    }
}

/// Standard input and output.
struct Standard {
    input: Stdin,
    output: Stdout,
}

impl Local for Standard {}

impl AsyncRead for Standard {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.input).poll_read(cx, room)
    }
}

impl AsyncWrite for Standard {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.output).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.output).poll_flush(cx)
    }

    /// Shows the end to a reader that waits for it before it ends the input.
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(end_stdout())
    }
}

async fn link(args: &RemoteArgs, report: &Report) -> Result<Link, Failure> {
    let remote = Remote::parse(&args.remote, DEFAULT_PORT)?;
    let dialer = args.trust.dialer(&remote, &report.surroundings())?;
    Link::new(remote, dialer, (&args.path, &args.memory), report).await
}

/// Accepts TCP connections until the program is stopped, or its endpoint has ended. While all
/// `places` are taken, further connections wait in the system's queue.
pub(crate) async fn accept_all(
    listener: &TcpListener,
    places: usize,
    link: Arc<Link>,
    report: &Report,
    stop: &TaskStop,
) -> Result<usize, Failure> {
    let mut sessions = JoinSet::new();
    let stopped = link.endpoint().stopped();
    tokio::pin!(stopped);
    // Said once each time that connections begin to wait.
    let (mut is_full, mut is_failing) = (false, false);
    loop {
        let was_full = std::mem::replace(&mut is_full, sessions.len() >= places);
        if is_full && !was_full {
            report.remark(&format!(
                "{places} connections are open, and the limit on descriptors (ulimit -n) allows no more: further ones wait"
            ));
        }
        tokio::select! {
            accepted = listener.accept(), if !is_full => match accepted {
                Ok((local, from)) => {
                    is_failing = false;
                    let (link, report, stop) = (Arc::clone(&link), report.clone(), stop.clone());
                    sessions.spawn(async move {
                        // Fails if the peer is gone already, and then the first read does too.
                        let _ = local.set_nodelay(true);
                        session(local, from, &link, &report, &stop).await
                    });
                }
                Err(error) => {
                    if !std::mem::replace(&mut is_failing, true) {
                        report.remark(&format!("cannot accept a TCP connection, and will try again: {error}"));
                    }
                    sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(_) = sessions.join_next() => return_soon(),
            () = stop.wait() => return Ok(linger(link.endpoint(), sessions).await),
            reason = &mut stopped => {
                linger(link.endpoint(), sessions).await;
                return Err(Failure::system("the endpoint has ended")(io::Error::other(reason)));
            }
        }
    }
}

/// Handles one TCP connection. Returns true if the stop cut it.
async fn session(local: TcpStream, from: SocketAddr, link: &Link, report: &Report, stop: &TaskStop) -> bool {
    let opened = tokio::select! {
        opened = link.open() => opened,
        () = stop.wait() => {
            local.reset_at_drop();
            return true;
        }
    };
    let stream = match opened {
        Ok(stream) => stream,
        Err(failure) => {
            local.reset_at_drop();
            report.remark(&format!("{from}: {failure}"));
            return false;
        }
    };
    match carry(report, stop, &Shown(from).to_string(), local, stream).await {
        Outcome::LocalFailed(error) => report.remark(&format!("{from}: {error}")),
        Outcome::PeerFailed(end) => {
            link.note_end(&end);
            report.remark(&format!("{from}: {}", link.failure(end)));
        }
        Outcome::Finished => {}
        Outcome::Stopped => return true,
    }
    false
}
