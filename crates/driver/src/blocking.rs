//! Whole transfers in one blocking call, for programs that need no event loop of their own.

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rdt_transport::wire::native::CloseReason;
use rdt_transport::{
    AckPolicy, ConfigError, Endpoint as _, Listener, ListenerConfig, ReceiverConfig, ReceiverEvent, Sender,
    SenderConfig, SenderEvent, SenderStats, TransferError,
};

use crate::{
    Application, Connected, Flow, Remote, Sink, SocketError, Source, UdpIo, UdpOptions, Waiter, clock,
    file_source, fill, run, send_memory, send_rest, truesize, wildcard_for,
};

/// Time after the transfer in which a receiver still answers retransmitted FINs, because the
/// FIN-ACK may have been lost.
const LINGER: Duration = Duration::from_secs(1);
/// Limit on the time to wait for room in the socket for the last packets, before it is closed.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(200);

/// Failure of [`send_file`] or [`receive_one`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BlockingError {
    /// The configuration is invalid.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The socket cannot be bound or used.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// Reading the file or writing the received bytes failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The sender gave up, or the receiver closed the transfer.
    #[error(transparent)]
    Transfer(#[from] TransferError),
    /// The sender closed, restarted or abandoned the transfer.
    #[error("the sender did not finish the transfer")]
    Unfinished,
}

/// Sends `file` to `receiver` and returns when the receiver has stored it.
///
/// Also returns the CRC-32 of the received bytes, which the FIN-ACK carries. A native receiver has
/// already compared it with the sender's; with the classic format, compare it with
/// [`SenderStats::crc`].
pub fn send_file(
    receiver: SocketAddr,
    file: File,
    config: SenderConfig,
) -> Result<(SenderStats, u32), BlockingError> {
    let io = UdpIo::bind(wildcard_for(receiver), UdpOptions::default())?;
    let mut waiter = Waiter::new(io.socket(), Duration::ZERO)?;
    let mut socket = Connected::new(io, receiver);
    let mut sender = Sender::with_memory(config, send_memory(&mut socket))?;
    let source = file_source(file, waiter.waker())?;
    let mut sending = Sending { source: Some(source), end: None };
    sender.open()?;
    run(&mut sender, &mut socket, &mut sending, &mut waiter)?;
    send_rest(&mut sender, &mut socket, &mut waiter, CLOSE_TIMEOUT);
    let crc = sending.end.unwrap_or(Err(BlockingError::Unfinished))?;
    Ok((sender.stats(), crc))
}

/// Receives one transfer on `io`, writes it to `sink` and returns its number of bytes.
///
/// The transfer is confirmed to the sender once `sink` has written and flushed every byte.
/// Transfers of other senders are refused. Waits for the first sender without limit.
pub fn receive_one(mut io: UdpIo, sink: &mut dyn Write) -> Result<u64, BlockingError> {
    let receiver =
        ReceiverConfig { keep_payload: true, ack: AckPolicy::Batch, ..ReceiverConfig::reference() };
    let mut config = ListenerConfig::new(receiver);
    config.socket_buffer = Some(truesize::socket_buffer(io.stats().receive_buffer));
    config.secret = Some(random_secret());
    let mut waiter = Waiter::new(io.socket(), Duration::ZERO)?;
    let mut listener = Listener::new(config);
    let mut receiving = Receiving { sink, peer: None, bytes: 0, leave_at: None, error: None };
    run(&mut listener, &mut io, &mut receiving, &mut waiter)?;
    send_rest(&mut listener, &mut io, &mut waiter, CLOSE_TIMEOUT);
    receiving.error.map_or(Ok(receiving.bytes), Err)
}

/// Returns a secret for cookies, made of random keys of the operating system ([`RandomState`]).
fn random_secret() -> [u8; 32] {
    let mut secret = [0; 32];
    for (part, index) in secret.chunks_exact_mut(8).zip(0_u64..) {
        part.copy_from_slice(&RandomState::new().hash_one(index).to_le_bytes());
    }
    secret
}

struct Sending {
    /// Input; `None` once its end was read.
    source: Option<Box<dyn Source>>,
    /// CRC-32 reported by the receiver, or the failure; `None` while the transfer runs.
    end: Option<Result<u32, BlockingError>>,
}

impl Application<Sender> for Sending {
    fn pump(&mut self, _now: Instant, sender: &mut Sender) -> Flow {
        while let Some(event) = sender.poll_event() {
            match event {
                SenderEvent::Connected { .. } => {}
                SenderEvent::Finished { crc } => self.end = Some(Ok(crc)),
                SenderEvent::Failed { error, .. } => self.end = Some(Err(error.into())),
            }
        }
        if self.end.is_none()
            && let Err(error) = fill(&mut self.source, Sink::Sender(sender))
        {
            sender.abort();
            self.end = Some(Err(error.into()));
        }
        if self.end.is_some() { Flow::Done } else { Flow::Wait(None) }
    }
}

