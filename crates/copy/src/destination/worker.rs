//! Writes and verifies files, on several threads: each file belongs to one of them.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use rustix::fs::fstat;

use super::buffers::{Buffer, Room};
use super::final_name::{DIFFERS, FinalName, Placement, kept_before};
use super::part::{LARGE_BYTES, Part};
use super::tree::{Plan, Shared, Target};
use crate::directory::{is_file_of, mtime};
use crate::journal::Checkpoint;
use crate::protocol::{Contents, FromDestination, HashBytes, Start};
use crate::source::read::hash_rest;
use crate::threads::Ended;
use crate::tree_hash::{GROUP_BYTES, TreeHash};
use crate::{CopyError, Event, Existing, SkipReason};

/// Distance of checkpoints, bytes. After a crash of the system at most the data of two are sent
/// again.
const CHECKPOINT_BYTES: u64 = 64 * GROUP_BYTES;
/// A group that ends so long after the last checkpoint has its own.
const CHECKPOINT_INTERVAL: Duration = Duration::from_millis(500);

pub(super) struct Work {
    pub(super) id: u64,
    pub(super) job: Job,
    /// Room of the frame; `None` for jobs without data.
    pub(super) room: Room,
}

pub(super) enum Job {
    /// The source was asked for the file.
    Open(Box<Plan>),
    /// Hash the existing file, and ask the source to compare.
    Compare(Box<Plan>),
    Data {
        offset: u64,
        bytes: Buffer,
    },
    Hole {
        offset: u64,
        len: u64,
    },
    /// All data of the file, from its entry.
    Whole(Contents),
    Group(HashBytes),
    End(HashBytes),
    /// The source gives the file up.
    Stopped {
        text: String,
        /// True: what has arrived is still right.
        is_unchanged: bool,
    },
    Same,
    /// The source's file has this hash.
    Different {
        root: HashBytes,
    },
}

pub(super) struct Worker {
    pub(super) shared: Arc<Shared>,
    files: BTreeMap<u64, State>,
}

enum State {
    Planned(Box<Plan>),
    Comparing(Box<Plan>),
    Receiving(Box<Receiving>),
    /// The file failed. The worker discards its data, which the source sends until it hears of the
    /// failure.
    Discarding,
}

struct Receiving {
    plan: Box<Plan>,
    part: Part,
    tree: TreeHash,
    /// Chaining value of a complete group that the source has not confirmed.
    unconfirmed: Option<HashBytes>,
    has_holes: bool,
}

const WRONG_OFFSET: Failure = Failure::Protocol("data at the wrong offset");

