//! Opening of packets: only what a key sealed opens, unchanged and under its own number.

use arbitrary::{Arbitrary, Unstructured};
use rdt_crypto::{Aead, HEADER_BYTES, PacketKey, Space, TAG_BYTES};

#[derive(Debug, Arbitrary)]
struct Input {
    aead: u8,
    key: [u8; 32],
    iv: [u8; 12],
    number: u64,
    control: bool,
    header: [u8; HEADER_BYTES],
    /// Index and mask of a change; a mask of 0 changes nothing.
    change: (u16, u8),
    /// Number and space under which the packet is opened, if they differ from its own.
    other: Option<(u64, bool)>,
    body: Vec<u8>,
}

pub fn run(data: &[u8]) {
    let Ok(input) = Input::arbitrary_take_rest(Unstructured::new(data)) else { return };
    let aead = Aead::ALL[usize::from(input.aead) % 4];
    let key = PacketKey::new(aead, &input.key[..aead.key_bytes()], input.iv);
    let space = |control| if control { Space::Control } else { Space::Data };
    // Bytes of an attacker without the key.
    let mut forged = data.to_vec();
    let opened = key.open(space(input.control), input.number, &mut forged);
    assert!(opened.is_err() || !aead.is_encrypted(), "a forged packet opened");
    let mut packet = [&input.header[..], &input.body, &[0; TAG_BYTES]].concat();
    key.seal(space(input.control), input.number, &mut packet);
    let own = (input.number, input.control);
    let (number, control) = input.other.unwrap_or(own);
    let at = usize::from(input.change.0) % packet.len();
    packet[at] ^= input.change.1;
    // Without encryption, only the header tells packets apart.
    let is_genuine = input.change.1 == 0 && (!aead.is_encrypted() || (number, control) == own);
    match key.open(space(control), number, &mut packet) {
        Ok(body) => assert!(is_genuine && body == input.body, "a changed packet opened"),
        Err(_) => assert!(!is_genuine, "a genuine packet did not open"),
    }
}
