//! Replay window: which packet numbers of a space were received.
//!
//! A bitmap of the most recent numbers, in a ring of words as in RFC 6479. The window belongs to
//! the AEAD, which alone would open each recorded packet again, and it needs nothing but numbers.

/// Numbers in a word of the bitmap.
const WORD_NUMBERS: u64 = 64;

/// Verdict on a packet number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// Not received yet.
    New,
    /// Received before: the packet is a replay, or the network made a copy.
    Before,
    /// Below the window: it cannot be told whether it was received. Handled like a replay.
    TooOld,
}

/// Received packet numbers of one space, exact for the most recent ones.
///
/// The window must cover the packets that may be in flight. At 37 Gbit/s and 100 ms these are
/// 310,000, so the window has a variable size: 1,024 numbers (128 bytes) to 1,048,576 (128 KiB).
///
/// A packet is opened between the two calls: [`check`](Self::check) spares the work for a replay,
/// and only an authentic packet may [`enter`](Self::enter) its number.
#[derive(Debug, Clone)]
pub struct ReplayWindow {
    /// Word i has the numbers 64 i to 64 i + 63 of its turn around the ring. A power of two long.
    words: Box<[u64]>,
    largest: Option<u64>,
    /// Numbers below this one are too old. A multiple of 64 that never falls: a window that grows
    /// does not know what it forgot before.
    floor: u64,
}

impl ReplayWindow {
    /// Least size, in numbers. At most 63 less are exact, because whole words are forgotten.
    pub const MIN_NUMBERS: u64 = 1024;
    /// Largest size, in numbers.
    pub const MAX_NUMBERS: u64 = 1 << 20;

    /// Creates an empty window of the least size.
    pub fn new() -> Self {
        Self { words: Self::allocate(Self::MIN_NUMBERS), largest: None, floor: 0 }
    }

    /// Returns the largest number entered, around which the peer's next number is unwrapped.
    pub const fn largest(&self) -> Option<u64> {
        self.largest
    }

    /// Returns the size in numbers.
    pub const fn numbers(&self) -> u64 {
        self.words.len() as u64 * WORD_NUMBERS
    }

    /// Judges a number. Changes nothing, because the packet may be forged.
    #[inline]
    pub fn check(&self, number: u64) -> Received {
        if self.largest.is_none_or(|largest| number > largest) {
            Received::New
        } else if number < self.floor {
            Received::TooOld
        } else if self.words[self.word_of(number)] & bit_of(number) == 0 {
            Received::New
        } else {
            Received::Before
        }
    }

    /// Enters the number of an authentic packet. Returns the verdict on it before that; the packet
    /// counts only if it is [`Received::New`].
    #[inline]
    pub fn enter(&mut self, number: u64) -> Received {
        let verdict = self.check(number);
        if verdict == Received::New {
            if self.largest.is_none_or(|largest| number > largest) {
                self.advance(number);
            }
            let word = self.word_of(number);
            self.words[word] |= bit_of(number);
        }
        verdict
    }

    /// Grows the window so that it covers four times as many packets as may be in flight, for
    /// example the offered window in segments. Never shrinks it. Allocates if it grows.
    pub fn cover(&mut self, packets: u64) {
        let numbers = Self::size_for(packets);
        if numbers > self.numbers() {
            self.resize(numbers);
        }
    }

    /// Shrinks the window to four times as many packets as may be in flight. For a connection that
    /// was idle: numbers that are forgotten here count as received.
    pub fn shrink(&mut self, packets: u64) {
        let numbers = Self::size_for(packets);
        if numbers < self.numbers() {
            self.resize(numbers);
        }
    }

    fn size_for(packets: u64) -> u64 {
        packets.saturating_mul(4).clamp(Self::MIN_NUMBERS, Self::MAX_NUMBERS).next_power_of_two()
    }

    fn allocate(numbers: u64) -> Box<[u64]> {
        (0..numbers / WORD_NUMBERS).map(|_| 0).collect()
    }

    /// Returns the least number of a window of this size, whatever was forgotten before.
    fn start(&self, numbers: u64) -> u64 {
        let end = self.largest.map_or(0, |largest| largest / WORD_NUMBERS * WORD_NUMBERS);
        end.saturating_sub(numbers - WORD_NUMBERS)
    }

    /// Moves the window so that `number` is in its last word, and clears the words that it reaches.
    #[inline]
    fn advance(&mut self, number: u64) {
        let last = self.largest.map_or(0, |largest| largest / WORD_NUMBERS);
        self.largest = Some(number);
        if number / WORD_NUMBERS > last {
            self.clear_words(last, number);
        }
    }

    /// Clears the words after word `last`, up to that of `number`, which is the largest number now.
    fn clear_words(&mut self, last: u64, number: u64) {
        let words = self.words.len() as u64;
        for word in last + 1..=(number / WORD_NUMBERS).min(last + words) {
            let at = index(word, self.words.len());
            self.words[at] = 0;
        }
        self.floor = self.floor.max(self.start(self.numbers()));
    }

    fn resize(&mut self, numbers: u64) {
        self.floor = self.floor.max(self.start(numbers));
        let old = std::mem::replace(&mut self.words, Self::allocate(numbers));
        let Some(largest) = self.largest else { return };
        for word in self.floor / WORD_NUMBERS..=largest / WORD_NUMBERS {
            let to = index(word, self.words.len());
            self.words[to] = old[index(word, old.len())];
        }
    }

