//! MsQuic: QUIC in C, with threads of its own and callbacks. The library owns a send buffer until
//! it reports the completion of the send.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::mpsc::{self, Sender};

use ::msquic::ffi::{QUIC_PARAM_CONFIGURATION_SETTINGS, QUIC_SETTINGS};
use ::msquic::{
    Addr, AllowedCipherSuiteFlags, Api, BufferRef, CertificateFile, Configuration, Connection,
    ConnectionEvent, ConnectionRef, ConnectionShutdownFlags, Credential, CredentialConfig, ExecutionProfile,
    Listener, ListenerEvent, Registration, RegistrationConfig, SendFlags, Settings, Status, Stream,
    StreamEvent, StreamOpenFlags, StreamRef, StreamStartFlags,
};
use anyhow::{Context as _, Result, ensure};

use crate::meter::{self, Hello, Meter, SOURCE};
use crate::pem::Pem;

pub(crate) const TUNED: &str = "CUBIC, 1472-byte packets from the start, GSO and GRO, as its own `secnetperf` with \
    `-exec:maxtput`: sends of 64 KiB, as much at once as it says is ideal, no buffer of its own, windows of 8 MiB a stream \
    and 128 MiB a connection; AES-128-GCM (quictls)";

/// MTU with IP and UDP headers, as this library counts, bytes.
const MTU: u16 = 1500;
const STREAM_WINDOW: u32 = 8 << 20;
const CONNECTION_WINDOW: u32 = 128 << 20;
/// Bytes per send, and limit on outstanding bytes until the library reports its ideal.
const SEND: usize = 64 << 10;
const FIRST_IDEAL: u64 = 128 << 10;
const PROTOCOL: &str = "bulk";

fn registration() -> Result<Registration, Status> {
    Registration::new(&RegistrationConfig::new().set_execution_profile(ExecutionProfile::MaxThroughput))
}

fn configuration(registration: &Registration, credential: CredentialConfig) -> Result<Configuration, Status> {
    let settings = Settings::new()
        .set_IdleTimeoutMs(20_000)
        .set_PeerUnidiStreamCount(1)
        .set_StreamRecvWindowDefault(STREAM_WINDOW)
        .set_ConnFlowControlWindow(CONNECTION_WINDOW)
        .set_MinimumMtu(MTU)
        .set_MaximumMtu(MTU);
    let configuration = Configuration::open(registration, &[BufferRef::from(PROTOCOL)], Some(&settings))?;
    leave_sends_alone(&configuration)?;
    let ciphers = AllowedCipherSuiteFlags::AES_128_GCM_SHA256;
    configuration.load_credential(&credential.set_allowed_cipher_suites(ciphers))?;
    Ok(configuration)
}

/// Disables send buffering, so that sends are not copied. The settings of the crate can only enable
/// it.
#[expect(unsafe_code, reason = "the crate has no other way")]
fn leave_sends_alone(configuration: &Configuration) -> Result<(), Status> {
    // SAFETY: plain C data, for which all zeros is a valid value.
    let mut settings: QUIC_SETTINGS = unsafe { std::mem::zeroed() };
    // SAFETY: both variants of the union are plain bits.
    unsafe { settings.__bindgen_anon_1.IsSet.set_SendBufferingEnabled(1) };
    settings.set_SendBufferingEnabled(0);
    let set = Api::get_ffi().SetParam.expect("the library has all its functions");
    let size = u32::try_from(size_of::<QUIC_SETTINGS>()).expect("it is small");
    // SAFETY: the handle is open while `configuration` is borrowed; the library reads exactly
    // `size` bytes, during the call.
    let status = unsafe {
        set(configuration.as_raw(), QUIC_PARAM_CONFIGURATION_SETTINGS, size, (&raw const settings).cast())
    };
    Status::ok_from_raw(status)
}

/// Message from a callback to the main thread.
enum News {
    /// All bytes arrived: their count, and the duration in seconds.
    Received(Meter, f64),
    /// The send has ended: true if all bytes were acknowledged, false if it was canceled.
    Sent(bool),
    Closed,
}

/// Sends a message. It is dropped if the main thread has failed.
fn tell(main: &Sender<News>, news: News) {
    let _ = main.send(news);
}

/// Closes a stream at its last event.
#[expect(unsafe_code, reason = "the crate gives streams away as raw handles")]
fn close_stream(stream: &StreamRef) {
    // SAFETY: this is the last event of the stream, and no other code closes it.
    drop(unsafe { Stream::from_raw(stream.as_raw()) });
}

