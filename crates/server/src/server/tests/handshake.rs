//! Senders whose handshake is not complete.

use super::*;

/// Packets of the handshake that the client sends. The last one proves its address (version 1) or
/// its keys (version 2).
const PACKETS: [(bool, u64); 2] = [(false, 2), (true, 3)];

#[test]
fn link_begins_with_end_of_handshake() {
    for (is_encrypted, needed) in PACKETS {
        for passing in 1..=needed {
            let mut world = World::new(is_encrypted, Some(LOSSLESS), 1000);
            world.passing = passing;
            world.run(Duration::from_secs(5));
            let (links, events) = (world.server.links.paths.len(), world.events.len());
            let case = format!("encrypted: {is_encrypted}, {passing} packets");
            assert_eq!((links, events > 0), (usize::from(passing == needed), passing == needed), "{case}");
        }
    }
}

/// As [`LOSSY`], without loss.
const LOSSLESS: LinkRequest = LinkRequest { loss_forward_ppb: 0, ..LOSSY };