    #[inline]
    const fn word_of(&self, number: u64) -> usize {
        index(number / WORD_NUMBERS, self.words.len())
    }
}

impl Default for ReplayWindow {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the place of a word in a ring of `words` words, which is a power of two.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the result is below `words`")]
const fn index(word: u64, words: usize) -> usize {
    (word & (words as u64 - 1)) as usize
}

#[inline]
const fn bit_of(number: u64) -> u64 {
    1 << (number % WORD_NUMBERS)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rdt_testing::Numbers;

    use super::*;

    /// Naive model: all numbers that were entered, and the least that a window of this size may
    /// still know.
    #[derive(Default)]
    struct Model {
        entered: BTreeSet<u64>,
        floor: u64,
    }

    impl Model {
        fn check(&self, number: u64) -> Received {
            if number < self.floor {
                Received::TooOld
            } else if self.entered.contains(&number) {
                Received::Before
            } else {
                Received::New
            }
        }

        /// Forgets what a window of `numbers` numbers forgets: whole words of 64.
        fn limit(&mut self, numbers: u64) {
            let end = self.entered.last().map_or(0, |largest| largest / 64 * 64);
            self.floor = self.floor.max((end + 64).saturating_sub(numbers));
        }
    }

    /// Draws numbers near the largest, far ahead, and around the window's lower end.
    fn draw(numbers: &mut Numbers, model: &Model, size: u64) -> u64 {
        let largest = model.entered.last().copied().unwrap_or(0);
        let near = |base: u64, spread: u64, at: u64| (base + at).saturating_sub(spread / 2);
        match numbers.below(20) {
            0 => largest + numbers.below(3 * size),
            1..4 => near(model.floor, 200, numbers.below(200)),
            4..8 => near(largest, 2 * size, numbers.below(size)),
            _ => near(largest, 140, numbers.below(150)),
        }
    }

    #[test]
    fn window_equals_set_of_numbers() {
        let mut counts = [0; 3];
        for seed in 0..300 {
            let mut numbers = Numbers::new(seed);
            let (mut window, mut model) = (ReplayWindow::new(), Model::default());
            for step in 0..1500 {
                model.limit(window.numbers());
                match numbers.below(200) {
                    0 => window.cover(numbers.below(3000)),
                    1 => window.shrink(numbers.below(1500)),
                    _ => {}
                }
                model.limit(window.numbers());
                let number = draw(&mut numbers, &model, window.numbers());
                let expected = model.check(number);
                assert_eq!(window.check(number), expected, "seed {seed}, step {step}, {number}");
                // Some packets turn out to be forged after the check.
                if numbers.below(10) > 0 {
                    assert_eq!(window.enter(number), expected, "seed {seed}, step {step}, {number}");
                    model.entered.insert(number);
                    counts[expected as usize] += 1;
                }
                assert_eq!(window.largest(), model.entered.last().copied());
            }
        }
        assert!(counts.iter().all(|&count| count > 5000), "{counts:?}");
    }

    #[test]
    fn growth_does_not_bring_back_old_numbers() {
        let mut window = ReplayWindow::new();
        for number in 0..5000 {
            assert_eq!(window.enter(number), Received::New);
        }
        window.cover(1 << 18);
        assert_eq!(window.numbers(), ReplayWindow::MAX_NUMBERS);
        for number in 0..5000 {
            assert_ne!(window.enter(number), Received::New, "{number}");
        }
        assert_eq!(window.check(4032), Received::Before);
        assert_eq!(window.check(4031), Received::TooOld);
    }

    #[test]
    fn window_covers_four_flights() {
        let mut window = ReplayWindow::new();
        for (packets, numbers) in
            [(0, 1024), (256, 1024), (257, 2048), (310_000, 1 << 20), (u64::MAX, 1 << 20)]
        {
            window.cover(packets);
            assert_eq!(window.numbers(), numbers, "{packets} packets in flight");
        }
        window.cover(1);
        assert_eq!(window.numbers(), 1 << 20, "cover never shrinks");
        window.shrink(300);
        assert_eq!(window.numbers(), 2048);
        window.shrink(3000);
        assert_eq!(window.numbers(), 2048, "shrink never grows");
    }

    #[test]
    fn oldest_number_of_a_full_flight_is_new() {
        for packets in [256, 1000, 100_000] {
            let mut window = ReplayWindow::new();
            window.cover(packets);
            assert_eq!(window.enter(4 * packets - 64), Received::New);
            assert_eq!(window.enter(0), Received::New);
        }
    }

    #[test]
    fn numbers_may_end_at_the_largest() {
        let mut window = ReplayWindow::new();
        assert_eq!(window.enter(u64::MAX - 1), Received::New);
        assert_eq!(window.enter(u64::MAX), Received::New);
        assert_eq!(window.check(u64::MAX), Received::Before);
        assert_eq!(window.check(0), Received::TooOld);
        window.cover(1 << 18);
        assert_eq!(window.check(u64::MAX), Received::Before);
        assert_eq!(window.check(u64::MAX - 2), Received::New);
    }
}
