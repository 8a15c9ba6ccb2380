//! Decoders of the classic format over arbitrary bytes, near arbitrary numbers. Most are private,
//! so their crate has the properties.

use rdt_transport::fuzzing::check_classic;

pub fn run(data: &[u8]) {
    let Some((near, datagram)) = data.split_first_chunk::<8>() else { return };
    let near = u64::from_le_bytes(*near);
    check_classic(near, datagram);
    // The magic number, which random bytes seldom have.
    let mut framed = datagram.to_vec();
    if let Some(magic) = framed.get_mut(1..4) {
        magic.copy_from_slice(&[0xAA, 0x11, 0x83]);
    }
    check_classic(near, &framed);
}
