//! The receiver against a plain model of the protocol, over random packets.

use std::collections::BTreeMap;

use super::*;

/// The receiver of the protocol, in the plainest form.
#[derive(Default)]
struct Model {
    expected: u64,
    held: BTreeMap<u64, Vec<u8>>,
    delivered: Vec<u8>,
    open: bool,
    fin: Option<FromReceiver<'static>>,
}

impl Model {
    fn reply(&mut self, packet: &FromSender<'_>) -> Option<FromReceiver<'static>> {
        match *packet {
            FromSender::Syn(syn) => {
                *self = Self { expected: syn.seq, open: true, ..Self::default() };
                Some(syn_ack(self.expected, self.window()))
            }
            FromSender::Data(Piece { seq, payload, .. }) => {
                let ahead = seq < self.expected + 80_000 && seq + 80_000 >= self.expected;
                if !self.open || self.fin.is_some() || !ahead {
                    return None;
                }
                if seq >= self.expected {
                    self.held.entry(seq).or_insert_with(|| payload.to_vec());
                }
                while let Some(payload) = self.held.remove(&self.expected) {
                    self.delivered.extend(payload);
                    self.expected += 1;
                }
                Some(ack(self.expected, self.window()))
            }
            FromSender::Fin { seq, .. } => {
                if self.open && seq == self.expected && self.held.is_empty() {
                    self.fin = Some(fin_ack(seq, crc32fast::hash(&self.delivered)));
                }
                self.fin.filter(|_| seq == self.expected)
            }
        }
    }

    fn window(&self) -> u32 {
        u32::try_from(self.expected.clamp(1, 80_000)).unwrap()
    }
}

#[test]
fn random_packets_get_replies_of_plain_model() {
    for seed in 1..=300_u64 {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut random = move |end: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) % end
        };
        let (mut script, mut model) = (Script::new(keeping()), Model::default());
        for step in 0..400 {
            let near = model.expected + random(6);
            let seq = match random(30) {
                0 => near + 79_990 + random(20),
                1 => near.saturating_sub(79_990 + random(20)),
                2 | 3 => near.saturating_sub(random(6)),
                _ => near,
            };
            let payload = vec![random(256).to_le_bytes()[0]; usize::try_from(random(4)).unwrap()];
            let packet = match random(40) {
                0 => FromSender::Syn(Open { seq: random(200_000), link: LINK }),
                1 | 2 => FromSender::Fin { seq, packet_number: None, understands_ack: false },
                _ => FromSender::Data(Piece::classic(seq, &payload)),
            };
            let expected = model.reply(&packet);
            script.packet(&packet).confirm();
            assert_eq!(script.replies(), Vec::from_iter(expected), "seed {seed} step {step}: {packet:?}");
            assert_eq!(script.receiver.data(), model.delivered, "seed {seed} step {step}: {packet:?}");
        }
    }
}