struct Receiving<'a> {
    sink: &'a mut dyn Write,
    /// First peer with a transfer. All others are refused.
    peer: Option<Remote>,
    bytes: u64,
    /// Time at which to stop answering the sender; set once the transfer is stored.
    leave_at: Option<Instant>,
    error: Option<BlockingError>,
}

impl Receiving<'_> {
    fn on_event(&mut self, listener: &mut Listener<Remote>, peer: Remote, event: ReceiverEvent) {
        if event == ReceiverEvent::Dropped {
            return;
        }
        if *self.peer.get_or_insert(peer) != peer {
            return listener.refuse(peer, CloseReason::Refused);
        }
        if self.leave_at.is_some() {
            return;
        }
        match event {
            ReceiverEvent::Connected => listener.refuse_new(),
            ReceiverEvent::Dropped | ReceiverEvent::Contradicted => {}
            ReceiverEvent::Started if self.bytes == 0 => {}
            ReceiverEvent::Started | ReceiverEvent::Closed { .. } => {
                self.error.get_or_insert(BlockingError::Unfinished);
            }
            ReceiverEvent::Readable => self.take(listener, peer),
            ReceiverEvent::Finished { .. } => {
                self.take(listener, peer);
                match self.sink.flush() {
                    Ok(()) if self.error.is_none() => {
                        listener.confirm(peer);
                        self.leave_at = Some(clock::now() + LINGER);
                    }
                    Ok(()) => {}
                    Err(error) => self.fail(listener, peer, error),
                }
            }
        }
    }

    fn take(&mut self, listener: &mut Listener<Remote>, peer: Remote) {
        // The payload is kept, so reading cannot fail.
        while let Ok(data @ [_, ..]) = listener.data(peer) {
            let n = data.len();
            if let Err(error) = self.sink.write_all(data) {
                return self.fail(listener, peer, error);
            }
            listener.consume(peer, n);
            self.bytes += n as u64;
        }
    }

    fn fail(&mut self, listener: &mut Listener<Remote>, peer: Remote, error: io::Error) {
        listener.refuse(peer, CloseReason::Storage);
        self.error.get_or_insert(error.into());
    }
}

impl Application<Listener<Remote>> for Receiving<'_> {
    fn pump(&mut self, now: Instant, listener: &mut Listener<Remote>) -> Flow {
        while let Some((peer, event)) = listener.poll_event() {
            self.on_event(listener, peer, event);
        }
        let leave = self.error.is_some() || self.leave_at.is_some_and(|at| at <= now);
        if leave { Flow::Done } else { Flow::Wait(self.leave_at) }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Seek;
    use std::net::Ipv4Addr;
    use std::thread;

    use rdt_transport::LinkProperties;

    use super::*;

    const NO_LINK: LinkProperties =
        LinkProperties { rtt_s: 0.0, speed_bps: 1e10, loss_forward: 0.0, loss_reverse: 0.0, buffer: 1 };

    fn transfer(config: SenderConfig, sink: &mut (dyn Write + Send)) -> [Result<u64, BlockingError>; 2] {
        let io = UdpIo::bind((Ipv4Addr::LOCALHOST, 0).into(), UdpOptions::default()).unwrap();
        let address = io.local_addr().unwrap();
        let path = std::env::temp_dir().join(format!("rdt-blocking-{}", address.port()));
        let mut file =
            File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        file.write_all(&vec![7; 100_000]).unwrap();
        file.rewind().unwrap();
        std::fs::remove_file(&path).unwrap();
        thread::scope(|scope| {
            let received = scope.spawn(|| receive_one(io, sink));
            let sent = send_file(address, file, config).map(|(stats, crc)| {
                assert_eq!(stats.crc, crc);
                stats.bytes_acked
            });
            [sent, received.join().unwrap()]
        })
    }

    #[test]
    fn file_arrives_in_both_formats() {
        for config in [SenderConfig::native(3), SenderConfig::new(64, NO_LINK)] {
            let mut stored = Vec::new();
            let [sent, received] = transfer(config, &mut stored).map(Result::unwrap);
            assert_eq!((sent, received), (100_000, 100_000));
            assert_eq!(stored, vec![7; 100_000]);
        }
    }

    #[test]
    fn full_sink_ends_both_sides() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let [sent, received] = transfer(SenderConfig::native(3), &mut Full);
        assert!(matches!(sent, Err(BlockingError::Transfer(TransferError::Closed(CloseReason::Storage)))));
        assert!(matches!(received, Err(BlockingError::Io(_))));
    }
}
