use rdt_testing::Numbers;
use serde_json::Value;
use snow::params::CipherChoice;
use snow::resolvers::{CryptoResolver, DefaultResolver};

use super::*;
use crate::{Aead, SharedSecret, Space, hex};

const PATTERNS: [Pattern; 3] = [Pattern::Xx, Pattern::Nk, Pattern::Ik];
const PROLOGUE: &[u8] = b"prologue";

fn bytes(digits: &Value) -> Vec<u8> {
    hex::decode(digits.as_str().unwrap())
}

fn key(digits: &Value) -> [u8; 32] {
    bytes(digits).try_into().unwrap()
}

/// Two sides that know each other as the pattern wants.
struct Pair {
    initiator: StaticKey,
    responder: StaticKey,
    psk: Psk,
}

impl Pair {
    fn new() -> Self {
        let [initiator, responder] =
            [1, 2].map(|seed| StaticKey::generate(&mut Entropy::from_seed([seed; 32])));
        Self { initiator, responder, psk: SharedSecret::from_array(&[5; 16]).psk() }
    }

    fn initiator(&self, psk: bool) -> Keys<'_> {
        let remote = Some(self.responder.public());
        Keys { local: Some(&self.initiator), remote, psk: psk.then_some(&self.psk) }
    }

    fn responder(&self, psk: bool) -> Keys<'_> {
        Keys { local: Some(&self.responder), remote: None, psk: psk.then_some(&self.psk) }
    }

    fn start(&self, pattern: Pattern, psk: bool) -> (Initiator, Vec<u8>) {
        let payload = if pattern == Pattern::Xx { &b""[..] } else { b"first" };
        Initiator::start(pattern, self.initiator(psk), PROLOGUE, Entropy::from_seed([3; 32]), payload)
            .unwrap()
    }

    fn accept(
        &self,
        pattern: Pattern,
        psk: bool,
        message: &[u8],
    ) -> Result<(Responder, Vec<u8>), NoiseError> {
        Responder::accept(pattern, self.responder(psk), PROLOGUE, Entropy::from_seed([4; 32]), message)
    }

    /// XX up to its third message.
    fn third(&self, psk: bool) -> (Initiator, Responder, Vec<u8>) {
        let (mut initiator, first) = self.start(Pattern::Xx, psk);
        let (mut responder, _) = self.accept(Pattern::Xx, psk, &first).unwrap();
        let second = responder.write_second(b"second").unwrap();
        initiator.read_second(&second).unwrap();
        let third = initiator.write_third(b"third").unwrap();
        (initiator, responder, third)
    }
}

fn assert_equal_secrets(initiator: Initiator, responder: Responder) {
    let (here, there) = (initiator.finish().unwrap(), responder.finish().unwrap());
    assert_eq!(here.handshake_hash, there.handshake_hash);
    for (sealing, opening) in
        [(here.from_initiator, there.from_initiator), (there.from_responder, here.from_responder)]
    {
        let mut packet = [1; 48];
        sealing.packet_key(Aead::Aes128Gcm).seal(Space::Data, 0, &mut packet);
        opening.packet_key(Aead::Aes128Gcm).open(Space::Data, 0, &mut packet).unwrap();
    }
}

/// The transport messages of the vectors are sealed with the two secrets of the split.
fn assert_transport(secret: &[u8; 32], nonce: u64, message: &Value) {
    let mut cipher = DefaultResolver.resolve_cipher(&CipherChoice::ChaChaPoly).unwrap();
    cipher.set(secret);
    let payload = bytes(&message["payload"]);
    let mut sealed = vec![0; payload.len() + 16];
    cipher.encrypt(nonce, b"", &payload, &mut sealed);
    assert_eq!(sealed, bytes(&message["ciphertext"]));
}

