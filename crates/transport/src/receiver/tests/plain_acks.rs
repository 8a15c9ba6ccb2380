//! Plain ACKs written in batches, compared with the same ACKs written one by one.

use super::*;
use crate::TransmitBuf;
use rdt_testing::random;

/// Returns the next reply, if there is one.
fn one(script: &mut Script) -> Option<Vec<u8>> {
    script.receiver.poll_reply().map(|reply| reply.to_vec())
}

/// Returns all replies, with plain ACKs taken in batches of random size.
fn filled(script: &mut Script, random: &mut impl FnMut(u64) -> u64) -> Vec<Vec<u8>> {
    let mut replies = Vec::new();
    loop {
        let most = 1 + usize::try_from(random(9)).unwrap();
        let mut batch = TransmitBuf::new(most);
        let count = script.receiver.fill_acks(&mut batch);
        assert_eq!(count, batch.segments() as u64);
        replies.extend(batch.datagrams().map(<[u8]>::to_vec));
        if batch.segments() < most {
            let Some(reply) = one(script) else { return replies };
            replies.push(reply);
        }
    }
}

#[test]
fn batched_acks_equal_single_acks() {
    for seed in 0..40 {
        let mut random = random(seed);
        let config =
            if seed % 4 == 0 { ReceiverConfig { ack: AckPolicy::Batch, ..keeping() } } else { keeping() };
        let mut scripts = [(); 2].map(|()| Script::open_at(config, 0));
        for step in 0..300 {
            let (seq, kind) = (scripts[0].receiver.rcv_nxt() + random(4) / 3, random(30));
            for script in &mut scripts {
                match kind {
                    0 => script.syn(0),
                    1 => script.fin(seq),
                    2 => script.confirm(),
                    3 => {
                        script.read();
                        script
                    }
                    _ => script.data(seq, &[7; 50]),
                };
            }
            if random(8) == 0 {
                let [together, single] = &mut scripts;
                let expected: Vec<_> = std::iter::from_fn(|| one(single)).collect();
                assert_eq!(filled(together, &mut random), expected, "seed {seed} step {step}");
            }
        }
        let [together, single] = scripts.each_ref().map(|script| script.receiver.stats());
        assert_eq!(format!("{together:?}"), format!("{single:?}"), "seed {seed}");
    }
}
