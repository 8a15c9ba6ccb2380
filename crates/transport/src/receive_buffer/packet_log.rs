//! Memory for packets that wait beyond a hole: one after the other in the order in which they come, in chunks that are
//! used again. So no packet has an allocation of its own, and those that follow one another lie in one piece. Knows no
//! numbers and no order; whoever keeps a packet keeps where it lies.

/// Bytes of a chunk, once so much is held and unless packets are large.
const CHUNK: usize = 64 * 1024;
/// A chunk has room for so many of the packets that it is made for: the last that does not fit leaves no more than a
/// quarter of it unused.
const PACKETS: usize = 4;
/// Bytes of empty chunks that are kept for reuse, and as many as are in use where that is more: so a steady stream
/// allocates nothing.
const SPARE: usize = 2 * CHUNK;
/// Chunks may have as many bytes beside twice those that somebody waits for. Where nothing was released they have no
/// more than a third beside those, and one chunk, of at most this size.
const SLACK: usize = PACKETS * CHUNK;

/// Bytes in one piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    chunk: u32,
    start: u32,
    len: u32,
}

#[derive(Debug, Default)]
pub(super) struct PacketLog {
    chunks: Vec<Chunk>,
    /// Places in `chunks` that have no memory.
    vacant: Vec<u32>,
    /// The chunk that is being filled.
    open: Option<u32>,
    spare: Vec<Vec<u8>>,
    /// Bytes that somebody waits for.
    live: usize,
    /// Bytes of the chunks in use.
    reserved: usize,
    /// Bytes of the spare chunks.
    saved: usize,
}

#[derive(Debug, Default)]
struct Chunk {
    bytes: Vec<u8>,
    /// Of them, how many somebody waits for; a chunk for which nobody does is not in use.
    live: usize,
}

impl Run {
    /// Bytes of it.
    pub(super) fn len(self) -> usize {
        self.len as usize
    }

    /// Takes `next` as its end, if it lies there.
    pub(super) fn join(&mut self, next: Self) -> bool {
        if next.len == 0 {
            return true;
        }
        if self.len == 0 {
            *self = next;
            return true;
        }
        let follows = self.chunk == next.chunk && self.start + self.len == next.start;
        self.len += if follows { next.len } else { 0 };
        follows
    }

    /// Its first `n` bytes, which it has, taken off.
    pub(super) fn split_off(&mut self, n: usize) -> Self {
        let len = narrow(n).min(self.len);
        let first = Self { len, ..*self };
        self.start += len;
        self.len -= len;
        first
    }
}

impl PacketLog {
    /// Keeps a copy of these bytes until they are released.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Run {
        if bytes.is_empty() {
            return Run { chunk: 0, start: 0, len: 0 };
        }
        let number = self.open_for(bytes.len());
        let chunk = &mut self.chunks[number as usize];
        let start = narrow(chunk.bytes.len());
        chunk.bytes.extend_from_slice(bytes);
        chunk.live += bytes.len();
        self.live += bytes.len();
        Run { chunk: number, start, len: narrow(bytes.len()) }
    }

    /// What was kept there.
    pub(super) fn bytes(&self, run: Run) -> &[u8] {
        // Where there are no bytes, there may be no chunk.
        if run.len == 0 {
            return &[];
        }
        let start = run.start as usize;
        &self.chunks[run.chunk as usize].bytes[start..start + run.len()]
    }

    /// Nobody waits for these any more.
    pub(super) fn release(&mut self, run: Run) {
        if run.len == 0 {
            return;
        }
        let chunk = &mut self.chunks[run.chunk as usize];
        chunk.live -= run.len();
        self.live -= run.len();
        if chunk.live > 0 {
            return;
        }
        let empty = std::mem::take(&mut chunk.bytes);
        self.vacant.push(run.chunk);
        self.open = self.open.filter(|open| *open != run.chunk);
        self.reserved -= empty.capacity();
        self.save(empty);
    }

    /// True if the chunks have much more memory than what somebody waits for needs: it lies in few places of many.
    pub(super) fn is_sparse(&self) -> bool {
        self.reserved > 2 * self.live + SLACK
    }

    /// An empty one with the spare chunks of this one.
    pub(super) fn take_spare(&mut self) -> Self {
        let (spare, saved) = (std::mem::take(&mut self.spare), std::mem::take(&mut self.saved));
        Self { spare, saved, ..Self::default() }
    }

    /// Gives back the memory that is kept for reuse.
    pub(super) fn give_back(&mut self) {
        self.spare = Vec::new();
        self.saved = 0;
        if self.live == 0 {
            *self = Self::default();
        }
    }

    /// Bytes that somebody waits for.
    #[cfg(test)]
    pub(super) fn live(&self) -> usize {
        self.live
    }

    /// Bytes of the chunks in use.
    #[cfg(test)]
    pub(super) fn reserved(&self) -> usize {
        self.reserved
    }

    /// Bytes of the chunks that are kept for reuse.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.saved
    }

    /// The number of a chunk with room for `len` bytes more.
    fn open_for(&mut self, len: usize) -> u32 {
        if let Some(open) = self.open {
            let bytes = &self.chunks[open as usize].bytes;
            if bytes.capacity() - bytes.len() >= len {
                return open;
            }
        }
        // As large as all that is held, so that a peer of which little is held costs little.
        let size = (self.live + len).min(CHUNK.max(PACKETS * len));
        let bytes = self.reuse(size).unwrap_or_else(|| Vec::with_capacity(size));
        self.reserved += bytes.capacity();
        let chunk = Chunk { bytes, live: 0 };
        let number = if let Some(number) = self.vacant.pop() {
            self.chunks[number as usize] = chunk;
            number
        } else {
            self.chunks.push(chunk);
            narrow(self.chunks.len() - 1)
        };
        self.open = Some(number);
        number
    }

    /// A spare chunk with room for `size` bytes; one that is smaller would be of no more use.
    fn reuse(&mut self, size: usize) -> Option<Vec<u8>> {
        let bytes = self.spare.pop()?;
        self.saved -= bytes.capacity();
        (bytes.capacity() >= size).then_some(bytes)
    }

    fn save(&mut self, mut empty: Vec<u8>) {
        empty.clear();
        self.saved += empty.capacity();
        self.spare.push(empty);
        while self.saved > SPARE.max(self.reserved)
            && let Some(surplus) = self.spare.pop()
        {
            self.saved -= surplus.capacity();
        }
    }
}

