//! Progress of a campaign, and an estimate of the time that is left. Repetitions of one cell take
//! about equal times, those of different cells do not: a cell counts with its measured time. Until
//! it has one, it counts with its estimated cost times the ratio of measured to estimated times.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::cell::CellId;
use crate::statistics::count_of;

/// Progress of a campaign.
#[derive(Debug, Clone)]
pub struct Progress {
    /// Number of repetitions that are done.
    pub done: u64,
    /// Number of repetitions that the rounds so far ask for.
    pub wanted: u64,
    cells: BTreeMap<CellId, Times>,
    started: Instant,
    /// Repetitions in virtual time that run at once.
    threads: f64,
}

/// Repetitions of one cell. Times are in seconds.
#[derive(Debug, Clone, Default)]
struct Times {
    estimated: f64,
    measured: f64,
    done: u32,
    wanted: u32,
    /// Share of the host that a repetition occupies.
    share: f64,
}

impl Progress {
    pub(super) fn new(started: Instant, threads: usize) -> Self {
        Self { done: 0, wanted: 0, cells: BTreeMap::new(), started, threads: count_of(threads.max(1)) }
    }

    /// Adds a repetition to run, with its estimated time in seconds.
    pub(super) fn want(&mut self, cell: CellId, estimated: f64, is_virtual: bool) {
        let share = if is_virtual { 1.0 / self.threads } else { 1.0 };
        let times = self.cells.entry(cell).or_insert(Times { estimated, share, ..Times::default() });
        times.wanted += 1;
        self.wanted += 1;
    }

    pub(super) fn finish(&mut self, cell: CellId, took: Duration) {
        let times = self.cells.entry(cell).or_default();
        times.done += 1;
        times.measured += took.as_secs_f64();
        self.done += 1;
    }

    /// Returns the estimated time until all repetitions are done, once one is measured.
    pub fn left(&self, now: Instant) -> Option<Duration> {
        let (mut measured, mut estimated) = (0.0, 0.0);
        for it in self.cells.values() {
            measured += it.measured;
            estimated += it.estimated * f64::from(it.done);
        }
        let scale = if estimated > 0.0 { measured / estimated } else { 0.0 };
        let (mut done, mut left) = (0.0, 0.0);
        for it in self.cells.values() {
            let of_one = if it.done > 0 { it.measured / f64::from(it.done) } else { it.estimated * scale };
            done += it.share * it.measured;
            left += it.share * of_one * f64::from(it.wanted.saturating_sub(it.done));
        }
        let elapsed = now.duration_since(self.started).as_secs_f64();
        Duration::try_from_secs_f64(elapsed * left / done).ok()
    }
}

#[cfg(test)]
mod tests {
    use rdt_testing::Numbers;

    use super::*;

    /// Draws a number from `least` to below `most`.
    fn between(random: &mut Numbers, least: u32, most: u32) -> f64 {
        let drawn = random.below(u64::from(most - least));
        f64::from(least) + f64::from(u32::try_from(drawn).expect("a drawn number is below the bound"))
    }

    /// Runs repetitions of cells whose times differ up to 100-fold on a made-up clock. Returns the
    /// estimates after a tenth, half and nine tenths of the whole time, with the true values.
    fn estimates(seed: u64, wrong_by: f64, threads: u16) -> Vec<(f64, f64)> {
        let started = rdt_testing::epoch();
        let mut random = Numbers::new(seed);
        let cells: Vec<(CellId, f64)> =
            (0..40).map(|n| (CellId([n; 16]), between(&mut random, 10, 1_000) / 1e3)).collect();
        let mut progress = Progress::new(started, usize::from(threads));
        let mut tasks = Vec::new();
        for _ in 0..20 {
            for (cell, time) in &cells {
                // The model of cost is wrong by a common factor and by up to 2 for each cell.
                progress.want(*cell, time * wrong_by * (1.0 + f64::from(cell.0[0] % 2)), true);
                tasks.push((*cell, time * between(&mut random, 90, 110) / 100.0));
            }
        }
        let whole: f64 = tasks.iter().map(|(_, time)| time).sum::<f64>() / f64::from(threads);
        let (mut now, mut shown) = (0.0, Vec::new());
        for (cell, time) in tasks {
            now += time / f64::from(threads);
            progress.finish(cell, Duration::from_secs_f64(time));
            if [0.1, 0.5, 0.9].get(shown.len()).is_some_and(|share| now >= share * whole) {
                let left = progress.left(started + Duration::from_secs_f64(now)).expect("an estimate");
                shown.push((left.as_secs_f64(), whole - now));
            }
        }
        assert_eq!(progress.left(started + Duration::from_secs(9)), Some(Duration::ZERO));
        shown
    }

    #[test]
    fn time_left_is_within_30_percent_after_a_tenth() {
        for seed in 0..50 {
            for (wrong_by, threads) in [(1.0, 1), (0.1, 2), (30.0, 8)] {
                let shown = estimates(seed, wrong_by, threads);
                assert_eq!(shown.len(), 3);
                for (left, truth) in shown {
                    assert!((left / truth - 1.0).abs() < 0.3, "seed {seed}: {left} s, in truth {truth} s");
                }
            }
        }
    }

    /// Repetitions in real time follow those in virtual time, and take the whole machine.
    #[test]
    fn real_time_is_not_divided_by_threads() {
        let started = rdt_testing::epoch();
        let mut progress = Progress::new(started, 4);
        let (virtual_time, real) = (CellId([1; 16]), CellId([2; 16]));
        (0..40).for_each(|_| progress.want(virtual_time, 1.0, true));
        (0..10).for_each(|_| progress.want(real, 1.0, false));
        assert_eq!(progress.left(started), None);
        (0..40).for_each(|_| progress.finish(virtual_time, Duration::from_secs(2)));
        // 80 s on 4 threads took 20 s, and ten repetitions at 2 s each are left.
        assert_eq!(progress.left(started + Duration::from_secs(20)), Some(Duration::from_secs(20)));
    }
}