enum Failure {
    /// The file fails alone. A later copy goes on with its data, unless these are wrong.
    File {
        text: String,
        is_wrong: bool,
    },
    Protocol(&'static str),
    Ended,
}

impl From<Ended> for Failure {
    fn from(_: Ended) -> Self {
        Self::Ended
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::File { text: error.to_string(), is_wrong: false }
    }
}

impl Worker {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, files: BTreeMap::new() }
    }

    pub(super) fn run(mut self, jobs: &Receiver<Work>) -> Result<(), Ended> {
        let result = self.work(jobs);
        for state in std::mem::take(&mut self.files).into_values() {
            if let State::Receiving(receiving) = state {
                receiving.give_up(false);
            }
        }
        result
    }

    fn work(&mut self, jobs: &Receiver<Work>) -> Result<(), Ended> {
        while let Ok(Work { id, job, room: _room }) = jobs.recv() {
            let state = self.files.remove(&id);
            match self.step(state, job) {
                Ok(Some(state)) => {
                    self.files.insert(id, state);
                }
                Ok(None) => {}
                Err(Failure::Protocol(text)) => {
                    return Err(self.shared.fail(CopyError::Protocol(text.into())));
                }
                // Steps resolve the failures of their file.
                Err(Failure::Ended | Failure::File { .. }) => return Err(Ended),
            }
        }
        Ok(())
    }

    fn step(&mut self, state: Option<State>, job: Job) -> Result<Option<State>, Failure> {
        match (state, job) {
            (None, Job::Open(plan)) => self.open(plan),
            (None, Job::Compare(plan)) => self.compare(plan),
            (Some(State::Comparing(plan)), job) => self.compared(plan, &job),
            (Some(State::Planned(plan)), Job::Stopped { text, .. }) => self.stopped(&plan.target, &text),
            (Some(State::Planned(plan)), job) => match begin(&self.shared, plan) {
                Ok(receiving) => self.receive(receiving, job),
                Err((target, error)) => {
                    self.shared.failed(&target, &error)?;
                    Ok(discarding(&job))
                }
            },
            (Some(State::Receiving(receiving)), job) => self.receive(receiving, job),
            (Some(State::Discarding), job) => Ok(discarding(&job)),
            (None, _) => Err(Failure::Protocol("data of a file that was not asked for")),
        }
    }

    fn receive(&self, mut receiving: Box<Receiving>, job: Job) -> Result<Option<State>, Failure> {
        let is_end = matches!(job, Job::End(_) | Job::Whole(_));
        let result = match job {
            Job::Data { offset, bytes } => receiving.data(&self.shared, offset, bytes.as_bytes()),
            Job::Hole { offset, len } => receiving.hole(&self.shared, offset, len),
            Job::Group(value) => receiving.group(value),
            Job::End(root) => match receiving.end(&self.shared, root) {
                Ok(placement) => return self.ended(*receiving, placement),
                Err(failure) => Err(failure),
            },
            Job::Whole(contents) => match receiving.whole(&self.shared, &contents) {
                Ok(placement) => return self.ended(*receiving, placement),
                Err(failure) => Err(failure),
            },
            Job::Stopped { text, is_unchanged } => {
                return self.stopped(&receiving.give_up(!is_unchanged), &text);
            }
            Job::Open(_) | Job::Compare(_) | Job::Same | Job::Different { .. } => {
                Err(Failure::Protocol("an answer that was not asked for"))
            }
        };
        match result {
            Ok(()) => Ok(Some(State::Receiving(receiving))),
            Err(Failure::File { text, is_wrong }) => {
                self.shared.failed(&receiving.give_up(is_wrong), &text)?;
                Ok((!is_end).then_some(State::Discarding))
            }
            Err(other) => {
                receiving.give_up(false);
                Err(other)
            }
        }
    }

    /// Resolves a file whose data are complete.
    fn ended(&self, receiving: Receiving, placement: Placement) -> Result<Option<State>, Failure> {
        let Receiving { part, mut plan, .. } = receiving;
        match &placement {
            // The next copy removes a journal that stays.
            Placement::New(_) => drop(part.remove_journal()),
            Placement::Same(_) => part.discard(),
        }
        self.shared.placed(&mut plan.target, placement)?;
        Ok(None)
    }

    fn stopped(&self, target: &Target, text: &str) -> Result<Option<State>, Failure> {
        let text = if text.is_empty() { "the source gave it up" } else { text };
        self.shared.failed(target, text)?;
        Ok(None)
    }

    /// Prepares for the data of a file that the source was asked for. One that goes on is opened
    /// first, so that the source learns of it only if it does. Further ones wait, because each
    /// needs descriptors.
    fn open(&self, plan: Box<Plan>) -> Result<Option<State>, Failure> {
        let Some(Checkpoint { offset, stack }) = plan.resume.clone() else {
            return Ok(Some(State::Planned(plan)));
        };
        let want = FromDestination::Want { id: plan.target.id, start: Start::Resume { offset, stack } };
        let state = if self.files.values().any(|state| matches!(state, State::Receiving(_))) {
            State::Planned(plan)
        } else {
            match begin(&self.shared, plan) {
                Ok(receiving) => State::Receiving(receiving),
                Err((target, error)) => {
                    self.shared.failed(&target, &error)?;
                    return Ok(None);
                }
            }
        };
        self.shared.reply(want)?;
        Ok(Some(state))
    }

    /// Asks the source whether its file is the same as the existing one.
    fn compare(&self, plan: Box<Plan>) -> Result<Option<State>, Failure> {
        let id = plan.target.id;
        match hash(&self.shared, &plan, plan.target.final_name()) {
            Ok(root) => {
                self.shared.reply(FromDestination::Want { id, start: Start::IfDifferent { root } })?;
                Ok(Some(State::Comparing(plan)))
            }
            Err(Failure::File { text, .. }) => {
                self.shared.failed(&plan.target, &format!("cannot be compared: {text}"))?;
                // The source was not asked, so nothing follows.
                Ok(None)
            }
            Err(other) => Err(other),
        }
    }

    /// Returns the numbered name under which an earlier copy has stored contents with this hash.
    fn find_kept(&self, plan: &Plan, root: HashBytes) -> Result<Option<Vec<u8>>, Failure> {
        let mut has_ended = false;
        let found = kept_before(&plan.target.name, |name| {
            let stat = plan.directory.stat_name(name).ok()?;
            if !is_file_of(&stat, plan.target.size) {
                return Some(false);
            }
            match hash(&self.shared, plan, name) {
                Ok(found) => Some(found == root),
                Err(Failure::Ended) => {
                    has_ended = true;
                    None
                }
                // One that cannot be read is not known to be the same.
                Err(_) => Some(false),
            }
        });
        if has_ended { Err(Failure::Ended) } else { Ok(found) }
    }

    fn compared(&self, mut plan: Box<Plan>, answer: &Job) -> Result<Option<State>, Failure> {
        let options = self.shared.options;
        if let Job::Different { root } = answer
            && options.existing == Existing::KeepBoth
        {
            plan.target.other_name = self.find_kept(&plan, *root)?;
        }
        match answer {
            Job::Same => self.shared.identical(&plan)?,
            Job::Different { .. } if plan.target.other_name.is_some() => {
                self.shared.skip(&plan.target, SkipReason::Identical)?;
            }
            Job::Different { .. } if options.existing == Existing::Refuse => {
                self.shared.failed(&plan.target, DIFFERS)?;
            }
            Job::Different { .. } if options.dry_run => self.shared.skip(&plan.target, SkipReason::DryRun)?,
            Job::Different { .. } => {
                if let Err(error) = self.shared.once_released(|| plan.find_checkpoint()) {
                    self.shared.failed(&plan.target, &error.to_string())?;
                    return Ok(None);
                }
                if plan.resume.is_none() {
                    let (id, start) = (plan.target.id, Start::Beginning);
                    self.shared.reply(FromDestination::Want { id, start })?;
                }
                return self.open(plan);
            }
            Job::Stopped { text, .. } => {
                plan.target.other_name = None;
                return self.stopped(&plan.target, text);
            }
            _ => return Err(Failure::Protocol("data instead of a comparison")),
        }
        Ok(None)
    }
}

