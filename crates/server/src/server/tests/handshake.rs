//! Senders whose handshake is not complete.

use super::*;

/// Packets of the handshake that the client sends. The last one proves its keys.
const PACKETS: u64 = 2;

#[test]
fn link_begins_with_end_of_handshake() {
    for passing in 1..=PACKETS {
        let mut world = World::new(true, Some(LOSSLESS), 1000);
        world.passing = passing;
        world.run(Duration::from_secs(5));
        let (links, events) = (world.server.links.paths.len(), world.events.len());
        let is_complete = passing == PACKETS;
        assert_eq!((links, events > 0), (usize::from(is_complete), is_complete), "{passing} packets");
    }
}

/// As [`LOSSY`], without loss.
const LOSSLESS: LinkRequest = LinkRequest { loss_forward_ppb: 0, ..LOSSY };
