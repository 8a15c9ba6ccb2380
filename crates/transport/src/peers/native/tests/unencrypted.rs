//! Connections without encryption: both sides must ask, and no host on the path can.

use std::time::Duration;

use rdt_crypto::{Aead, Keys, ResetKey, Responder};

use super::network::Datagram;
use super::*;
use crate::connection::{RefuseReason, params_of};
use crate::receiver::Offer;
use crate::wire::native::{
    self, Clear, RETRY_LEN, Reply, SYN_MIN, Versions, Welcome, encode_retry, encode_syn, encode_syn_ack,
    prologue, syn_ack_len,
};

const REQUEST: &[u8] = b"a request that a host on the path reads if it is not encrypted";
/// AEADs of a SYN that encrypt, and the one that does not.
const ALL: u8 = 0b0111;
const NONE: u8 = 0b1000;
/// Bit of a SYN that says that the initiator has instructions for AES.
const AES: u8 = 1 << 7;

/// Opens a connection and returns its ID after its handshake.
fn connect(network: &mut Network, handshake: (Pattern, bool)) -> ConnectionId {
    let id = network.connect(CLIENT, SERVER, initiator(handshake.0, handshake.1), REQUEST);
    network.hosts[CLIENT].streams.get_mut(&id).unwrap().finish = false;
    network.run(Duration::from_secs(2));
    id
}

fn aead(network: &Network, host: usize) -> Option<Aead> {
    let host = &network.hosts[host];
    let id = *host.streams.keys().next()?;
    host.set.get(id)?.stats().aead
}

/// True if a datagram shows the request.
fn is_readable(network: &Network) -> bool {
    network.log.iter().any(|sent| sent.bytes.windows(REQUEST.len()).any(|bytes| bytes == REQUEST))
}

#[test]
fn both_sides_that_ask_get_none() {
    for handshake in HANDSHAKES {
        let mut network = client_and_server_unencrypted(1, [true; 2]);
        connect(&mut network, handshake);
        assert_eq!([CLIENT, SERVER].map(|host| aead(&network, host)), [Some(Aead::None); 2], "{handshake:?}");
        assert!(is_readable(&network), "{handshake:?}");
        let theirs = network.hosts[SERVER].streams.values().next().unwrap();
        assert_eq!(theirs.incoming, REQUEST, "{handshake:?}");
        // Keys and secrets are those of any handshake.
        assert_eq!(theirs.peer, (handshake.0 != Pattern::Nk).then(|| key(CLIENT_KEY).public()));
    }
}

#[test]
fn responder_alone_gets_encryption() {
    for handshake in HANDSHAKES {
        let mut network = client_and_server_unencrypted(2, [false, true]);
        connect(&mut network, handshake);
        let chosen = [CLIENT, SERVER].map(|host| aead(&network, host).unwrap());
        assert!(chosen.iter().all(|aead| aead.is_encrypted()), "{handshake:?}: {chosen:?}");
        assert!(!is_readable(&network), "{handshake:?}");
    }
}

#[test]
fn initiator_alone_is_refused() {
    for handshake in HANDSHAKES {
        let mut network = client_and_server_unencrypted(3, [true, false]);
        let id = connect(&mut network, handshake);
        let closed = network.hosts[CLIENT].streams[&id].closed.clone();
        assert_eq!(closed, Some(Closed::Refused(RefuseReason::Unencrypted)), "{handshake:?}");
        assert!(network.hosts[SERVER].streams.is_empty(), "{handshake:?}");
        assert_eq!(network.hosts[SERVER].set.stats().unencrypted, 1, "{handshake:?}");
        let (to, from) = network.bytes_to_and_from(network.hosts[CLIENT].address);
        assert!(to < from && !is_readable(&network), "{handshake:?}: {to} bytes for {from}");
    }
}

