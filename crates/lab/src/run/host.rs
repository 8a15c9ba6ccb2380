//! This host during a run: the lock that keeps repetitions in real time apart from all others, the
//! processor time that other programs use, and the rates that the host carries.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Write as _;
#[cfg(unix)]
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use rdt_emulator::Bitrate;
use rdt_program::{Stop, talk};
use rdt_udp::clock;

use crate::cell::Physics;
use crate::engine::EngineError;
use crate::statistics::number;

/// Share of the processors above which other programs disturb repetitions in real time.
pub(crate) const QUIET_SHARE: f64 = 0.2;
/// Time over which CPU use is measured.
const SAMPLE_TIME: Duration = Duration::from_millis(200);
/// Limit on the wait for a quiet host.
const MAX_WAIT: Duration = Duration::from_secs(30);
/// Interval at which a lock that another process holds is tried again.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Repetitions of other processes that may run at the same time as those of this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Beside {
    /// Repetitions in virtual time: this run is in virtual time, too.
    Virtual,
    /// None: this run is in real time.
    None,
}

/// Lock between the processes of a user on this host. The kernel releases it when the process ends.
#[derive(Debug)]
pub(super) struct HostLock {
    _file: Option<File>,
}

impl HostLock {
    /// Takes the lock for the repetitions of an experiment. If another process holds it, says so
    /// once, and waits. `None` if `stop` is set before. Without a folder for the lock, nothing is
    /// locked.
    pub(super) fn take(beside: Beside, experiment: &str, stop: &Stop) -> Option<Self> {
        let path = path();
        let mut options = File::options();
        options.create(true).truncate(false).read(true).write(true);
        // In a folder that others may write to, a link could name any file of this user.
        #[cfg(unix)]
        options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
        let Ok(mut file) = options.open(&path) else {
            return Some(Self { _file: None });
        };
        let mut is_said = false;
        while !try_lock(&file, beside) {
            if !is_said {
                let holder = fs::read_to_string(&path).unwrap_or_default();
                let holder = holder.lines().next().unwrap_or("another process");
                talk(&format!(
                    "rdt-lab: waiting for {holder}: nothing may run beside repetitions in real time (lock {})",
                    path.display()
                ));
                is_said = true;
            }
            if stop.is_set() {
                return None;
            }
            sleep(RETRY_INTERVAL);
        }
        let time = if beside == Beside::None { "real" } else { "virtual" };
        let text = format!("process {}, which runs {experiment} in {time} time\n", std::process::id());
        // Other processes print this text when they wait.
        let _ = file.set_len(0).and_then(|()| file.write_all(text.as_bytes()));
        Some(Self { _file: Some(file) })
    }
}

/// Returns the file of the lock: in the user's folder for files of running programs, else in the
/// folder for temporary files with the user's number in its name.
fn path() -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|it| it.is_dir());
    #[cfg(unix)]
    let user = rustix::process::getuid().as_raw().to_string();
    #[cfg(not(unix))]
    let user = "user";
    runtime.map_or_else(
        || std::env::temp_dir().join(format!("rdt-lab-{user}.lock")),
        |folder| folder.join("rdt-lab.lock"),
    )
}

#[cfg(unix)]
fn try_lock(file: &File, beside: Beside) -> bool {
    use rustix::fs::{FlockOperation, flock};
    let operation = match beside {
        Beside::Virtual => FlockOperation::NonBlockingLockShared,
        Beside::None => FlockOperation::NonBlockingLockExclusive,
    };
    // A file system without locks locks nothing.
    !matches!(flock(file, operation), Err(rustix::io::Errno::WOULDBLOCK))
}

#[cfg(not(unix))]
fn try_lock(_file: &File, _beside: Beside) -> bool {
    true
}

#[expect(clippy::disallowed_methods, reason = "waits for other processes in real time")]
fn sleep(time: Duration) {
    std::thread::sleep(time);
}

/// Returns the number of threads that this host runs at once.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Samples CPU use for [`SAMPLE_TIME`] and returns the busy share of the CPUs in this process's
/// affinity mask. `None` if the system does not report it.
pub(crate) fn used_share() -> Option<f64> {
    let before = processor_times(&fs::read_to_string("/proc/stat").ok()?, own_processors())?;
    sleep(SAMPLE_TIME);
    share(before, processor_times(&fs::read_to_string("/proc/stat").ok()?, own_processors())?)
}

/// Returns a predicate: may this process run on a processor? `taskset` or a Slurm job can set some
/// of them aside, and programs on the others do not disturb this process.
#[cfg(target_os = "linux")]
fn own_processors() -> impl Fn(usize) -> bool {
    use rustix::thread::{CpuSet, sched_getaffinity};
    // Fails if the kernel has more processors than this set has room for. Then all count.
    let allowed = sched_getaffinity(None).ok();
    move |processor| allowed.is_none_or(|allowed| processor < CpuSet::MAX_CPU && allowed.is_set(processor))
}

