use super::*;
use crate::{FileOffset, FrameSource};
use rdt_testing::Numbers;

/// Room for packets in one frame.
const PACKETS: u64 = 44;

impl SendBuffer {
    fn end_chunk(&mut self) {
        self.chunks.back_mut().into_iter().for_each(Chunk::end_here);
    }
}

/// Packets with headers of 8 bytes from `offset` on.
fn cut(offset: u64) -> Cut {
    Cut { offset, header: 8, mss: 1464, trailer: 0 }
}

fn data(len: u32) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8).collect()
}

fn own(has_checksum: bool) -> SendBuffer {
    SendBuffer::new(has_checksum, FramePool::new())
}

fn write(buffer: &mut SendBuffer, cut: Cut, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let n = buffer.spare(cut, u64::MAX).copy_from(bytes);
        assert!(n > 0, "there is always room");
        buffer.advance(n);
        bytes = &bytes[n..];
    }
}

fn read(buffer: &mut SendBuffer, from: usize, len: usize) -> Vec<u8> {
    let mut out = vec![0; len];
    buffer.copy_to(from as u64, &mut out);
    out
}

#[test]
fn bytes_read_back_across_frames() {
    let data = data(300_000);
    let mut buffer = own(true);
    write(&mut buffer, cut(0), &data);
    for (from, len) in [(60_001, 100_000), (7, 1444), (65_000, 1444), (64_416, 1), (64_415, 2), (0, 300_000)]
    {
        assert_eq!(read(&mut buffer, from, len), &data[from..from + len], "{len} from {from}");
    }
    assert_eq!(buffer.crc(), crc32fast::hash(&data));
    assert_eq!(buffer.end(), 300_000);
}

/// Sends all ready packets in place; returns the batch's bytes.
fn lend(buffer: &mut SendBuffer, cut: Cut) -> Vec<u8> {
    let count = buffer.ready(cut);
    let encode = |number: u64, packet: &mut [u8]| {
        packet[..8].copy_from_slice(&number.to_le_bytes());
        packet[cut.header + cut.mss..].fill(0xee);
    };
    let ready = buffer.send_in_place(cut, count, 0, encode).expect("the frame is not shared");
    ready.frame.bytes()[ready.start..ready.start + count * cut.packet_len()].to_vec()
}

#[test]
fn packets_leave_in_place() {
    let data = data(2000 + 70 * 1464);
    let mut buffer = own(true);
    write(&mut buffer, cut(0), &data);
    let mut offset = 0;
    for packets in [PACKETS, 71 - PACKETS] {
        assert_eq!(buffer.ready(cut(offset)) as u64, packets, "from {offset}");
        assert_eq!(buffer.ready(cut(offset + 1)), 0, "no packet begins there");
        assert_eq!(buffer.ready(Cut { mss: 1463, ..cut(offset) }), 0, "they are cut otherwise");
        for (number, packet) in (0_u64..).zip(lend(&mut buffer, cut(offset)).chunks(1472)) {
            let at = usize::try_from(offset + number * 1464).unwrap();
            assert_eq!((&packet[..8], &packet[8..]), (&number.to_le_bytes()[..], &data[at..at + 1464]));
        }
        offset += packets * 1464;
    }
    assert_eq!(buffer.ready(cut(offset)), 0, "a piece of a packet is none");
    assert_eq!(buffer.crc(), crc32fast::hash(&data));
    assert_eq!(read(&mut buffer, 0, data.len()), data, "headers touch nothing");
}

