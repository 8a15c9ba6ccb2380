//! quiche: QUIC in Rust with BoringSSL, without sockets and timers of its own. The loop is that of
//! quiche's own server: it sends a burst with one GSO call, then reads. Different from the server,
//! it reads with GRO, and a burst is as long as one call allows. The server's burst is quiche's
//! send quantum, ten packets with CUBIC, which is slower.

use std::io::{ErrorKind, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use ::quiche::{Config, Connection, ConnectionId, Error, MAX_CONN_ID_LEN, PROTOCOL_VERSION, RecvInfo};
use anyhow::{Context as _, Result, bail, ensure};
use quinn_udp::{RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use socket2::SockRef;

use crate::meter::{self, Hello, Meter};
use crate::pem::Pem;

pub(crate) const TUNED: &str = "CUBIC, 1472-byte packets, GSO and GRO in a loop as its own server's, up to 64 KiB a call, \
    no pacing, windows of 8 MiB a stream and 16 MiB a connection, 4 MiB socket buffers, AES-128-GCM \
    (BoringSSL), one thread a process";

/// UDP payload of a full Ethernet packet over IPv4, bytes. rdt's packets have the same size.
const PACKET: usize = 1472;
const STREAM_WINDOW: u64 = 8 << 20;
const SOCKET_BUFFER: usize = 4 << 20;
/// Limit on the bytes of one send call, and of one receive call with GRO.
const BURST: usize = 65_507 / PACKET * PACKET;
const MESSAGE: usize = 64 << 10;
/// Id of the client's first unidirectional stream.
const STREAM: u64 = 2;
const PROTOCOL: &[u8] = b"bulk";

fn config() -> Result<Config> {
    let mut config = Config::new(PROTOCOL_VERSION)?;
    config.set_application_protos(&[PROTOCOL])?;
    config.set_max_idle_timeout(20_000);
    config.set_max_recv_udp_payload_size(PACKET);
    config.set_max_send_udp_payload_size(PACKET);
    config.set_initial_max_data(2 * STREAM_WINDOW);
    config.set_initial_max_stream_data_uni(STREAM_WINDOW);
    config.set_initial_max_streams_uni(1);
    config.set_max_connection_window(2 * STREAM_WINDOW);
    config.set_max_stream_window(STREAM_WINDOW);
    config.set_disable_active_migration(true);
    // quiche's server paces by `SO_TXTIME`, which has no effect on loopback.
    config.enable_pacing(false);
    Ok(config)
}

struct End {
    connection: Connection,
    link: Link,
}

/// Socket with its send and receive buffers.
struct Link {
    socket: UdpSocket,
    state: UdpSocketState,
    local: SocketAddr,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
}

impl Link {
    fn new() -> Result<Self> {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        SockRef::from(&socket).set_recv_buffer_size(SOCKET_BUFFER)?;
        SockRef::from(&socket).set_send_buffer_size(SOCKET_BUFFER)?;
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        let local = socket.local_addr()?;
        Ok(Self { socket, state, local, incoming: vec![0; MESSAGE], outgoing: vec![0; BURST] })
    }

    /// Reads one coalesced message, if there is one.
    fn read(&mut self) -> Result<Option<RecvMeta>> {
        let mut meta = [RecvMeta::default()];
        let mut parts = [IoSliceMut::new(&mut self.incoming)];
        match self.state.recv(UdpSockRef::from(&self.socket), &mut parts, &mut meta) {
            Ok(_) => Ok(Some(meta[0])),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends the first `length` bytes of the outgoing buffer, one packet per datagram.
    fn write(&self, length: usize, destination: SocketAddr) -> Result<()> {
        let contents = &self.outgoing[..length];
        let segment_size = (length > PACKET).then_some(PACKET);
        let transmit = Transmit { destination, ecn: None, contents, segment_size, src_ip: None };
        loop {
            match self.state.try_send(UdpSockRef::from(&self.socket), &transmit) {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.wait(PollFlags::OUT, None)?,
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn wait(&self, flags: PollFlags, timeout: Option<Duration>) -> Result<()> {
        let timeout = timeout.map(Timespec::try_from).transpose()?;
        poll(&mut [PollFd::new(&self.socket, flags)], timeout.as_ref())?;
        Ok(())
    }
}

impl End {
    /// Receives and sends packets until the connection is closed. Calls `application` between
    /// receiving and sending.
    fn run(&mut self, mut application: impl FnMut(&mut Connection) -> Result<()>) -> Result<()> {
        loop {
            while let Some(meta) = self.link.read()? {
                self.take(meta)?;
            }
            if self.connection.timeout().is_some_and(|left| left.is_zero()) {
                self.connection.on_timeout();
            }
            application(&mut self.connection)?;
            let more = self.send_burst()?;
            if self.connection.is_closed() || self.connection.is_draining() {
                return Ok(());
            }
            if !more {
                self.link.wait(PollFlags::IN, self.connection.timeout())?;
            }
        }
    }

    fn take(&mut self, meta: RecvMeta) -> Result<()> {
        for datagram in self.link.incoming[..meta.len].chunks_mut(meta.stride.max(1)) {
            match self.connection.recv(datagram, RecvInfo { from: meta.addr, to: self.link.local }) {
                Ok(_) | Err(Error::Done) => {}
                Err(error) => return Err(error).context("a packet"),
            }
        }
        Ok(())
    }

    /// Sends one burst. Returns true if more packets may be ready.
    fn send_burst(&mut self) -> Result<bool> {
        let (mut filled, mut to, mut more) = (0, None, true);
        while filled < BURST {
            match self.connection.send(&mut self.link.outgoing[filled..]) {
                Ok((length, info)) => {
                    filled += length;
                    to.get_or_insert(info.to);
                    if length < PACKET {
                        break;
                    }
                }
                Err(Error::Done) => {
                    more = false;
                    break;
                }
                Err(error) => return Err(error).context("making a packet"),
            }
        }
        if let Some(to) = to {
            self.link.write(filled, to)?;
        }
        Ok(more)
    }
}

/// Returns a connection id. It need not be unique, because there is only one connection.
fn id(byte: u8) -> ConnectionId<'static> {
    ConnectionId::from_vec(vec![byte; MAX_CONN_ID_LEN])
}

pub(crate) fn receive(bytes: u64) -> Result<()> {
    let pem = Pem::make()?;
    let mut config = config()?;
    config.load_cert_chain_from_pem_file(path(&pem.certificate())?)?;
    config.load_priv_key_from_pem_file(path(&pem.key())?)?;
    let mut link = Link::new()?;
    meter::print_hello(link.local, Some(pem.text()));
    let first = loop {
        match link.read()? {
            Some(meta) => break meta,
            None => link.wait(PollFlags::IN, None)?,
        }
    };
    let connection = ::quiche::accept(&id(1), None, link.local, first.addr, &mut config)?;
    let mut end = End { connection, link };
    end.take(first)?;
    let mut buffer = vec![0; MESSAGE];
    let mut meter = Meter::new(bytes);
    let mut seconds = None;
    end.run(|connection| {
        while seconds.is_none() && connection.stream_readable(STREAM) {
            match connection.stream_recv(STREAM, &mut buffer) {
                Ok((length, fin)) => {
                    meter.count(length);
                    if fin {
                        seconds = Some(meter.seconds());
                        connection.close(true, 0, b"")?;
                    }
                }
                Err(Error::Done) => break,
                Err(error) => return Err(error).context("reading the stream"),
            }
        }
        Ok(())
    })?;
    meter.print(seconds.context("the connection ended before the stream")?, None)
}

pub(crate) fn send(bytes: u64) -> Result<()> {
    let hello = Hello::read()?;
    let pem = Pem::write(hello.certificate()?)?;
    let mut config = config()?;
    config.load_verify_locations_from_file(path(&pem.certificate())?)?;
    config.verify_peer(true);
    let link = Link::new()?;
    let connection = ::quiche::connect(Some("localhost"), &id(2), link.local, hello.address()?, &mut config)?;
    let mut end = End { connection, link };
    let source = meter::source();
    let mut sent = 0;
    end.run(|connection| {
        while connection.is_established() && sent < bytes {
            let at = usize::try_from(sent % source.len() as u64)?;
            let block = &source[at..];
            let rest = usize::try_from(bytes - sent).unwrap_or(usize::MAX);
            let last = rest <= block.len();
            match connection.stream_send(STREAM, &block[..block.len().min(rest)], last) {
                Ok(length) => sent += length as u64,
                Err(Error::Done) => break,
                Err(error) => return Err(error).context("writing the stream"),
            }
        }
        Ok(())
    })?;
    ensure!(sent == bytes, "{sent} bytes of {bytes} were taken");
    match end.connection.peer_error() {
        Some(error) if error.is_app && error.error_code == 0 => meter::print_sent(None),
        error => bail!("the connection ended otherwise: {error:?}"),
    }
}

fn path(path: &std::path::Path) -> Result<&str> {
    path.to_str().context("the directory for temporary files has no name in UTF-8")
}
