//! Decoders of the native format over arbitrary bytes: as a packet that was opened, as one that is
//! not sealed, unchanged and with a valid header and check, and as a payload of the handshake. The
//! decoders are private, so their crate has the properties.

use rdt_testing::packets::set_check;
use rdt_transport::fuzzing::check_native;

pub fn run(data: &[u8]) {
    let Some((near, datagram)) = data.split_first_chunk::<8>() else { return };
    let near = u64::from_le_bytes(*near);
    check_native(near, datagram);
    let mut valid = datagram.to_vec();
    if let [mark, kind, ..] = &mut valid[..] {
        *kind = *kind % 15 + 1;
        *mark = if *kind == 10 { 0xD0 } else { 0xD2 };
    }
    check_native(near, &valid);
    set_check(&mut valid);
    check_native(near, &valid);
}
