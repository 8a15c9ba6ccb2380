//! Decoders of version 2 over arbitrary bytes: as a packet that was opened, as one that is not
//! sealed, unchanged and with a valid header and check, and as a payload of the handshake. The
//! decoders are private, so their crate has the properties.

use rdt_testing::packets::seal;
use rdt_transport::fuzzing::check_decoders;

pub fn run(data: &[u8]) {
    let Some((near, datagram)) = data.split_first_chunk::<8>() else { return };
    let near = u64::from_le_bytes(*near);
    check_decoders(near, datagram);
    let mut valid = datagram.to_vec();
    if let [mark, kind, ..] = &mut valid[..] {
        (*mark, *kind) = (0xD2, *kind % 14 + 1);
    }
    check_decoders(near, &valid);
    seal(&mut valid);
    check_decoders(near, &valid);
}