/// Chunks are shorter than 4 GiB, and there are fewer: each holds a packet, of which there are less.
fn narrow(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_one_after_the_other_is_one_run() {
        let mut log = PacketLog::default();
        log.append(&[0; 100]);
        let (mut run, next, empty) = (log.append(b"ab"), log.append(b"cd"), log.append(b""));
        assert!(run.join(empty) && run.join(next) && !run.join(next));
        assert_eq!(log.bytes(run), b"abcd");
        let first = run.split_off(3);
        assert_eq!((log.bytes(first), log.bytes(run), log.bytes(empty)), (&b"abc"[..], &b"d"[..], &b""[..]));
        assert_eq!((run.split_off(9).len(), run.len()), (1, 0));
    }

    /// Appends and releases so many packets, at most `beside` bytes beside twice what is held.
    fn pass(log: &mut PacketLog, count: usize, beside: usize) {
        let mut runs = Vec::new();
        for _ in 0..count {
            runs.push(log.append(&[7; 1000]));
            assert!(log.reserved <= 2 * log.live + beside, "{} for {}", log.reserved, log.live);
        }
        for run in runs {
            log.release(run);
        }
        assert_eq!((log.live, log.reserved), (0, 0));
        assert_eq!(log.saved, log.spare.iter().map(Vec::capacity).sum());
    }

    #[test]
    fn memory_grows_with_what_is_held() {
        for count in [1, 10, 100, 1000] {
            let mut log = PacketLog::default();
            pass(&mut log, count, 0);
            assert!((count * 1000).min(SPARE - CHUNK) <= log.saved && log.saved <= SPARE, "{}", log.saved);
            log.give_back();
            assert_eq!((log.spare.capacity(), log.chunks.capacity(), log.saved), (0, 0, 0));
        }
    }

    #[test]
    fn chunks_are_used_again() {
        let mut log = PacketLog::default();
        // Those of the beginning are small, and make way for larger ones.
        for _ in 0..4 {
            pass(&mut log, 900, CHUNK);
        }
        let chunks = |log: &PacketLog| {
            let mut chunks: Vec<_> = log.spare.iter().map(Vec::as_ptr).collect();
            chunks.sort_unstable();
            chunks
        };
        let before = chunks(&log);
        for count in [1, 10, 100, 900] {
            pass(&mut log, count, CHUNK);
            assert_eq!(chunks(&log), before);
        }
    }

    #[test]
    fn runs_are_what_was_appended_whatever_is_released_between() {
        for seed in 0..60 {
            let mut random = crate::range_set::random(seed);
            let mut log = PacketLog::default();
            let mut held: Vec<(Run, Vec<u8>)> = Vec::new();
            for step in 0..600 {
                let longest = [5, 1500, 65_000][usize::try_from(random(3)).unwrap()];
                if random(5) < 3 {
                    let value = random(256).to_le_bytes()[0];
                    let bytes = vec![value; usize::try_from(random(longest)).unwrap()];
                    held.push((log.append(&bytes), bytes));
                } else if !held.is_empty() {
                    let at = usize::try_from(random(held.len() as u64)).unwrap();
                    let (mut run, bytes) = held.swap_remove(at);
                    let n = usize::try_from(random(bytes.len() as u64 + 1)).unwrap();
                    log.release(run.split_off(n));
                    assert_eq!(log.bytes(run), &bytes[n..], "seed {seed} step {step}");
                    held.push((run, bytes[n..].to_vec()));
                    if random(2) == 0 {
                        let (run, _) = held.pop().unwrap();
                        log.release(run);
                    }
                }
                let live: usize = held.iter().map(|(_, bytes)| bytes.len()).sum();
                assert_eq!(log.live, live, "seed {seed} step {step}");
                let reserved: usize = log.chunks.iter().map(|chunk| chunk.bytes.capacity()).sum();
                assert_eq!(log.reserved, reserved, "seed {seed} step {step}");
                assert!(held.iter().all(|(run, bytes)| log.bytes(*run) == bytes), "seed {seed} step {step}");
            }
            for (run, _) in held {
                log.release(run);
            }
            assert_eq!((log.live, log.reserved), (0, 0), "seed {seed}");
        }
    }
}
