//! HOST `local`: an embedded receiver on a thread of its own, reached through a loopback port.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rdt_driver::{
    BufferOccupancy, SocketError, UdpIo, UdpOptions, Waiter, current_cpu, run, start_on_other_cpu,
};
use rdt_program::Stop;
use rdt_server::{LinkMode, Server, ServerConfig};
use rdt_transport::{AckConfig, ReceiverConfig, SenderConfig, Wire};

use crate::output::log::EventLog;
use crate::output::receiver_report::ReceiverReport;
use crate::recv::SPIN_BEFORE_DEADLINE;
use crate::recv::app::ReceiverApp;
use crate::recv::store::Store;
use crate::{Failure, resources};

pub(crate) struct LocalReceiver {
    pub(crate) address: SocketAddr,
    pub(crate) occupancy: Arc<BufferOccupancy>,
    stop: Stop,
    thread: JoinHandle<Result<ReceiverReport, SocketError>>,
}

impl LocalReceiver {
    /// Starts the receiver. Its memory is the sender's `--memory` or its own default, whichever is
    /// larger. `rwnd` is the largest window of a native sender, bytes, and `acks` the ACKs that it
    /// gets; `None` for the defaults.
    pub(crate) fn start(
        seed: u64,
        sender: &SenderConfig,
        rwnd: Option<u64>,
        acks: Option<AckConfig>,
        options: UdpOptions,
    ) -> Result<Self, Failure> {
        let mut receiver = ReceiverConfig {
            max_datagram: sender.packet_size.max(ReceiverConfig::REFERENCE_DATAGRAM),
            ..ReceiverConfig::reference()
        };
        receiver.acks = acks.unwrap_or_default();
        receiver.stream_window.max = rwnd.unwrap_or(receiver.stream_window.max);
        receiver.stream_window.mss = sender.payload_size() as u64;
        // One sender may use 1/8 of the receiver's memory.
        let memory = sender.memory_limit.max(resources::default_packet_memory());
        let memory = memory.max(rwnd.unwrap_or(0).saturating_mul(8));
        let asked = sender.wire == Wire::Classic || sender.link_request.is_some();
        let (link, spin) = if asked {
            (LinkMode::Emulated { seed }, SPIN_BEFORE_DEADLINE)
        } else {
            (LinkMode::None, Duration::ZERO)
        };
        let mut config = ServerConfig::new(receiver, link).with_memory(memory);
        config.listener.secret = Some(rand::random());
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
            run(&mut server, &mut io, &mut service, &mut waiter)?;
            let seed = asked.then_some(seed);
            Ok(ReceiverReport { seed, stats: server.stats(), socket: io.stats(), offload: io.offload() })
        });
        Ok(Self { address, occupancy, stop, thread })
    }

    pub(crate) fn finish(self) -> Result<ReceiverReport, SocketError> {
        self.stop.set();
        self.thread.join().unwrap_or_else(|_| {
            Err(SocketError::Receive(std::io::Error::other("the embedded receiver's thread ended by itself")))
        })
    }
}
