//! Both ends of a native connection without a cipher, whose stream goes one way.

use std::sync::Arc;
use std::time::Instant;

use rdt::crypto::{Entropy, StaticKey};
use rdt::transport::{
    Connection, ConnectionConfig, ConnectionEvent, ConnectionId, ConnectionSet, ConnectionSetConfig, Ecn,
    Endpoint, InitiatorConfig, ReceiverConfig, ResponderConfig, SenderConfig, TransmitBuf,
};

/// One end.
pub(crate) struct End {
    pub(crate) set: ConnectionSet<u8>,
    id: Option<ConnectionId>,
    out: TransmitBuf,
}

impl End {
    fn new(seed: u8) -> Self {
        let config = ConnectionSetConfig {
            memory_limit: 1 << 40,
            connection_memory_limit: 1 << 40,
            ..ConnectionSetConfig::default()
        };
        let set = ConnectionSet::new(config, Entropy::from_seed([seed; 32]));
        Self { set, id: None, out: TransmitBuf::new(64) }
    }

    /// Returns the datagrams that may leave now, after the events.
    pub(crate) fn transmit(&mut self, now: Instant) -> Vec<Vec<u8>> {
        let mut datagrams = Vec::new();
        self.transmit_each(now, |datagram| datagrams.push(datagram.to_vec()));
        datagrams
    }

    /// Passes each datagram that may leave now to `pass`, after the events.
    pub(crate) fn transmit_each(&mut self, now: Instant, mut pass: impl FnMut(&[u8])) {
        while let Some((id, event)) = self.set.poll_event() {
            match event {
                ConnectionEvent::Connected { .. } => self.id = Some(id),
                ConnectionEvent::Closed(closed) => panic!("{closed}"),
                _ => {}
            }
        }
        loop {
            self.out.clear();
            if self.set.poll_transmit(now, &mut self.out).is_none() {
                return;
            }
            self.out.datagrams().for_each(&mut pass);
        }
    }

    pub(crate) fn deliver(&mut self, now: Instant, datagram: &mut [u8]) {
        self.set.handle_datagram(now, 0, Ecn::NotEct, datagram);
    }

    /// Calls `act` on the connection, whose handshake is complete.
    pub(crate) fn with<R>(&mut self, now: Instant, act: impl FnOnce(&mut Connection) -> R) -> R {
        self.set.with(now, self.id.expect("it is connected"), act).expect("it was not released")
    }

    /// Writes up to `bytes` bytes: whatever the buffer contains.
    pub(crate) fn write(&mut self, now: Instant, bytes: usize) {
        self.with(now, |connection| {
            let mut left = bytes;
            while left > 0
                && let Ok(room @ 1..) = connection.spare().map(|spare| spare.len())
            {
                connection.advance(room.min(left));
                left -= room.min(left);
            }
        });
    }
}

/// Opens a connection over a path without delay. Returns the initiator, which sends, and the
/// responder, which receives.
pub(crate) fn connect(sender: SenderConfig, receiver: ReceiverConfig, now: Instant) -> (End, End) {
    let config = ConnectionConfig {
        sender,
        receiver,
        one_way: true,
        dangerously_unencrypted: true,
        ..ConnectionConfig::default()
    };
    let identity = Arc::new(StaticKey::generate(&mut Entropy::from_seed([3; 32])));
    let keys = InitiatorConfig { remote: Some(identity.public()), ..InitiatorConfig::default() };
    let (mut initiator, mut responder) = (End::new(1), End::new(2));
    let listening = ResponderConfig { config: config.clone(), ..ResponderConfig::open(identity) };
    responder.set.listen(listening);
    initiator.set.connect(now, 0, keys, config).expect("the configuration is valid");
    while initiator.id.is_none() || responder.id.is_none() {
        for mut datagram in initiator.transmit(now) {
            responder.deliver(now, &mut datagram);
        }
        for mut datagram in responder.transmit(now) {
            initiator.deliver(now, &mut datagram);
        }
    }
    (initiator, responder)
}
