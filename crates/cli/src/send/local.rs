//! HOST `local`: an embedded receiver on a thread of its own, reached through a loopback port.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rdt_crypto::{PublicKey, StaticKey};
use rdt_endpoint::thread::run;
use rdt_program::Stop;
use rdt_server::{LinkMode, Server, ServerConfig};
use rdt_transport::{ConnectionSetConfig, ReceiverConfig, ResponderConfig, SenderConfig, Wire};
use rdt_trust::{TrustError, os_entropy};
use rdt_udp::{BufferOccupancy, SocketError, UdpIo, UdpOptions, Waiter, current_cpu, start_on_other_cpu};

use crate::args::{Format, NativeArgs};
use crate::output::log::EventLog;
use crate::output::receiver_report::ReceiverReport;
use crate::recv::SPIN_BEFORE_DEADLINE;
use crate::recv::app::ReceiverApp;
use crate::recv::store::Store;
use crate::{Failure, resources};

pub(crate) struct LocalReceiver {
    pub(crate) address: SocketAddr,
    pub(crate) occupancy: Arc<BufferOccupancy>,
    /// Key of the receiver; `None` for a classic transfer.
    pub(crate) key: Option<PublicKey>,
    stop: Stop,
    /// `None` once it was joined.
    thread: Mutex<Option<JoinHandle<Result<ReceiverReport, SocketError>>>>,
}

impl LocalReceiver {
    /// Starts the receiver. Its memory is the sender's `--memory` or its own default, whichever is
    /// larger. For a native transfer it has a key for this run alone.
    pub(crate) fn start(
        seed: u64,
        (format, unencrypted): (Format, bool),
        sender: &SenderConfig,
        native: &NativeArgs,
        options: UdpOptions,
    ) -> Result<Self, Failure> {
        let rwnd = native.rwnd;
        let mut receiver = ReceiverConfig {
            max_datagram: sender.packet_size.max(ReceiverConfig::REFERENCE_DATAGRAM),
            ..ReceiverConfig::reference()
        };
        receiver.acks = native.ack.unwrap_or_default();
        receiver.stream_window.max = rwnd.unwrap_or(receiver.stream_window.max);
        receiver.stream_window.mss = format.payload_size(sender) as u64;
        // One sender may use 1/8 of the receiver's memory.
        let memory = sender.memory_limit.max(resources::default_packet_memory());
        let memory = memory.max(rwnd.unwrap_or(0).saturating_mul(8));
        let asked = sender.wire == Wire::Classic || sender.link_request.is_some();
        let (link, spin) = if asked {
            (LinkMode::Emulated { seed }, SPIN_BEFORE_DEADLINE)
        } else {
            (LinkMode::None, Duration::ZERO)
        };
        let config = ServerConfig::new(receiver, link).with_memory(memory);
        let mut entropy = os_entropy().map_err(TrustError::Entropy)?;
        let identity = (format == Format::Native).then(|| Arc::new(StaticKey::generate(&mut entropy)));
        let key = identity.as_ref().map(|identity| identity.public());
        let mut io = UdpIo::bind((Ipv4Addr::LOCALHOST, 0).into(), options)?;
        let address = io.local_addr().map_err(SocketError::Receive)?;
        let mut waiter = Waiter::new(io.socket(), spin).map_err(SocketError::Receive)?;
        let stop = Stop::default();
        stop.add(waiter.waker());
        let mut service = ReceiverApp::new(EventLog::quiet(), Store::discard(), stop.clone());
        let occupancy = io.occupancy();
        let creator = current_cpu();
        let thread = thread::spawn(move || {
            start_on_other_cpu(creator);
            let mut server = Server::new(config);
            if let Some(identity) = identity {
                let mut responder = ResponderConfig::open(identity);
                responder.config.dangerously_unencrypted = unencrypted;
                server.listen(responder, ConnectionSetConfig::default(), entropy);
            }
            run(&mut server, &mut io, &mut service, &mut waiter)?;
            let seed = asked.then_some(seed);
            Ok(ReceiverReport { seed, stats: server.stats(), socket: io.stats(), offload: io.offload() })
        });
        Ok(Self { address, occupancy, key, stop, thread: Mutex::new(Some(thread)) })
    }

    /// Ends the receiver, and returns its report; `None` if it has ended before.
    pub(crate) fn finish(&self) -> Result<Option<ReceiverReport>, SocketError> {
        self.stop.set();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(thread) = thread else { return Ok(None) };
        let ended = thread.join().unwrap_or_else(|_| {
            Err(SocketError::Receive(std::io::Error::other("the embedded receiver's thread ended by itself")))
        });
        ended.map(Some)
    }
}