#[test]
fn frame_begins_with_rest_of_packet() {
    let data = data(200_000);
    for before in [1, 600, 1463, 1464, 100_000] {
        let mut buffer = own(true);
        // From here on, packets are divided differently.
        write(&mut buffer, cut(0), &data[..before]);
        let start = before as u64 - 1;
        buffer.end_chunk();
        let cut = Cut { offset: start, header: 24, mss: 1000, trailer: 0 };
        write(&mut buffer, cut, &data[before..]);
        assert_eq!(buffer.ready(cut), 0, "the first one lies in two frames");
        assert_eq!(buffer.unready(cut), Some(1));
        let next = Cut { offset: start + 1000, ..cut };
        assert_eq!(buffer.ready(next), 63, "{before} bytes before");
        let sent = lend(&mut buffer, next);
        assert_eq!(&sent[24..1024], &data[before + 999..before + 1999]);
        assert_eq!(read(&mut buffer, before - 1, 100_000), &data[before - 1..before + 99_999]);
    }
}

/// Writes a stream whose cuts change, sends what can be sent in place and compares it with the
/// stream.
#[test]
fn headers_and_trailers_spare_the_payload() {
    let mut numbers = Numbers::new(3);
    let mut draw = |below: usize| usize::try_from(numbers.below(below as u64)).unwrap();
    let data = data(400_000);
    for round in 0..60 {
        let mut buffer = own(round % 2 == 0);
        let (mut written, mut in_place) = (0, 0);
        while written < 300_000 {
            let cut = Cut {
                offset: (written - draw(written.min(2000) + 1)) as u64,
                header: [8, 24, 28][draw(3)],
                mss: 1 + draw(3000),
                trailer: [0, 16][draw(2)],
            };
            let next = written + draw(80_000);
            write(&mut buffer, cut, &data[written..next]);
            written = next;
            for skipped in 0..80 {
                let cut = Cut { offset: cut.offset + skipped * cut.mss as u64, ..cut };
                if buffer.ready(cut) == 0 || cut.offset >= written as u64 {
                    continue;
                }
                let sent = lend(&mut buffer, cut);
                let start = usize::try_from(cut.offset).unwrap();
                for (packet, payload) in
                    sent.chunks_exact(cut.packet_len()).zip(data[start..].chunks(cut.mss))
                {
                    assert_eq!(&packet[cut.header..][..cut.mss], payload, "{cut:?}");
                    assert!(packet[cut.header + cut.mss..].iter().all(|byte| *byte == 0xee));
                    in_place += 1;
                }
            }
            buffer.end_chunk();
        }
        assert!(in_place > 50, "{in_place} packets in round {round}");
        assert_eq!(read(&mut buffer, 0, written), &data[..written]);
        assert!(round % 2 == 0 || buffer.crc() == 0);
    }
}

/// Stands for sealing and opening: changes all bytes of a packet but its first, which is the key.
fn scramble(packet: &mut [u8]) -> &mut [u8] {
    let key = packet[0] | 1;
    packet[1..].iter_mut().for_each(|byte| *byte ^= key);
    packet
}

#[test]
fn sealed_packets_read_back_opened() {
    let mut numbers = Numbers::new(4);
    let mut draw = |below: usize| usize::try_from(numbers.below(below as u64)).unwrap();
    let data = data(300_000);
    for _ in 0..40 {
        let mut buffer = own(false);
        let (mut written, mut sealed) = (0, 0);
        while written < 200_000 {
            let cut = Cut { offset: written as u64, header: 24, mss: 300 + draw(3000), trailer: 16 };
            write(&mut buffer, cut, &data[written..][..50_000]);
            let mut next = cut;
            while next.offset < (written + 50_000) as u64 {
                let count = draw(6).min(buffer.ready(next));
                if count > 0 {
                    let sealing = |number: u64, packet: &mut [u8]| {
                        packet[0] = number.to_le_bytes()[0];
                        scramble(packet);
                    };
                    buffer.seal_in_place(next, count, 0, sealing).expect("the frame is not shared");
                    sealed += count;
                }
                next.offset += (count.max(1) * cut.mss) as u64;
            }
            written += 50_000;
            buffer.end_chunk();
            for _ in 0..20 {
                let from = draw(written);
                let mut out = vec![0; 1 + draw((written - from).min(5000))];
                buffer.copy_opened(from as u64, &mut out, |packet| {
                    let end = packet.len() - 16;
                    &scramble(packet)[24..end]
                });
                assert_eq!(out, &data[from..from + out.len()], "{} from {from}, {cut:?}", out.len());
            }
        }
        assert!(sealed > 20, "{sealed} packets were sealed");
    }
}