/// Vectors of cacophony. Their XX has a payload in message 1, so the states are driven here as
/// `Initiator` and `Responder` drive them.
#[test]
fn published_vectors_are_met() {
    let file: Value = serde_json::from_str(include_str!("../../vectors/noise.json")).unwrap();
    let mut names = vec![];
    for vector in file["vectors"].as_array().unwrap() {
        let name = vector["protocol_name"].as_str().unwrap();
        let psk = vector["init_psks"].get(0).map(|psk| Psk::from_bytes(key(psk)));
        let pattern = PATTERNS.into_iter().find(|pattern| pattern.name(psk.is_some()) == name).unwrap();
        let statics =
            ["init_static", "resp_static"].map(|name| vector.get(name).map(key).map(StaticKey::from_bytes));
        let remote =
            vector.get("init_remote_static").map(|remote| PublicKey::from_bytes(key(remote)).unwrap());
        let mut states = [Side::Initiator, Side::Responder].map(|side| {
            let (local, ephemeral, prologue) = match side {
                Side::Initiator => (&statics[0], "init_ephemeral", "init_prologue"),
                Side::Responder => (&statics[1], "resp_ephemeral", "resp_prologue"),
            };
            let keys = Keys { local: local.as_ref(), remote, psk: psk.as_ref() };
            let entropy = Entropy::fixed(key(&vector[ephemeral]));
            state(pattern, side, keys, &bytes(&vector[prologue]), entropy).unwrap()
        });
        let (handshake, transport) =
            vector["messages"].as_array().unwrap().split_at(usize::from(pattern.messages()));
        for (i, message) in handshake.iter().enumerate() {
            let payload = bytes(&message["payload"]);
            let written = write(&mut states[i % 2], &payload).unwrap();
            assert_eq!(written, bytes(&message["ciphertext"]), "{name}, message {}", i + 1);
            assert_eq!(read(&mut states[1 - i % 2], &written).unwrap(), payload);
        }
        for state in states {
            assert_eq!(state.get_handshake_hash(), bytes(&vector["handshake_hash"]), "{name}");
            let secrets = finish(state).unwrap();
            for (i, message) in transport.iter().enumerate() {
                // The side that did not send the last message of the handshake goes on.
                let initiator_sends = (handshake.len() + i) % 2 == 0;
                let secret = if initiator_sends { &secrets.from_initiator } else { &secrets.from_responder };
                assert_transport(secret.bytes(), i as u64 / 2, message);
            }
        }
        names.push(name.to_owned());
    }
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 6);
}

#[test]
fn all_patterns_give_equal_secrets() {
    let pair = Pair::new();
    for pattern in PATTERNS {
        for psk in [false, true] {
            let (mut initiator, first) = pair.start(pattern, psk);
            let (mut responder, payload) = pair.accept(pattern, psk, &first).unwrap();
            assert_eq!(payload, if pattern == Pattern::Xx { &b""[..] } else { b"first" });
            let second = responder.write_second(b"second").unwrap();
            assert_eq!(initiator.peer(), None, "message 2 was not read");
            assert_eq!(initiator.read_second(&second).unwrap(), b"second");
            assert_eq!(initiator.peer(), Some(pair.responder.public()));
            let mut sizes = vec![first.len() - payload.len(), second.len() - 6];
            if pattern == Pattern::Xx {
                assert_eq!(responder.peer(), None);
                let third = initiator.write_third(b"third").unwrap();
                assert_eq!(responder.read_third(&third).unwrap(), b"third");
                sizes.push(third.len() - 5);
            }
            let known = (pattern != Pattern::Nk).then(|| pair.initiator.public());
            assert_eq!(responder.peer(), known);
            let expected = match pattern {
                Pattern::Xx => vec![if psk { 48 } else { 32 }, 96, 64],
                Pattern::Nk => vec![48, 48],
                Pattern::Ik => vec![96, 48],
            };
            assert_eq!(sizes, expected, "{pattern:?}, secret: {psk}");
            assert_equal_secrets(initiator, responder);
        }
    }
}

#[test]
fn equal_entropy_gives_equal_messages() {
    let pair = Pair::new();
    for pattern in PATTERNS {
        let [(_, one), (_, other)] = [(); 2].map(|()| pair.start(pattern, true));
        assert_eq!(one, other);
        let entropy = Entropy::from_seed([33; 32]);
        let (_, third) = Initiator::start(pattern, pair.initiator(true), PROLOGUE, entropy, b"").unwrap();
        assert_ne!(third[..32], one[..32], "ephemeral keys differ");
    }
}