pub(crate) fn receive(bytes: u64) -> Result<()> {
    let pem = Pem::make()?;
    let file = CertificateFile::new(pem.key().display().to_string(), pem.certificate().display().to_string());
    let credential = CredentialConfig::new().set_credential(Credential::CertificateFile(file));
    let registration = registration()?;
    let configuration = configuration(&registration, credential)?;
    let (main, news) = mpsc::channel();
    let listener = Listener::open(&registration, move |_, event| {
        if let ListenerEvent::NewConnection { connection, .. } = event {
            let main = main.clone();
            connection.set_callback_handler(move |connection, event| {
                take(&connection, event, bytes, &main);
                Ok(())
            });
            connection.set_configuration(&configuration)?;
        }
        Ok(())
    })?;
    let any = Addr::from(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    listener.start(&[BufferRef::from(PROTOCOL)], Some(&any))?;
    let address = listener.get_local_addr()?.as_socket().context("the listener has no address")?;
    meter::print_hello(address, Some(pem.text()));
    let mut received = None;
    loop {
        match news.recv()? {
            News::Received(meter, seconds) => received = Some((meter, seconds)),
            News::Closed => break,
            News::Sent(_) => {}
        }
    }
    let (meter, seconds) = received.context("the connection ended before the stream")?;
    meter.print(seconds, None)
}

/// Handles an event of the receiver's connection, which has one stream.
#[expect(unsafe_code, reason = "the crate gives connections away as raw handles")]
fn take(connection: &ConnectionRef, event: ConnectionEvent<'_>, bytes: u64, main: &Sender<News>) {
    match event {
        ConnectionEvent::PeerStreamStarted { stream, .. } => {
            let (main, mut meter) = (main.clone(), Meter::new(bytes));
            stream.set_callback_handler(move |stream, event| {
                match event {
                    StreamEvent::Receive { total_buffer_length, .. } => {
                        meter.count(usize::try_from(*total_buffer_length).expect("it is in memory"));
                    }
                    StreamEvent::PeerSendShutdown => {
                        let seconds = meter.seconds();
                        let meter = std::mem::replace(&mut meter, Meter::new(bytes));
                        tell(&main, News::Received(meter, seconds));
                    }
                    StreamEvent::ShutdownComplete { .. } => close_stream(&stream),
                    _ => {}
                }
                Ok(())
            });
        }
        ConnectionEvent::ShutdownComplete { .. } => {
            tell(main, News::Closed);
            // SAFETY: this is the last event of the connection, and no other code closes it.
            drop(unsafe { Connection::from_raw(connection.as_raw()) });
        }
        _ => {}
    }
}

pub(crate) fn send(bytes: u64) -> Result<()> {
    let hello = Hello::read()?;
    let address = hello.address()?;
    let pem = Pem::write(hello.certificate()?)?;
    let credential =
        CredentialConfig::new_client().set_ca_certificate_file(pem.certificate().display().to_string());
    let registration = registration()?;
    let configuration = configuration(&registration, credential)?;
    let (main, news) = mpsc::channel();
    let connection = Connection::open(&registration, move |connection, event| {
        match event {
            ConnectionEvent::Connected { .. } => start(&connection, bytes, &main)?,
            ConnectionEvent::ShutdownComplete { .. } => tell(&main, News::Closed),
            _ => {}
        }
        Ok(())
    })?;
    connection.start(&configuration, "localhost", address.port())?;
    let mut sent = false;
    loop {
        match news.recv()? {
            News::Sent(all) => {
                sent = all;
                connection.shutdown(ConnectionShutdownFlags::NONE, 0);
            }
            News::Closed => break,
            News::Received(..) => {}
        }
    }
    ensure!(sent, "the connection ended before the stream");
    meter::print_sent(None)
}

/// Opens the sender's stream, whose callbacks send the data.
#[expect(unsafe_code, reason = "the stream is its callback's")]
fn start(connection: &Connection, bytes: u64, main: &Sender<News>) -> Result<(), Status> {
    let (main, mut making) = (main.clone(), Making::new(bytes));
    let stream = Stream::open(connection, StreamOpenFlags::UNIDIRECTIONAL, move |stream, event| {
        match event {
            StreamEvent::StartComplete { .. } => making.send(&stream)?,
            StreamEvent::SendComplete { client_context, .. } => {
                making.done(client_context.cast());
                making.send(&stream)?;
            }
            StreamEvent::IdealSendBufferSize { byte_count } => {
                making.ideal = byte_count;
                making.send(&stream)?;
            }
            StreamEvent::SendShutdownComplete { graceful } => tell(&main, News::Sent(graceful)),
            StreamEvent::ShutdownComplete { .. } => close_stream(&stream),
            _ => {}
        }
        Ok(())
    })?;
    stream.start(StreamStartFlags::NONE)?;
    // SAFETY: the callback closes the stream.
    let _ = unsafe { stream.into_raw() };
    Ok(())
}

struct Making {
    source: &'static [u8],
    left: u64,
    /// Offset of the next byte in the source.
    at: usize,
    /// Bytes of sends in progress, and the number that the library considers ideal.
    under_way: u64,
    ideal: u64,
}

impl Making {
    /// Creates the state. The source is never freed, because the library may reference it until the
    /// program ends.
    fn new(bytes: u64) -> Self {
        Self { source: meter::source().leak(), left: bytes, at: 0, under_way: 0, ideal: FIRST_IDEAL }
    }

    #[expect(unsafe_code, reason = "the library holds what is sent")]
    fn send(&mut self, stream: &Stream) -> Result<(), Status> {
        while self.left > 0 && self.under_way < self.ideal {
            let length = usize::try_from(self.left).unwrap_or(usize::MAX).min(SEND);
            self.left -= length as u64;
            self.under_way += length as u64;
            let flags = if self.left == 0 { SendFlags::FIN } else { SendFlags::NONE };
            let buffers = Box::new([BufferRef::from(&self.source[self.at..self.at + length])]);
            self.at = (self.at + length) % SOURCE;
            let buffers = Box::into_raw(buffers);
            // SAFETY: the bytes are never freed or written, and their descriptor is not freed
            // before `done`.
            unsafe { stream.send(&*buffers, flags, buffers.cast_const().cast()) }?;
        }
        Ok(())
    }

    /// Handles the completion of a send.
    #[expect(unsafe_code, reason = "the library held it")]
    fn done(&mut self, buffers: *const [BufferRef; 1]) {
        // SAFETY: `send` made the pointer from a box, and each send completes once.
        let [buffer] = *unsafe { Box::from_raw(buffers.cast_mut()) };
        self.under_way -= buffer.as_bytes().len() as u64;
    }
}