#[test]
fn frame_has_bit_for_each_sealed_packet() {
    let cut = Cut { offset: 0, header: 24, mss: 100, trailer: 16 };
    let mut buffer = own(false);
    write(&mut buffer, cut, &data(50_000));
    assert_eq!(buffer.ready(cut), 128);
    buffer.seal_in_place(cut, 128, 0, |_, _| {}).expect("the frame is not shared");
    assert_eq!(buffer.ready(Cut { offset: 12_800, ..cut }), 128);
}

#[test]
fn oversized_packets_lie_end_to_end() {
    let (data, cut) = (data(200_000), Cut { offset: 0, header: 8, mss: 65_519, trailer: 0 });
    let mut buffer = own(true);
    write(&mut buffer, cut, &data);
    assert_eq!((buffer.ready(cut), buffer.unready(cut)), (0, None));
    assert_eq!(read(&mut buffer, 10, 150_000), &data[10..150_010]);
    // The largest one that fits.
    let cut = Cut { offset: 0, header: 8, mss: 65_499, trailer: 0 };
    let mut buffer = own(true);
    write(&mut buffer, cut, &data);
    assert_eq!((buffer.ready(cut), lend(&mut buffer, cut).len()), (1, 65_507));
}

#[test]
fn frame_held_by_batch_is_not_written() {
    let data = data(3 * 1464);
    let mut buffer = own(true);
    write(&mut buffer, cut(0), &data[..1464]);
    let held = buffer.send_in_place(cut(0), 1, 0, |_, _| ()).expect("the frame is not shared yet");
    assert!(buffer.send_in_place(cut(0), 1, 0, |_, _| ()).is_none());
    let before = held.frame.bytes().to_vec();
    write(&mut buffer, cut(1464), &data[1464..]);
    assert_eq!(held.frame.bytes(), before);
    assert_eq!((buffer.chunks.len(), read(&mut buffer, 0, data.len())), (2, data));
}

#[test]
fn memory_follows_what_is_not_released() {
    let mut buffer = own(true);
    for round in 0..1000_u64 {
        write(&mut buffer, cut(round * PACKETS * 1464), &vec![7; 44 * 1464]);
        buffer.release(round * PACKETS * 1464, 0);
        assert!(buffer.chunks.len() <= 2);
    }
}

#[test]
fn empty_buffer_returns_its_frame() {
    let memory = FramePool::new();
    let (mut a, mut b) = (SendBuffer::new(true, memory.clone()), SendBuffer::new(true, memory));
    write(&mut a, cut(0), &vec![1; 44 * 1464 + 10]);
    a.release(44 * 1464 + 9, 0);
    assert_eq!(a.chunks.len(), 1, "one byte is left");
    let last = Arc::as_ptr(&a.chunks[0].frame);
    a.release(44 * 1464 + 10, 0);
    assert!(a.chunks.is_empty());
    b.spare(cut(0), u64::MAX);
    assert_eq!(Arc::as_ptr(&b.chunks[0].frame), last);
    assert_eq!(a.spare(cut(44 * 1464 + 10), u64::MAX).len(), 44 * 1464);
    write(&mut a, cut(44 * 1464 + 10), &vec![2; 44 * 1464]);
    assert_eq!(read(&mut a, 44 * 1464 + 10, 20), [2; 20]);
}