/// Each byte of message 3 in turn. Only a genuine static key spoils the state.
#[test]
fn changed_auth_does_not_stop_handshake() {
    let pair = Pair::new();
    for psk in [false, true] {
        let length = pair.third(psk).2.len();
        for at in 0..length {
            let (initiator, mut responder, third) = pair.third(psk);
            let mut changed = third.clone();
            changed[at] ^= 1;
            for _ in 0..20 {
                assert_eq!(responder.read_third(&changed), Err(NoiseError::Forged), "byte {at}");
                assert_eq!((responder.peer(), responder.is_spoiled()), (None, at >= 48), "byte {at}");
            }
            assert_eq!(responder.read_third(&third).unwrap(), b"third", "byte {at}");
            assert_eq!(responder.peer(), Some(pair.initiator.public()));
            assert_eq!(responder.read_third(&third), Err(NoiseError::OutOfTurn));
            assert_equal_secrets(initiator, responder);
        }
    }
}

#[test]
fn spoiled_handshake_does_not_finish() {
    let pair = Pair::new();
    let (_, mut responder, third) = pair.third(false);
    assert_eq!(responder.read_third(&third[..third.len() - 1]), Err(NoiseError::Forged));
    assert!(responder.is_spoiled());
    assert_eq!(responder.finish().unwrap_err(), NoiseError::OutOfTurn);
}

#[test]
fn changed_second_message_does_not_stop_handshake() {
    let pair = Pair::new();
    for pattern in PATTERNS {
        let (mut initiator, first) = pair.start(pattern, true);
        let (mut responder, _) = pair.accept(pattern, true, &first).unwrap();
        let second = responder.write_second(b"second").unwrap();
        for at in 0..second.len() {
            let mut changed = second.clone();
            changed[at] ^= 0x40;
            assert_eq!(initiator.read_second(&changed), Err(NoiseError::Forged), "{pattern:?}, byte {at}");
            assert_eq!(initiator.peer(), None);
        }
        assert_eq!(initiator.read_second(&second).unwrap(), b"second", "{pattern:?}");
    }
}

#[test]
fn changed_first_message_is_refused() {
    let pair = Pair::new();
    for pattern in [Pattern::Nk, Pattern::Ik] {
        let (_, first) = pair.start(pattern, false);
        for at in 0..first.len() {
            let mut changed = first.clone();
            changed[at] ^= 1;
            assert_eq!(pair.accept(pattern, false, &changed).unwrap_err(), NoiseError::Forged, "byte {at}");
        }
    }
    // XX has no key before message 2: a changed message 1 shows there.
    let (mut initiator, mut first) = pair.start(Pattern::Xx, false);
    first[7] ^= 1;
    let (mut responder, _) = pair.accept(Pattern::Xx, false, &first).unwrap();
    let second = responder.write_second(b"").unwrap();
    assert_eq!(initiator.read_second(&second), Err(NoiseError::Forged));
    first.push(0);
    assert_eq!(pair.accept(Pattern::Xx, false, &first).unwrap_err(), NoiseError::Forged, "a payload");
}

#[test]
fn wrong_key_secret_or_prologue_is_refused() {
    let pair = Pair::new();
    let other = StaticKey::from_bytes([77; 32]);
    let entropy = || Entropy::from_seed([4; 32]);
    for pattern in PATTERNS {
        let (mut initiator, first) = pair.start(pattern, true);
        let secret = SharedSecret::from_array(&[6; 16]).psk();
        let right = pair.responder(true);
        let wrong = [
            (Keys { local: Some(&other), ..right }, PROLOGUE, pattern != Pattern::Xx),
            (right, &PROLOGUE[1..], true),
            (Keys { psk: Some(&secret), ..right }, PROLOGUE, false),
        ];
        for (keys, prologue, refused_at_once) in wrong {
            match Responder::accept(pattern, keys, prologue, entropy(), &first) {
                Err(error) => assert_eq!((error, refused_at_once), (NoiseError::Forged, true), "{pattern:?}"),
                Ok((mut responder, _)) => {
                    assert!(!refused_at_once, "{pattern:?}");
                    let second = responder.write_second(b"").unwrap();
                    if pattern == Pattern::Xx {
                        // The initiator sees the other key, or message 3 fails: wrong secret.
                        initiator = pair.start(pattern, true).0;
                        initiator.read_second(&second).unwrap();
                        let third = initiator.write_third(b"").unwrap();
                        let changed_key = initiator.peer() != Some(pair.responder.public());
                        assert_eq!(responder.read_third(&third).is_err(), !changed_key);
                    } else {
                        assert_eq!(initiator.read_second(&second), Err(NoiseError::Forged), "{pattern:?}");
                    }
                }
            }
        }
        // A secret on one side only is another protocol.
        let plain = Responder::accept(pattern, pair.responder(false), PROLOGUE, entropy(), &first);
        assert_eq!(plain.unwrap_err(), NoiseError::Forged, "{pattern:?}");
    }
}

