//! Threads that run repetitions. Results arrive in any order; readers of journals sort them.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use rdt_program::Stop;
use rdt_udp::clock;

use super::Campaign;
use super::host::{Beside, HeldRates, HostLock, QuietHost, highest_rate};
use crate::cell::Cell;
use crate::engine::{engine, holds};
use crate::experiment::{KeepSeries, Measure};
use crate::record::{Record, Series, Status};

/// Limit on further attempts at a repetition for which the host was too slow.
const MAX_RETRIES: u32 = 3;

/// Result of one repetition, and the time that it took.
type Done = (Record, Series, Duration);

#[derive(Debug, Clone)]
pub(super) struct Task<'a> {
    pub(super) cell: &'a Cell,
    /// Number of the repetition, from 0.
    pub(super) rep: u32,
    pub(super) seed: u64,
}

impl Campaign<'_> {
    /// Runs tasks and passes each result to `take`. Repetitions in virtual time run on all threads;
    /// those in real time run one after another.
    pub(super) fn run_all(
        &self,
        tasks: &[Task<'_>],
        held_rates: &mut HeldRates,
        stop: &Stop,
        mut take: impl FnMut(Record, Series, Duration) -> io::Result<()>,
    ) -> io::Result<()> {
        let (in_virtual, real): (Vec<&Task<'_>>, Vec<&Task<'_>>) =
            tasks.iter().partition(|task| task.cell.physics.engine.is_virtual());
        let name = &self.experiment.name;
        if !in_virtual.is_empty() {
            let Some(_lock) = HostLock::take(Beside::Virtual, name, stop) else { return Ok(()) };
            self.run_parallel(&in_virtual, stop, &mut take)?;
        }
        if real.is_empty() {
            return Ok(());
        }
        let Some(_lock) = HostLock::take(Beside::None, name, stop) else { return Ok(()) };
        let rates = real.iter().filter_map(|task| highest_rate(&task.cell.physics)).collect();
        held_rates.check(&rates, stop, holds);
        let mut host = QuietHost::default();
        for task in real {
            if stop.is_set() {
                break;
            }
            let (mut record, series, took) = self.run_until_undisturbed(task, &mut host, stop);
            let is_held = highest_rate(&task.cell.physics).and_then(|rate| held_rates.holds(rate));
            record
                .metrics
                .extend(is_held.map(|is_held| ("rate-held".to_owned(), f64::from(u8::from(is_held)))));
            // Ctrl-C in a terminal also ends the programs of the repetition, so it is not valid.
            if stop.is_set() {
                break;
            }
            take(record, series, took)?;
        }
        Ok(())
    }

    fn run_parallel(
        &self,
        tasks: &[&Task<'_>],
        stop: &Stop,
        take: &mut impl FnMut(Record, Series, Duration) -> io::Result<()>,
    ) -> io::Result<()> {
        let next = AtomicUsize::new(0);
        let threads = self.threads.clamp(1, tasks.len().max(1));
        std::thread::scope(|scope| {
            // Bounded, because series are large and the disk may be slower than the threads.
            let (sender, results) = sync_channel(threads);
            for _ in 0..threads {
                let sender = sender.clone();
                let next = &next;
                scope.spawn(move || {
                    while let Some(task) = tasks.get(next.fetch_add(1, Ordering::Relaxed)) {
                        // A closed channel means that results cannot be written.
                        if stop.is_set() || sender.send(self.run_one(task, stop)).is_err() {
                            break;
                        }
                    }
                });
            }
            drop(sender);
            results.into_iter().try_for_each(|(record, series, took)| take(record, series, took))
        })
    }

    /// Runs a repetition in real time, and repeats it if the host was too slow for the path.
    fn run_until_undisturbed(&self, task: &Task<'_>, host: &mut QuietHost, stop: &Stop) -> Done {
        until_undisturbed(stop, || {
            let load = host.wait(stop);
            let (mut record, series, took) = self.run_one(task, stop);
            record.metrics.extend(load.map(|share| ("load".to_owned(), share)));
            (record, series, took)
        })
    }

    fn run_one(&self, task: &Task<'_>, stop: &Stop) -> Done {
        let started = clock::now();
        let measure = &self.experiment.measure;
        let keep_series = if self.keeps(task.rep) { measure.keep_series } else { KeepSeries::None };
        let measure = Measure { keep_series, ..*measure };
        let run = || {
            let engine = engine(task.cell.physics.engine)?;
            let capture = self.capture_file(task);
            engine.run(task.cell, task.seed, &measure, stop, capture.as_deref())
        };
        let mut record = task.record(self);
        let mut series = Series::default();
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Ok(run)) => {
                record.metrics = run.metrics;
                record.hash = run.hash;
                if run.is_host_limited {
                    record.status = Status::HostLimited;
                }
                series = run.series;
            }
            Ok(Err(error)) => record.status = Status::Failed(error.to_string()),
            Err(_) => {
                record.status = Status::Failed("the engine panicked: please report this cell".to_owned());
            }
        }
        let took = clock::now().duration_since(started);
        record.wall_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        (record, series, took)
    }
}

/// Repeats a repetition, at most [`MAX_RETRIES`] times, while the host is too slow for the path.
fn until_undisturbed(stop: &Stop, mut attempt: impl FnMut() -> Done) -> Done {
    let mut retries = 0;
    loop {
        let done = attempt();
        if done.0.status != Status::HostLimited || retries == MAX_RETRIES || stop.is_set() {
            return done;
        }
        retries += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::two_engines;

    /// Returns the number of attempts and the status that is kept, if the first `slow` attempts
    /// are host-limited and `stop` is set in attempt `stopped_in`.
    fn attempts(slow: u32, stopped_in: u32) -> (u32, Status) {
        let plan = two_engines("two", "{ name = \"lossy\", path.loss = \"1%\" }", "");
        let (stop, mut attempts) = (Stop::default(), 0);
        let (record, ..) = until_undisturbed(&stop, || {
            attempts += 1;
            if attempts == stopped_in {
                stop.set();
            }
            let status = if attempts <= slow { Status::HostLimited } else { Status::Ok };
            let record = Record { status, ..Record::of(&plan.cells[0], 0, "a.goodput", 1.0) };
            (record, Series::default(), Duration::ZERO)
        });
        (attempts, record.status)
    }

    #[test]
    fn host_limited_repetitions_are_final_after_three_retries() {
        assert_eq!(attempts(0, 0), (1, Status::Ok));
        assert_eq!(attempts(3, 0), (4, Status::Ok));
        assert_eq!(attempts(9, 0), (4, Status::HostLimited));
        assert_eq!(attempts(9, 2), (2, Status::HostLimited), "Ctrl-C");
    }
}
