//! Handshakes, key schedule and sealed packets of `docs/vectors/native.txt`.

use std::collections::BTreeMap;

use crate::{
    Aead, Entropy, Initiator, Keys, PacketKey, Pattern, Psk, Responder, Secrets, SharedSecret, Space,
    StaticKey, hex,
};

const VECTORS: &str = include_str!("../vectors/native.txt");

/// Recorded connection: values by title, and packets with the bodies of sealed ones.
struct Connection {
    pattern: Pattern,
    values: BTreeMap<String, Vec<u8>>,
    packets: Vec<(String, Vec<u8>, Vec<u8>)>,
}

impl Connection {
    fn all() -> Vec<Self> {
        VECTORS.split("\n== ").skip(1).map(Self::parse).collect()
    }

    fn parse(section: &str) -> Self {
        let (name, rest) = section.split_once('\n').unwrap();
        let pattern = [Pattern::Xx, Pattern::Nk, Pattern::Ik].into_iter();
        let mut found = pattern.filter(|pattern| [false, true].map(|psk| pattern.name(psk)).contains(&name));
        let mut entries: Vec<(&str, Vec<u8>)> = Vec::new();
        for line in rest.lines() {
            match line.strip_prefix("  ") {
                Some(digits) => entries.last_mut().unwrap().1.extend(hex::decode(digits)),
                None => entries.push((line, Vec::new())),
            }
        }
        let mut connection =
            Self { pattern: found.next().unwrap(), values: BTreeMap::new(), packets: vec![] };
        for (title, bytes) in entries {
            match title.strip_prefix("packet ") {
                Some(title) => connection.packets.push((title.to_owned(), bytes, Vec::new())),
                None if title == "opened" => connection.packets.last_mut().unwrap().2 = bytes,
                None => drop(connection.values.insert(title.to_owned(), bytes)),
            }
        }
        connection
    }

    fn value(&self, title: &str) -> &[u8] {
        self.values.get(title).unwrap_or_else(|| panic!("no {title}"))
    }

    fn key(&self, title: &str) -> [u8; 32] {
        self.value(title).try_into().unwrap()
    }

    /// Returns Noise message `number`.
    fn message(&self, number: u8) -> &[u8] {
        let carries = |packet: &[u8]| match (packet[1], number) {
            (1, 1) => Some(32 + usize::from(packet[16])),
            (3, 2) => Some(24),
            (11, 3) => Some(16),
            _ => None,
        };
        let mut found = self.packets.iter().filter_map(|(_, packet, _)| Some((packet, carries(packet)?)));
        let (packet, at) = found.next().unwrap();
        &packet[at..at + usize::from(u16::from_le_bytes([packet[2], packet[3]]))]
    }

    fn payload(&self, number: u8) -> &[u8] {
        self.value(&format!("payload of message {number}"))
    }

    /// Runs the handshake and compares each message. Returns the secrets of both sides.
    fn handshake(&self) -> [Secrets; 2] {
        let static_of = |side| {
            let private = self.values.get(&format!("{side}'s static private key"));
            private.map(|bytes| StaticKey::from_bytes(bytes.as_slice().try_into().unwrap()))
        };
        let (ours, theirs) = (static_of("initiator"), static_of("responder").unwrap());
        assert_eq!(theirs.public().as_bytes(), &self.key("responder's static public key"));
        let psk = self.psk();
        let fixed = |side| Entropy::fixed(self.key(&format!("{side}'s ephemeral private key")));
        let prologue = self.value("prologue");

        let keys = Keys { local: ours.as_ref(), remote: Some(theirs.public()), psk: psk.as_ref() };
        let entropy = fixed("initiator");
        let (mut initiator, first) =
            Initiator::start(self.pattern, keys, prologue, entropy, self.payload(1)).unwrap();
        assert_eq!(first, self.message(1));
        let keys = Keys { local: Some(&theirs), remote: None, psk: psk.as_ref() };
        let (mut responder, payload) =
            Responder::accept(self.pattern, keys, prologue, fixed("responder"), &first).unwrap();
        assert_eq!(payload, self.payload(1));
        let second = responder.write_second(self.payload(2)).unwrap();
        assert_eq!(second, self.message(2));
        assert_eq!(initiator.read_second(&second).unwrap(), self.payload(2));
        if self.pattern == Pattern::Xx {
            let third = initiator.write_third(self.payload(3)).unwrap();
            assert_eq!(third, self.message(3));
            assert_eq!(responder.read_third(&third).unwrap(), self.payload(3));
        }
        [initiator.finish().unwrap(), responder.finish().unwrap()]
    }

    fn psk(&self) -> Option<Psk> {
        // One repeated byte, which `new` refuses.
        let secret =
            SharedSecret::from_array::<32>(self.values.get("shared secret")?[..].try_into().unwrap());
        assert_eq!(secret.psk().bytes(), &self.key("psk"));
        let id = secret.id().to_wire().to_le_bytes();
        assert_eq!(self.value("prologue").last_chunk(), Some(&id));
        Some(secret.psk())
    }
}

#[test]
fn handshakes_and_secrets_meet_vectors() {
    for connection in Connection::all() {
        for secrets in connection.handshake() {
            assert_eq!(secrets.handshake_hash, connection.key("handshake hash"));
            let sides = [("initiator", &secrets.from_initiator), ("responder", &secrets.from_responder)];
            for (side, secret) in sides {
                assert_eq!(secret.bytes(), &connection.key(&format!("{side}'s secret 0")));
                assert_eq!(secret.next().bytes(), &connection.key(&format!("{side}'s secret 1")));
            }
        }
    }
}

/// The keys of the schedule and those of the file open every sealed packet.
#[test]
fn sealed_packets_open_to_vectors() {
    for connection in Connection::all() {
        let aead = Aead::from_number(connection.payload(2)[1]).unwrap();
        let [secrets, _] = connection.handshake();
        let sealed = connection.packets.iter().filter(|(_, _, body)| !body.is_empty());
        for (title, packet, body) in sealed.clone() {
            let side = title.split(' ').nth(1).unwrap();
            let phase = packet[2] & 3;
            let first = if side == "initiator" { &secrets.from_initiator } else { &secrets.from_responder };
            let key = if phase == 0 { first.packet_key(aead) } else { first.next().packet_key(aead) };
            let [bytes, iv] = ["key", "iv"].map(|kind| connection.value(&format!("{side}'s {kind} {phase}")));
            let recorded = PacketKey::new(aead, bytes, iv.try_into().unwrap());
            let space = if matches!(packet[1], 4 | 7) { Space::Data } else { Space::Control };
            let number = u32::from_le_bytes(packet[4..8].try_into().unwrap()).into();
            for key in [key, recorded] {
                assert_eq!(key.open(space, number, &mut packet.clone()).unwrap(), body, "{title}");
            }
        }
        assert!(sealed.count() >= 14, "{:?}", connection.pattern);
    }
}
