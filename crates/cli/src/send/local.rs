//! HOST `local`: an embedded receiver on a thread of its own, reached through a loopback port.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use rdt_crypto::StaticKey;
use rdt_endpoint::thread::run;
use rdt_program::Failure;
use rdt_program::Stop;
use rdt_server::{LinkMode, Server, ServerConfig};
use rdt_transport::{ConnectionSetConfig, ReceiverConfig, ResponderConfig, SenderConfig, Wire};
use rdt_trust::{TrustError, os_entropy};
use rdt_udp::{SocketError, UdpIo, Waiter, current_cpu, start_on_other_cpu};

use crate::args::SendArgs;
use crate::connection::payload_size;
use crate::host::Local;
use crate::output::log::EventLog;
use crate::output::receiver_report::ReceiverReport;
use crate::recv::app::ReceiverApp;
use crate::recv::store::Store;
use crate::recv::{SPIN_BEFORE_DEADLINE, draw_seed};
use crate::{resources, socket};

/// Starts the receiver. Its memory is the sender's `--memory` or its own default, whichever is
/// larger. For a native transfer it has a key for this run alone.
pub(crate) fn start(args: &SendArgs, sender: &SenderConfig) -> Result<Local, Failure> {
    let rwnd = args.native.rwnd;
    let mut receiver = ReceiverConfig {
        max_datagram: sender.packet_size.max(ReceiverConfig::REFERENCE_DATAGRAM),
        ..ReceiverConfig::reference()
    };
    receiver.acks = args.native.ack.unwrap_or_default();
    receiver.stream_window.max = rwnd.unwrap_or(receiver.stream_window.max);
    receiver.stream_window.mss = payload_size(sender) as u64;
    // One sender may use 1/8 of the receiver's memory.
    let memory = sender.memory_limit.max(resources::default_packet_memory());
    let memory = memory.max(rwnd.unwrap_or(0).saturating_mul(8));
    let asked = sender.wire == Wire::Classic || sender.link_request.is_some();
    let seed = args.seed.unwrap_or_else(draw_seed);
    let (link, spin) = if asked {
        (LinkMode::Emulated { seed }, SPIN_BEFORE_DEADLINE)
    } else {
        (LinkMode::None, Duration::ZERO)
    };
    let config = ServerConfig::new(receiver, link).with_memory(memory);
    let mut entropy = os_entropy().map_err(TrustError::Entropy)?;
    let identity = (sender.wire == Wire::Native).then(|| Arc::new(StaticKey::generate(&mut entropy)));
    let key = identity.as_ref().map(|identity| identity.public());
    let options = socket::of_receiver(1, args.socket_buffer, args.offload.options());
    let mut io = UdpIo::bind((Ipv4Addr::LOCALHOST, 0).into(), options)?;
    let address = io.local_addr().map_err(SocketError::Receive)?;
    let mut waiter = Waiter::new(io.socket(), spin).map_err(SocketError::Receive)?;
    let stop = Stop::default();
    stop.add(waiter.waker());
    let mut service = ReceiverApp::new(EventLog::quiet(), Store::discard(), stop.clone());
    let occupancy = Some(io.occupancy());
    let (creator, unencrypted) = (current_cpu(), args.insecure);
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
        let (stats, socket, offload) = (server.stats(), io.stats(), io.offload());
        Ok(Some(ReceiverReport { seed, stats, socket, offload }))
    });
    Ok(Local { address, key, occupancy, stop, thread: Mutex::new(Some(thread)) })
}