/// A peer whose static key has low order: each private key computes the same secret with it.
#[test]
fn peer_key_of_low_order_is_refused() {
    let pair = Pair::new();
    let local = [0; 32];
    let build = |side| {
        let params: NoiseParams = Pattern::Xx.name(false).parse().unwrap();
        let resolver = Box::new(LowOrder(SeededResolver(Entropy::from_seed([9; 32]))));
        let builder = Builder::with_resolver(params, resolver).prologue(PROLOGUE).unwrap();
        let builder = builder.local_private_key(&local).unwrap();
        if side == Side::Initiator { builder.build_initiator() } else { builder.build_responder() }.unwrap()
    };
    let mut liar = build(Side::Initiator);
    let first = write(&mut liar, b"").unwrap();
    let (mut responder, _) = pair.accept(Pattern::Xx, false, &first).unwrap();
    read(&mut liar, &responder.write_second(b"").unwrap()).unwrap();
    assert_eq!(responder.read_third(&write(&mut liar, b"").unwrap()), Err(NoiseError::Forged));
    assert_eq!(responder.peer(), None);

    let (mut initiator, first) = pair.start(Pattern::Xx, false);
    let mut liar = build(Side::Responder);
    read(&mut liar, &first).unwrap();
    assert_eq!(initiator.read_second(&write(&mut liar, b"").unwrap()), Err(NoiseError::Forged));
    assert_eq!(initiator.write_third(b"").unwrap_err(), NoiseError::OutOfTurn);
    assert_eq!(initiator.finish().unwrap_err(), NoiseError::OutOfTurn);
}

/// Algorithms in which the private key 0 has the public key 0, with which all results are 0.
struct LowOrder(SeededResolver);

struct LowOrderDh {
    real: Box<dyn snow::types::Dh>,
    low: bool,
}

impl CryptoResolver for LowOrder {
    fn resolve_rng(&self) -> Option<Box<dyn snow::types::Random>> {
        self.0.resolve_rng()
    }
    fn resolve_dh(&self, choice: &snow::params::DHChoice) -> Option<Box<dyn snow::types::Dh>> {
        Some(Box::new(LowOrderDh { real: self.0.resolve_dh(choice)?, low: false }))
    }
    fn resolve_hash(&self, choice: &snow::params::HashChoice) -> Option<Box<dyn snow::types::Hash>> {
        self.0.resolve_hash(choice)
    }
    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn snow::types::Cipher>> {
        self.0.resolve_cipher(choice)
    }
}

impl snow::types::Dh for LowOrderDh {
    fn name(&self) -> &'static str {
        self.real.name()
    }
    fn pub_len(&self) -> usize {
        32
    }
    fn priv_len(&self) -> usize {
        32
    }
    fn set(&mut self, private: &[u8]) {
        self.low = private == [0; 32];
        self.real.set(private);
    }
    fn generate(&mut self, random: &mut dyn snow::types::Random) -> Result<(), snow::Error> {
        self.real.generate(random)
    }
    fn pubkey(&self) -> &[u8] {
        if self.low { &[0; 32] } else { self.real.pubkey() }
    }
    fn privkey(&self) -> &[u8] {
        self.real.privkey()
    }
    fn dh(&self, public: &[u8], out: &mut [u8]) -> Result<(), snow::Error> {
        if self.low {
            out[..32].fill(0);
            return Ok(());
        }
        self.real.dh(public, out)
    }
}

#[test]
fn missing_keys_are_named() {
    let pair = Pair::new();
    let entropy = || Entropy::from_seed([4; 32]);
    let none = Keys::default();
    for pattern in PATTERNS {
        let started = Initiator::start(pattern, none, PROLOGUE, entropy(), b"");
        assert_eq!(started.unwrap_err(), NoiseError::MissingKey);
        let accepted = Responder::accept(pattern, none, PROLOGUE, entropy(), &[0; 96]);
        assert_eq!(accepted.unwrap_err(), NoiseError::MissingKey);
    }
    let local = Keys { local: Some(&pair.initiator), ..none };
    for pattern in [Pattern::Nk, Pattern::Ik] {
        let started = Initiator::start(pattern, local, PROLOGUE, entropy(), b"");
        assert_eq!(started.unwrap_err(), NoiseError::MissingKey);
    }
}