#[cfg(not(target_os = "linux"))]
fn own_processors() -> impl Fn(usize) -> bool {
    |_| true
}

/// Returns the busy and the idle ticks since boot, summed over the processors of `is_counted`.
fn processor_times(stat: &str, is_counted: impl Fn(usize) -> bool) -> Option<[u64; 2]> {
    let mut sum = None;
    for line in stat.lines() {
        let Some((processor, ticks)) = line.strip_prefix("cpu").and_then(|it| it.split_once(' ')) else {
            continue;
        };
        // The first line is the sum of all and has no number.
        let Ok(processor) = processor.parse() else { continue };
        if !is_counted(processor) {
            continue;
        }
        // User, nice, system, idle, waiting for disks, interrupts, soft interrupts, stolen.
        let ticks = ticks.split_whitespace().take(8).map(str::parse);
        let ticks: Vec<u64> = ticks.collect::<Result<_, _>>().ok()?;
        let idle = ticks.get(3)? + ticks.get(4)?;
        let [all_used, all_idle] = sum.unwrap_or([0, 0]);
        sum = Some([all_used + ticks.iter().sum::<u64>() - idle, all_idle + idle]);
    }
    sum
}

fn share([used, idle]: [u64; 2], later: [u64; 2]) -> Option<f64> {
    let (used, idle) = (number(later[0].saturating_sub(used)), number(later[1].saturating_sub(idle)));
    (used + idle > 0.0).then(|| used / (used + idle))
}

/// Waits for a quiet host before repetitions in real time.
#[derive(Debug, Default)]
pub(super) struct QuietHost {
    /// True after a wait without success, until the host is quiet again. Then nothing waits.
    is_hopeless: bool,
}

impl QuietHost {
    /// Waits for a limited time until other programs use few processors. Returns their share.
    pub(super) fn wait(&mut self, stop: &Stop) -> Option<f64> {
        self.wait_for(used_share, MAX_WAIT, stop)
    }

    fn wait_for(
        &mut self,
        mut used_share: impl FnMut() -> Option<f64>,
        limit: Duration,
        stop: &Stop,
    ) -> Option<f64> {
        let latest = clock::now() + limit;
        let mut share = used_share()?;
        if share <= QUIET_SHARE {
            self.is_hopeless = false;
            return Some(share);
        }
        if self.is_hopeless {
            return Some(share);
        }
        let percent = |share: f64| share * 100.0;
        talk(&format!(
            "rdt-lab: other programs use {:.0} % of the processors: waiting up to {} s for less than {:.0} %",
            percent(share),
            limit.as_secs(),
            percent(QUIET_SHARE),
        ));
        while share > QUIET_SHARE && !stop.is_set() {
            if clock::now() >= latest {
                self.is_hopeless = true;
                talk("rdt-lab: going on beside them; the metric 'load' has the share of each repetition");
                break;
            }
            share = used_share()?;
        }
        Some(share)
    }
}

/// Rates of paths, each tried once in a campaign: whether this host carries them in real time.
#[derive(Debug, Default)]
pub(super) struct HeldRates {
    tried: BTreeMap<Bitrate, bool>,
}

impl HeldRates {
    /// Tries the highest of these rates, and the next lower one as long as the host does not hold
    /// them. Says once which it does not hold.
    pub(super) fn check(
        &mut self,
        rates: &BTreeSet<Bitrate>,
        stop: &Stop,
        holds: impl Fn(Bitrate) -> Result<bool, EngineError>,
    ) {
        let mut failed = Vec::new();
        for rate in rates.iter().rev() {
            if self.holds(*rate).is_some() {
                continue;
            }
            if stop.is_set() {
                return;
            }
            match holds(*rate) {
                Ok(is_held) => {
                    failed.extend((!is_held).then(|| (rate.as_bps_f64() / 1e6).to_string()));
                    self.tried.insert(*rate, is_held);
                }
                Err(error) => {
                    talk(&format!("rdt-lab: cannot try the rates of the paths on this host: {error}"));
                    return;
                }
            }
        }
        if !failed.is_empty() {
            talk(&format!(
                "rdt-lab: this host did not hold a path of {} Mbit/s in a trial: end other programs, lower the rate or use a \
                 faster host; the metric 'rate-held' is 0 in such repetitions",
                failed.join(" nor one of ")
            ));
        }
    }

    /// Returns whether the host holds a rate: that or a higher one was held, or that or a lower one
    /// was not. `None` if neither is known.
    pub(super) fn holds(&self, rate: Bitrate) -> Option<bool> {
        let is_held = self.tried.range(rate..).any(|(_, is_held)| *is_held);
        let has_failed = self.tried.range(..=rate).any(|(_, is_held)| !is_held);
        (is_held || has_failed).then_some(is_held)
    }
}