fn hash(shared: &Shared, plan: &Plan, name: &[u8]) -> Result<HashBytes, Failure> {
    let file = plan.directory.open_file(name)?;
    let mut tree = TreeHash::new(plan.target.size);
    hash_rest(&file, &mut tree, plan.target.size, || {
        if shared.is_stopped.load(Ordering::Relaxed) { Err(Failure::Ended) } else { Ok(()) }
    })
}

impl Receiving {
    fn data(&mut self, shared: &Shared, offset: u64, bytes: &[u8]) -> Result<(), Failure> {
        self.check(offset)?;
        if bytes.len() as u64 > self.tree.room() {
            return Err(WRONG_OFFSET);
        }
        // The hash first: it brings the bytes into the cache, from which they are written. A group
        // whose write then fails is unconfirmed, so that no checkpoint covers it.
        self.unconfirmed = self.tree.update(bytes);
        let result = self.part.file.write_all_at(bytes, offset);
        self.part.written(result)?;
        shared.report.progress(bytes.len() as u64, true);
        self.plan.target.missing_bytes -= bytes.len() as u64;
        Ok(())
    }

    fn whole(&mut self, shared: &Shared, contents: &Contents) -> Result<Placement, Failure> {
        if !contents.bytes.is_empty() {
            self.data(shared, 0, &contents.bytes)?;
        }
        self.end(shared, contents.root)
    }

    fn hole(&mut self, shared: &Shared, offset: u64, len: u64) -> Result<(), Failure> {
        self.check(offset)?;
        let end = offset.checked_add(len).filter(|end| *end <= self.plan.target.size);
        if len == 0 || end.is_none_or(|end| self.tree.zero_run(end) != len) {
            return Err(WRONG_OFFSET);
        }
        self.has_holes = true;
        self.unconfirmed = self.tree.update_zeros(len);
        shared.report.progress(len, false);
        self.plan.target.missing_bytes -= len;
        // Not by distance as well: a message may skip any distance.
        let may_resume = self.unconfirmed.is_none() && self.tree.state().0 > 0;
        if may_resume && self.part.since_checkpoint() >= CHECKPOINT_INTERVAL {
            self.part.checkpoint(self.checkpoint())?;
        }
        Ok(())
    }

    fn check(&self, offset: u64) -> Result<(), Failure> {
        if self.unconfirmed.is_some() {
            return Err(Failure::Protocol("data after a group without its chaining value"));
        }
        if offset == self.tree.offset() { Ok(()) } else { Err(WRONG_OFFSET) }
    }