#[test]
fn messages_out_of_turn_are_refused() {
    let pair = Pair::new();
    let (mut initiator, first) = pair.start(Pattern::Ik, false);
    assert_eq!(initiator.write_third(b"").unwrap_err(), NoiseError::OutOfTurn);
    let (mut responder, _) = pair.accept(Pattern::Ik, false, &first).unwrap();
    assert_eq!(responder.read_third(&first), Err(NoiseError::OutOfTurn));
    let second = responder.write_second(b"").unwrap();
    assert_eq!(responder.write_second(b""), Err(NoiseError::OutOfTurn));
    initiator.read_second(&second).unwrap();
    assert_eq!(initiator.read_second(&second), Err(NoiseError::OutOfTurn));
    assert_eq!(initiator.write_third(b""), Err(NoiseError::OutOfTurn));
    assert_equal_secrets(initiator, responder);

    let (initiator, first) = pair.start(Pattern::Xx, false);
    let (mut responder, _) = pair.accept(Pattern::Xx, false, &first).unwrap();
    assert_eq!(responder.read_third(&first), Err(NoiseError::OutOfTurn), "message 2 was not written");
    assert_eq!(initiator.finish().unwrap_err(), NoiseError::OutOfTurn);
    assert_eq!(responder.finish().unwrap_err(), NoiseError::OutOfTurn);
}

#[test]
fn payloads_that_do_not_fit_are_refused() {
    let pair = Pair::new();
    let entropy = || Entropy::from_seed([4; 32]);
    let started = Initiator::start(Pattern::Xx, pair.initiator(true), PROLOGUE, entropy(), b"clear");
    assert_eq!(started.unwrap_err(), NoiseError::Payload);
    let largest = vec![1; MAX_PAYLOAD_BYTES + 1];
    let started = Initiator::start(Pattern::Ik, pair.initiator(true), PROLOGUE, entropy(), &largest);
    assert_eq!(started.unwrap_err(), NoiseError::Payload);
    let (_, first) =
        Initiator::start(Pattern::Ik, pair.initiator(true), PROLOGUE, entropy(), &largest[1..]).unwrap();
    assert_eq!(pair.accept(Pattern::Ik, true, &first).unwrap().1, &largest[1..]);
}

/// Random bytes and cut messages of all lengths: refused, without a panic.
#[test]
fn hostile_messages_are_refused() {
    let pair = Pair::new();
    let mut numbers = Numbers::new(11);
    for pattern in PATTERNS {
        let (mut initiator, first) = pair.start(pattern, true);
        let (mut responder, _) = pair.accept(pattern, true, &first).unwrap();
        let second = responder.write_second(b"second").unwrap();
        for length in 0..second.len() {
            assert_eq!(initiator.read_second(&second[..length]), Err(NoiseError::Forged));
        }
        for length in 0..first.len() {
            assert_eq!(pair.accept(pattern, true, &first[..length]).unwrap_err(), NoiseError::Forged);
        }
        for length in (0..300).step_by(3) {
            let noise: Vec<u8> = (0..length).map(|_| u8::try_from(numbers.below(256)).unwrap()).collect();
            assert_eq!(initiator.read_second(&noise), Err(NoiseError::Forged));
            assert_eq!(pair.accept(pattern, true, &noise).unwrap_err(), NoiseError::Forged);
        }
        assert_eq!(initiator.read_second(&second).unwrap(), b"second");
    }
}

#[test]
fn patterns_keep_their_numbers() {
    let numbers = [(1, Pattern::Xx), (2, Pattern::Nk), (3, Pattern::Ik)];
    for (number, pattern) in numbers {
        for psk in [false, true] {
            let number = number + if psk { 0x10 } else { 0 };
            assert_eq!(pattern.number(psk), number);
            assert_eq!(Pattern::from_number(number), Some((pattern, psk)));
        }
    }
    let known = (0..=255).filter(|&number| Pattern::from_number(number).is_some()).count();
    assert_eq!(known, 6);
}

#[test]
fn handshakes_can_move_between_threads() {
    fn assert_send<T: Send>() {}
    assert_send::<Initiator>();
    assert_send::<Responder>();
}