/// Returns the highest rate of the links of a cell. `None` if none has a rate.
pub(super) fn highest_rate(physics: &Physics) -> Option<Bitrate> {
    physics
        .paths()
        .flat_map(|path| [path.forward.highest_rate(), path.reverse.highest_rate()])
        .flatten()
        .max()
}

#[cfg(test)]
mod tests {
    use rdt_emulator::spec::PathSpec;

    use super::*;
    use crate::cell::EngineKind;

    #[test]
    fn shares_come_from_differences_of_ticks() {
        let times = |stat| processor_times(stat, |_| true);
        let before = times("cpu  9 9 9 9 9 9 9 9\ncpu0 100 0 50 800 50 0 0 0 0 0\nintr 7").expect("ticks");
        let later = times("cpu  9 9 9 9 9 9 9 9\ncpu0 120 10 60 860 50 5 5 0 0 0\n").expect("ticks");
        assert_eq!((before, later), ([150, 850], [200, 910]));
        assert!((share(before, later).expect("time passed") - 50.0 / 110.0).abs() < 1e-9);
        assert_eq!(share(later, later), None);
        assert_eq!(times("intr 1 2 3"), None);
        assert_eq!(times("cpu  1 2 3 4 5 6 7 8"), None, "without a line of one processor");
    }

    #[test]
    fn only_processors_of_this_process_count() {
        let stat =
            "cpu  9 9 9 9 9 9 9 9\ncpu0 1 0 0 99 0 0 0 0\ncpu1 80 0 0 20 0 0 0 0\ncpu10 5 0 0 5 0 0 0 0\n";
        assert_eq!(processor_times(stat, |processor| processor != 1), Some([6, 104]));
        assert_eq!(processor_times(stat, |processor| processor == 1), Some([80, 20]));
        assert_eq!(processor_times(stat, |_| false), None);
    }

    #[test]
    fn busy_hosts_are_waited_for_once() {
        let mut host = QuietHost::default();
        let stop = Stop::default();
        let mut shares = [0.9, 0.5, 0.1].into_iter();
        assert_eq!(host.wait_for(|| shares.next(), MAX_WAIT, &stop), Some(0.1));
        assert_eq!(host.wait_for(|| Some(0.9), Duration::ZERO, &stop), Some(0.9));
        // The second wait does not ask again.
        let mut once = [0.8].into_iter();
        assert_eq!(host.wait_for(|| once.next(), MAX_WAIT, &stop), Some(0.8));
        assert_eq!(host.wait_for(|| None, MAX_WAIT, &stop), None);
    }

    #[test]
    fn trials_stop_at_first_rate_that_is_held() {
        let mbit = |rate: u64| Bitrate::from_bps(rate * 1_000_000);
        let tried = std::cell::RefCell::new(Vec::new());
        let host = |rate: Bitrate| {
            tried.borrow_mut().push(rate);
            Ok(rate <= mbit(50))
        };
        let mut rates = HeldRates::default();
        let wanted = BTreeSet::from([1, 10, 50, 100, 1_000].map(mbit));
        for _ in 0..2 {
            rates.check(&wanted, &Stop::default(), host);
        }
        assert_eq!(*tried.borrow(), [1_000, 100, 50].map(mbit), "not again in the second round");
        assert_eq!(
            [1, 50, 60, 100, 2_000].map(|rate| rates.holds(mbit(rate))),
            [Some(true), Some(true), None, Some(false), Some(false)]
        );
    }

    #[test]
    fn cells_have_the_highest_rate_of_their_links() {
        let rate_of = |links: &[&str]| {
            let links = links.iter().map(|link| PathSpec::from_toml(link).expect("a path")).collect();
            let engine = EngineKind::Kernel;
            highest_rate(&Physics {
                engine,
                duration: None,
                links,
                flows: Vec::new(),
                engine_words: Vec::new(),
            })
        };
        let reverse = "rate = '1mbit'\n[reverse]\nrate = '3mbit'";
        assert_eq!(rate_of(&[reverse, "rate = '2mbit'"]), Some(Bitrate::from_bps(3_000_000)));
        assert_eq!(rate_of(&["rtt = '1ms'"]), None);
    }

    #[cfg(unix)]
    #[test]
    fn real_time_excludes_all_others() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("lock");
        let open = || File::create(&path).expect("a file");
        let (one, two, three) = (open(), open(), open());
        assert!(try_lock(&one, Beside::Virtual) && try_lock(&two, Beside::Virtual));
        assert!(!try_lock(&three, Beside::None), "two runs in virtual time hold it");
        drop((one, two));
        assert!(try_lock(&three, Beside::None) && !try_lock(&open(), Beside::Virtual));
    }
}
