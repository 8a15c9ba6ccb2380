//! Decoders of the native format over arbitrary bytes: unchanged, and with a valid header and
//! check. Most are private, so their crate has the properties.

use rdt_testing::packets::seal;
use rdt_transport::fuzzing::check_decoders;

pub fn run(data: &[u8]) {
    let Some((near, datagram)) = data.split_first_chunk::<8>() else { return };
    let near = u64::from_le_bytes(*near);
    check_decoders(near, datagram);
    let mut sealed = datagram.to_vec();
    if let [mark, kind, ..] = &mut sealed[..] {
        *kind = *kind % 10 + 1;
        *mark = if *kind == 10 { 0xD0 } else { 0xD1 };
    }
    seal(&mut sealed);
    check_decoders(near, &sealed);
}