#[test]
fn run_that_fits_a_frame_is_not_split() {
    // Packets written and sent, packets allowed now, packets of them in one frame.
    for (sent, run, whole) in [(30, 20, 20), (30, 14, 14), (21, 30, 23), (30, 45, 14), (43, 44, 44)] {
        let mut buffer = own(true);
        write(&mut buffer, cut(0), &vec![1; sent * 1464]);
        let next = cut(sent as u64 * 1464);
        let most = run * 1464;
        let room = buffer.spare(next, most as u64).within(most).len();
        buffer.advance(room);
        assert_eq!((room, buffer.ready(next)), (whole * 1464, whole), "{run} after {sent}");
    }
    let mut buffer = own(true);
    write(&mut buffer, cut(0), &vec![1; 30 * 1464]);
    assert_eq!(buffer.spare(cut(29 * 1464), 20 * 1464).len(), 14 * 1464, "a packet is not sent yet");
}

#[test]
#[should_panic(expected = "more than there was room for")]
fn room_does_not_outlast_the_memory() {
    let mut buffer = own(true);
    buffer.spare(cut(0), u64::MAX);
    buffer.release(0, 0);
    buffer.advance(1);
}

#[test]
fn release_of_full_frame_keeps_buffer_usable() {
    let mut buffer = own(true);
    write(&mut buffer, cut(0), &vec![1; 44 * 1464]);
    buffer.release(44 * 1464, 0);
    write(&mut buffer, cut(44 * 1464), &[2; 10]);
    assert_eq!(read(&mut buffer, 44 * 1464, 10), [2; 10]);
}

#[test]
fn spare_is_limited_and_split_by_packet() {
    let mut buffer = own(true);
    write(&mut buffer, cut(0), &[1; 1000]);
    let pieces: Vec<_> = buffer.spare(cut(0), u64::MAX).within(2000).map(|piece| piece.len()).collect();
    assert_eq!(pieces, [464, 1464, 72]);
    assert_eq!(buffer.spare(cut(0), u64::MAX).within(0).count(), 0);
    let room = buffer.spare(cut(0), u64::MAX);
    assert_eq!((room.len(), room.map(|piece| piece.len()).sum::<usize>()), (63_416, 63_416));
}

/// Zero-copy frames that record how they are returned.
struct Lendable(std::sync::mpsc::Sender<Reuse>);

impl FrameSource for Lendable {
    fn take(&mut self) -> Option<Arc<Frame>> {
        let memory = vec![0; Frame::SIZE].leak();
        Some(Arc::new(Frame::mapped_at(FileOffset { file: 1, offset: 0 }, memory)))
    }

    fn is_exhausted(&self) -> bool {
        false
    }

    fn give_back(&mut self, _: Arc<Frame>, wear: Reuse) {
        self.0.send(wear).unwrap();
    }
}

#[test]
fn returned_frames_say_when_reusable() {
    let (send, wears) = std::sync::mpsc::channel();
    let mut buffer = SendBuffer::new(true, FramePool::of(Box::new(Lendable(send))));
    let frame = PACKETS * 1464;
    write(&mut buffer, cut(0), &data(5 * 44 * 1464));
    let leaves = |buffer: &mut SendBuffer, offset, count, resent| {
        buffer.send_in_place(cut(offset), count, resent, |_, _| ()).expect("the frame is not shared");
    };
    leaves(&mut buffer, 0, 44, 0);
    buffer.release(frame, 0);
    // A segment is retransmitted after the first batch of the second frame was sent, and before all
    // of the third frame is.
    leaves(&mut buffer, frame, 20, 0);
    leaves(&mut buffer, frame + 20 * 1464, 24, 1);
    leaves(&mut buffer, 2 * frame, 44, 1);
    buffer.release(3 * frame, 1);
    // Batches below the size of a zero-copy send.
    leaves(&mut buffer, 3 * frame, 11, 1);
    buffer.release(4 * frame, 2);
    drop(buffer);
    let wears: Vec<_> = wears.try_iter().collect();
    assert_eq!(
        wears,
        [
            Reuse::Acknowledged,
            Reuse::MaybeReferenced,
            Reuse::Acknowledged,
            Reuse::NeverSent,
            Reuse::MaybeReferenced
        ]
    );
}