    fn group(&mut self, value: HashBytes) -> Result<(), Failure> {
        match self.unconfirmed.take() {
            None => return Err(Failure::Protocol("chaining value without a group")),
            Some(own) if own != value => {
                return Err(wrong_data());
            }
            Some(_) => {}
        }
        self.part.note(&self.checkpoint())?;
        let is_far = self.tree.offset().is_multiple_of(CHECKPOINT_BYTES);
        if is_far || self.part.since_checkpoint() >= CHECKPOINT_INTERVAL {
            self.part.checkpoint(self.checkpoint())?;
        }
        Ok(())
    }

    /// Gives the file its final name.
    fn end(&mut self, shared: &Shared, root: HashBytes) -> Result<Placement, Failure> {
        let Plan { target, directory, attributes, .. } = &*self.plan;
        if self.tree.offset() != target.size {
            return Err(Failure::Protocol("the end of a file before its last byte"));
        }
        if self.tree.finish() != root {
            return Err(wrong_data());
        }
        self.part.settle()?;
        if self.has_holes {
            self.part.file.set_len(target.size)?;
        }
        if target.size > LARGE_BYTES || self.has_holes {
            // The part has its full size before its data are durable. A crash after the rename
            // would leave zeros that pass for the whole file.
            self.part.sync_data()?;
        }
        // Last, because a copy that is interrupted here cannot open the part of a read-only file.
        attributes.set(&self.part.file, shared.options.special_modes)?;
        if shared.options.sync {
            let result = self.part.file.sync_all();
            self.part.written(result)?;
        }
        self.part.check_name()?;
        let (existing, placed) = (shared.options.existing, &shared.placed);
        let name = FinalName { directory, name: &target.name, existing, placed };
        Ok(name.take_by_file(&self.part.names.part, |name| self.is_same(shared, root, name))?)
    }

    /// Returns true if a name has the same file, as another copy would have placed it.
    fn is_same(&self, shared: &Shared, root: HashBytes, name: &[u8]) -> bool {
        let Plan { target, directory, .. } = &*self.plan;
        let (Ok(found), Ok(own)) = (directory.stat_name(name), fstat(&self.part.file)) else { return false };
        is_file_of(&found, target.size)
            && if shared.options.checksum {
                hash(shared, &self.plan, name).is_ok_and(|found| found == root)
            } else {
                mtime(&found) == mtime(&own)
            }
    }

    fn checkpoint(&self) -> Checkpoint {
        let (offset, stack) = self.tree.state();
        Checkpoint { offset, stack: stack.to_vec() }
    }

    /// Ends the part. A later copy goes on with its data, unless these are wrong.
    fn give_up(self: Box<Self>, is_wrong: bool) -> Target {
        let checkpoint = self.checkpoint();
        let is_verified = self.unconfirmed.is_none() && checkpoint.offset > 0;
        let Self { part, plan, .. } = *self;
        if is_wrong {
            part.discard();
        } else {
            part.suspend(is_verified.then_some(checkpoint));
        }
        plan.target
    }
}

fn wrong_data() -> Failure {
    Failure::File { text: "its data differ from what the source read".into(), is_wrong: true }
}

/// Creates or opens the part of a file whose data begin to arrive.
fn begin(shared: &Shared, mut plan: Box<Plan>) -> Result<Box<Receiving>, (Target, String)> {
    let size = plan.target.size;
    let resumed = plan.resume.as_ref().and_then(|at| TreeHash::resume(size, at.offset, &at.stack));
    let tree = resumed.unwrap_or_else(|| TreeHash::new(size));
    let open = || {
        let names = plan.names.clone();
        match &plan.resume {
            Some(checkpoint) => Part::resume(&plan.directory, names, plan.subject, checkpoint),
            None if size > GROUP_BYTES => Part::create_large(&plan.directory, names, plan.subject),
            None => Part::create_small(&plan.directory, names),
        }
    };
    match shared.once_released(open) {
        Ok(part) => {
            let path = plan.target.path();
            shared.report.event(&Event::FileStarted { path: &path, size });
            if tree.offset() > 0 {
                shared.report.resumed(&path, tree.offset());
            }
            plan.target.missing_bytes = size - tree.offset();
            Ok(Box::new(Receiving { plan, part, tree, unconfirmed: None, has_holes: false }))
        }
        Err(error) => {
            let what = if plan.resume.is_some() { "go on" } else { "be created" };
            Err((plan.target, format!("cannot {what}: {error}")))
        }
    }
}

/// State of a failed file after a job: the end of its data ends it.
fn discarding(job: &Job) -> Option<State> {
    (!matches!(job, Job::End(_) | Job::Whole(_) | Job::Stopped { .. })).then_some(State::Discarding)
}