/// A host on the path that changes the list of AEADs in every SYN ends the handshake. It can
/// neither force a connection without encryption nor one with it.
#[test]
fn changed_list_of_aeads_ends_handshake() {
    let cases = [
        ("forced", [false, true], NONE),
        ("forced with the hint", [false, true], NONE | AES),
        ("added", [false, true], NONE | ALL | AES),
        ("replaced", [true, true], ALL | AES),
        ("removed", [true, true], 0),
        ("others added", [true, true], NONE | ALL),
        ("replaced for a responder that encrypts", [true, false], ALL),
        ("forced on a responder that encrypts", [false, false], NONE),
    ];
    for handshake in HANDSHAKES {
        for (name, unencrypted, aeads) in cases {
            let mut network = client_and_server_unencrypted(4, unencrypted);
            network.rule = Box::new(move |_, datagram| {
                let before = datagram.bytes.clone();
                if let Ok(Clear::Syn(syn)) = Clear::decode(&before) {
                    let id = u64::from_le_bytes(before[8..16].try_into().unwrap());
                    encode_syn(id, &native::Syn { aeads, ..syn }, &mut datagram.bytes);
                }
                Fate::Deliver
            });
            let id = connect(&mut network, handshake);
            network.run(Duration::from_secs(200));
            let ours = &network.hosts[CLIENT].streams[&id];
            let is_right =
                matches!(ours.closed, Some(Closed::TimedOut(_) | Closed::Refused(RefuseReason::WrongKey)));
            assert!(is_right && !ours.is_connected, "{handshake:?} {name}: {:?}", ours.closed);
            assert!(network.hosts[SERVER].streams.is_empty(), "{handshake:?} {name}");
            assert!(!is_readable(&network), "{handshake:?} {name}");
        }
    }
}

/// A REFUSE is not authentic, so it cannot tell an initiator that encryption is refused.
#[test]
fn forged_refuse_of_aeads_is_ignored() {
    let mut network = client_and_server_unencrypted(5, [true; 2]);
    network.hosts[SERVER].reply = Some(Vec::new());
    let id = network.connect(CLIENT, SERVER, initiator(Pattern::Ik, false), REQUEST);
    network.run(Duration::from_millis(1));
    let now = network.now;
    let client = &mut network.hosts[CLIENT];
    let mut bytes = vec![0; native::REFUSE_LEN];
    let code = RefuseReason::Unencrypted.code();
    native::encode_refuse(id.0, code, &mut bytes);
    let from = "198.51.100.1:2000".parse().unwrap();
    client.set.handle_datagram(now, from, Ecn::NotEct, &mut bytes);
    network.run(Duration::from_secs(2));
    assert_eq!(network.hosts[CLIENT].streams[&id].closed, Some(Closed::Finished));
}

/// Returns whether an initiator takes this AEAD from the responder with the expected key.
fn takes(unencrypted: bool, aead: Aead) -> bool {
    let mut network = client_and_server_unencrypted(6, [unencrypted, false]);
    network.hosts[SERVER].set.stop_listening();
    let id = network.connect(CLIENT, SERVER, initiator(Pattern::Ik, false), REQUEST);
    network.run(Duration::from_millis(1));
    let (from, to) = (network.hosts[SERVER].address, network.hosts[CLIENT].address);
    let mut bytes = vec![0; RETRY_LEN];
    encode_retry(id.0, &[3; 32], &mut bytes);
    network.inject(Datagram { from, to, bytes });
    network.run(Duration::from_millis(50));
    let syn = network.log.last().unwrap().bytes.clone();
    let Ok(Clear::Syn(decoded)) = Clear::decode(&syn) else { panic!("no SYN") };
    let identity = key(SERVER_KEY);
    let keys = Keys { local: Some(&identity), ..Keys::default() };
    let prologue = prologue(syn.first_chunk::<SYN_MIN>().unwrap());
    let mut entropy = Entropy::from_seed([9; 32]);
    let (mut noise, _) =
        Responder::accept(Pattern::Ik, keys, &prologue, entropy.child(), decoded.noise).unwrap();
    let config = ConnectionConfig::default();
    let offer = Offer::new(network.now, config.receiver, config.idle_timeout, None);
    let welcome = Welcome {
        aead: aead as u8,
        versions: Versions::OURS,
        connection_id: 7,
        reset_token: ResetKey::generate(&mut entropy).token(7),
        window: offer.window,
        params: params_of(&config, &offer, Service::NONE),
        resumption: None,
    };
    let second = noise.write_second(&Reply::Accepted(welcome).encode()).unwrap();
    let mut bytes = vec![0; syn_ack_len(&second)];
    encode_syn_ack(id.0, decoded.attempt, &second, &mut bytes);
    network.inject(Datagram { from, to, bytes });
    network.run(Duration::from_millis(50));
    let stream = &network.hosts[CLIENT].streams[&id];
    assert!(stream.closed.is_none() || stream.closed == Some(Closed::Handshake), "{:?}", stream.closed);
    stream.closed.is_none() && is_readable(&network) != aead.is_encrypted()
}

/// A responder with the right key cannot choose what the initiator did not offer.
#[test]
fn aead_that_was_not_offered_is_refused() {
    for aead in Aead::ALL {
        assert_eq!(takes(false, aead), aead.is_encrypted(), "{aead:?}");
        assert_eq!(takes(true, aead), !aead.is_encrypted(), "{aead:?}");
    }
}
