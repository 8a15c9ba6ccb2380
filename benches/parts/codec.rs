use std::hint::black_box;

use criterion::Criterion;
use rdt::crypto::{Aead, PacketKey, Space};
use rdt::transport::wire::{FromReceiver, FromSender};
use rdt_testing::packets;

/// Bytes of a sealed packet.
const PACKET: usize = 1472;

/// Decodes packets of the classic format. The benches of the machines contain the encoders.
pub(crate) fn classic(c: &mut Criterion) {
    let near = 69_990;
    let mut group = c.benchmark_group("codec");
    let data = packets::classic(0, &[70_000], &[0; 1464]);
    group.bench_function("decode data", |b| b.iter(|| FromSender::decode(black_box(&data), near).is_ok()));
    let ack = packets::classic(packets::ACK, &[70_000, 70_000], &[]);
    group.bench_function("decode ACK", |b| b.iter(|| FromReceiver::decode(black_box(&ack), near).is_ok()));
    group.finish();
}

/// Seals and opens packets of the native format in place, with and without a cipher. Each packet is
/// copied before it is opened.
pub(crate) fn native(c: &mut Criterion) {
    let mut group = c.benchmark_group("sealed packet");
    for aead in [Aead::None, Aead::Aes128Gcm] {
        let key = PacketKey::new(aead, &[7; 32][..aead.key_bytes()], [9; 12]);
        let (mut packet, mut number) = (vec![7; PACKET], 0);
        group.bench_function(format!("seal, {}", aead.name()), |b| {
            b.iter(|| {
                key.seal(Space::Data, number, black_box(&mut packet));
                number += 1;
            });
        });
        key.seal(Space::Data, number, &mut packet);
        let mut copy = packet.clone();
        group.bench_function(format!("copy and open, {}", aead.name()), |b| {
            b.iter(|| {
                copy.copy_from_slice(&packet);
                assert!(key.open(Space::Data, number, black_box(&mut copy)).is_ok());
            });
        });
    }
    group.finish();
}
