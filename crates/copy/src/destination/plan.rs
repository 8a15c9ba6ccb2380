//! Decides for each entry of the source what happens, in the order of the list, on a thread of its
//! own. Creates directories and links.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use ignore::gitignore::Gitignore;
use rustix::fs::{Mode, Stat, fchmod, fstat, mkdirat};
use rustix::io::Errno;

use super::attributes::{Attributes, NewMode, TimeProbe, fillable, is_unfinished, unfinished};
use super::buffers::Room;
use super::final_name::{DIFFERS, FinalName, Placement, is_link, kept_before, not_replaced};
use super::marker::Marker;
use super::part::{found, remove_left};
use super::tree::{Node, NodeEntry, Plan, Shared, Target};
use super::worker::{Job, Work};
use crate::directory::{Directory, is_file_of, mode_of};
use crate::journal::Subject;
use crate::name::{Temporary, refuse};
use crate::protocol::{
    Contents, Entry, EntryKind, FromDestination, MAX_DEPTH, MAX_NAME_BYTES, MAX_TARGET_BYTES, RawPath, Start,
    Token,
};
use crate::report::Lost;
use crate::source::{SourcePath, Wildcard, is_excluded_source, is_pattern};
use crate::threads::Ended;
use crate::tree_hash::GROUP_BYTES;
use crate::{CopyError, DestinationOptions, Existing, Kind, SkipReason};

/// A file that is empty by intention may have the same time, so it is not replaced unasked.
const EMPTIED: &str = "exists and is empty, as after a loss of power: --overwrite replaces it";
const NOT_LISTED: &str = "the other side did not list it";

/// Step of the source's list.
pub(super) enum Step {
    Entry(Entry),
    Leave {
        id: u64,
    },
    /// The source reports that it cannot read this path.
    Unreadable {
        path: RawPath,
    },
    /// The list is complete.
    End,
}

/// Source that this side asked for.
#[derive(Debug)]
pub(crate) struct Expected {
    /// Name of the source at the destination; empty if only its contents are copied.
    pub(crate) name: Vec<u8>,
    /// Path of the source in the request.
    pub(crate) path: RawPath,
    /// True: the path stands for any number of names.
    pub(crate) is_pattern: bool,
    /// Wildcards of the name.
    wildcard: Option<Wildcard>,
    /// True: nothing need be listed for it.
    may_be_missing: bool,
}

impl Expected {
    pub(crate) fn of(path: &Path, excludes: &Gitignore) -> Self {
        let name = SourcePath::of(path).top_name();
        // As a directory, because this side does not know the kind.
        let is_excluded = !name.is_empty() && is_excluded_source(excludes, OsStr::from_bytes(&name), true);
        let is_pattern = is_pattern(path);
        let wildcard = if is_pattern { Wildcard::of(&name) } else { None };
        let may_be_missing = is_excluded || (is_pattern && !excludes.is_empty());
        Self { name, path: path.as_os_str().as_bytes().into(), is_pattern, wildcard, may_be_missing }
    }

    fn has_name(&self, name: &[u8]) -> bool {
        self.name == name || self.wildcard.as_ref().is_some_and(|wildcard| wildcard.matches(name))
    }
}

/// Names that the source may use at the top.
#[derive(Debug)]
pub(crate) struct TopNames {
    /// Sources that this side asked for and that were not listed. `None`: the peer has chosen them.
    pub(crate) expected: Option<Vec<Expected>>,
    /// Name that the only source gets, if the destination is not a directory.
    pub(crate) rename: Option<Vec<u8>>,
    /// Number of names still to come.
    pub(crate) left: u64,
}

impl TopNames {
    /// Returns the name under which an entry at the top is stored. `None`: it was not asked for.
    fn admit(&mut self, name: &[u8]) -> Option<Vec<u8>> {
        self.left = self.left.checked_sub(1)?;
        if let Some(expected) = &mut self.expected {
            let mut is_expected = false;
            for pattern in expected.iter_mut().filter(|it| it.is_pattern && it.has_name(name)) {
                (pattern.may_be_missing, is_expected) = (true, true);
            }
            match expected.iter().position(|it| !it.is_pattern && it.name == name) {
                Some(at) => drop(expected.remove(at)),
                None if !is_expected => return None,
                None => {}
            }
        }
        Some(self.rename.clone().unwrap_or_else(|| name.into()))
    }

    /// Notes a source that the peer cannot read, by its path or by its name: it is accounted for.
    fn unreadable(&mut self, path: &[u8]) {
        let Some(expected) = &mut self.expected else { return };
        let by_path = expected.iter().position(|expected| expected.path == path);
        let at = by_path.or_else(|| expected.iter().position(|expected| expected.name == path));
        if let Some(at) = at {
            expected.remove(at);
        }
    }
}

/// Thread that decides.
pub(super) struct Planner {
    pub(super) shared: Arc<Shared>,
    /// Directories that the source is in, the innermost last. The first is the destination.
    pub(super) nodes: Vec<Arc<Node>>,
    pub(super) top: TopNames,
    /// True: the destination itself has no mode of its own yet.
    pub(super) is_new: bool,
    /// Marker to write when the directory at the top is created under its new name.
    pub(super) marker: Option<Marker>,
    pub(super) probe: TimeProbe,
    pub(super) workers: Vec<Sender<Work>>,
}

impl Planner {
    pub(super) fn run(mut self, steps: &Receiver<(Step, Room)>) -> Result<(), Ended> {
        while let Ok((step, room)) = steps.recv() {
            match step {
                Step::Entry(entry) => self.entry(entry, room)?,
                Step::Leave { id } => self.leave(id)?,
                // Inside a source whose contents alone are copied, a path may equal the name of
                // another source.
                Step::Unreadable { path } if self.nodes.len() == 1 => self.top.unreadable(&path),
                Step::Unreadable { .. } => {}
                Step::End => self.end()?,
            }
        }
        Ok(())
    }

    /// Reports the sources that this side asked for, and that the peer did not even name.
    fn end(&mut self) -> Result<(), Ended> {
        if self.nodes.len() > 1 {
            return Err(self.shared.fail(CopyError::Protocol("the list ends inside a directory".into())));
        }
        let expected = self.top.expected.take().into_iter().flatten();
        for Expected { path, .. } in expected.filter(|source| !source.may_be_missing) {
            self.shared.report.failed(Path::new(OsStr::from_bytes(&path)), NOT_LISTED, Lost::default());
        }
        Ok(())
    }

    fn leave(&mut self, id: u64) -> Result<(), Ended> {
        match self.nodes.pop() {
            Some(node) if node.entry.as_ref().is_some_and(|entry| entry.target.id == id) => {
                self.shared.close(&node)
            }
            _ => {
                Err(self.shared.fail(CopyError::Protocol(format!("directory {id} was left and not entered"))))
            }
        }
    }

    fn entry(&mut self, mut entry: Entry, room: Room) -> Result<(), Ended> {
        // Directories that fail for their depth cost no credit, so their number is limited here.
        if self.nodes.len() > 2 * MAX_DEPTH {
            return Err(self.shared.fail(CopyError::Protocol("directories nested without end".into())));
        }
        // A longer name is refused, and need not be kept.
        entry.name.truncate(MAX_NAME_BYTES + 1);
        let node = Arc::clone(self.nodes.last().expect("leave() does not remove the destination"));
        let is_top = node.entry.is_none();
        if is_top {
            let Some(name) = self.top.admit(&entry.name) else {
                let text = format!("'{}' was not asked for", entry.name.escape_ascii());
                return Err(self.shared.fail(CopyError::Protocol(text)));
            };
            entry.name = name;
        }
        let is_contents = is_top && entry.name.is_empty() && entry.kind == EntryKind::Directory;
        let attributes = Attributes::of(&entry);
        let (kind, size) = match &entry.kind {
            EntryKind::Directory => (Kind::Directory, 0),
            EntryKind::File { size, .. } => (Kind::File, *size),
            EntryKind::Symlink { .. } => (Kind::Symlink, 0),
        };
        node.open();
        let target = Target {
            id: entry.id,
            node,
            name: entry.name,
            other_name: None,
            kind,
            size,
            missing_bytes: size,
        };
        if !is_contents && let Some(why) = refuse(&target.name) {
            return self.fail(target, why);
        }
        if !self.shared.options.dry_run && target.node.directory.is_none() {
            return self.fail(target, "its directory could not be created");
        }
        match entry.kind {
            EntryKind::Directory => self.directory(target, attributes),
            EntryKind::Symlink { target: to } => self.link(target, &to, attributes),
            EntryKind::File { token, contents, .. } => {
                self.file(target, token, attributes, contents.map(|contents| (contents, room)))
            }
        }
    }

    /// Resolves an entry as failed. The source may still list the contents of a directory.
    fn fail(&mut self, target: Target, why: &str) -> Result<(), Ended> {
        self.shared.failed(&target, why)?;
        if target.kind == Kind::Directory {
            target.node.open();
            let entry = NodeEntry { target, attributes: None, existed: true, mode: NewMode::Keep };
            self.nodes.push(Node::new(None, Some(entry)));
        }
        Ok(())
    }

    fn directory(&mut self, target: Target, attributes: Attributes) -> Result<(), Ended> {
        let opened = match &target.node.directory {
            Some(_) if self.nodes.len() > MAX_DEPTH => {
                Err(io::Error::other("the directories are nested too deep"))
            }
            // What contents go into keeps its mode: with a server, it is DIR itself.
            Some(parent) if target.name.is_empty() => {
                let mode = if self.is_new { NewMode::Source } else { NewMode::Keep };
                Ok(Entered { directory: Some(Arc::clone(parent)), existed: true, mode })
            }
            Some(parent) => self.enter(parent, &target),
            None => Ok(Entered { directory: None, existed: false, mode: NewMode::Source }),
        };
        match opened {
            Ok(Entered { directory, existed, mode }) => {
                let entry = NodeEntry { target, attributes: Some(attributes), existed, mode };
                self.nodes.push(Node::new(directory, Some(entry)));
                Ok(())
            }
            Err(error) => self.fail(target, &format!("cannot be created: {error}")),
        }
    }

    /// Creates or opens a directory.
    fn enter(&self, parent: &Arc<Directory>, target: &Target) -> io::Result<Entered> {
        let is_top = target.node.entry.is_none();
        let marker = self.marker.as_ref().filter(|_| is_top);
        if let Some(marker) = marker
            && parent.stat_name(&target.name).is_err()
        {
            marker.announce();
        }
        let entered = enter(parent, &target.name, self.shared.options)?;
        if let (Some(marker), Some(directory)) = (marker, &entered.directory) {
            marker.bind(directory);
        }
        Ok(entered)
    }

    fn link(&mut self, mut target: Target, to: &[u8], attributes: Attributes) -> Result<(), Ended> {
        if to.is_empty() || to.len() > MAX_TARGET_BYTES || to.contains(&0) {
            return self.shared.failed(&target, "the link's target is no path");
        }
        let Some(directory) = target.node.directory.clone() else {
            return self.shared.skip(&target, SkipReason::DryRun);
        };
        let options = self.shared.options;
        let found = match is_link(&directory, &target.name, to) {
            Ok(Some(false)) if options.existing == Existing::KeepBoth => {
                let is_same = |name: &[u8]| is_link(&directory, name, to).ok()?;
                target.other_name = kept_before(&target.name, is_same);
                Ok(Some(target.other_name.is_some()))
            }
            found => found,
        };
        match found {
            Err(error) => return self.shared.failed(&target, &format!("cannot be examined: {error}")),
            Ok(Some(true)) => return self.shared.skip(&target, SkipReason::Identical),
            Ok(Some(false)) if options.existing != Existing::KeepBoth => {
                let stat = directory.stat_name(&target.name).ok();
                match stat.and_then(|stat| not_replaced(&stat)) {
                    Some(text) => return self.shared.failed(&target, &text),
                    None if options.existing == Existing::Refuse => {
                        return self.shared.failed(&target, DIFFERS);
                    }
                    None if options.dry_run => return self.shared.skip(&target, SkipReason::DryRun),
                    None => {}
                }
            }
            Ok(_) if options.dry_run => return self.shared.skip(&target, SkipReason::DryRun),
            Ok(_) => {}
        }
        let name = FinalName {
            directory: &directory,
            name: &target.name,
            existing: options.existing,
            placed: &self.shared.placed,
        };
        let placed = name.take_by_link(to).and_then(|placement| {
            if let Placement::New(name) = &placement {
                attributes.set_link_time(&*directory.handle()?, name)?;
            }
            Ok(placement)
        });
        match placed {
            Ok(placement) => self.shared.placed(&mut target, placement),
            Err(error) => self.shared.failed(&target, &format!("cannot be created: {error}")),
        }
    }

    fn file(
        &mut self,
        target: Target,
        token: Token,
        attributes: Attributes,
        contents: Option<(Contents, Room)>,
    ) -> Result<(), Ended> {
        let Some(directory) = &target.node.directory else {
            return self.shared.skip(&target, SkipReason::DryRun);
        };
        let directory = Arc::clone(directory);
        let names = Temporary::of(&target.name);
        let subject = Subject { token, size: target.size, name_hash: names.name_hash };
        let mut plan = Plan { target, directory, names, subject, attributes, resume: None };
        let verdict = match self.decide(&mut plan) {
            Ok(verdict) => verdict,
            Err(error) => return self.shared.failed(&plan.target, &error.to_string()),
        };
        match verdict {
            Verdict::Identical => {
                if plan.target.size > GROUP_BYTES && !self.shared.options.dry_run {
                    // Left by a copy that was killed after the rename, or whose file another
                    // program has completed. If the removal fails, the next copy tries again.
                    let _ = remove_left(&plan.directory, &plan.names);
                }
                self.shared.identical(&plan)
            }
            Verdict::Compare => {
                self.queue(plan.target.id, Job::Compare(Box::new(plan)), None);
                Ok(())
            }
            Verdict::Copy if self.shared.options.dry_run => {
                self.shared.skip(&plan.target, SkipReason::DryRun)
            }
            Verdict::Copy => {
                let id = plan.target.id;
                // The worker knows the file before the source can send its data. It asks itself for
                // the rest of a file that goes on.
                let is_resumed = plan.resume.is_some();
                self.queue(id, Job::Open(Box::new(plan)), None);
                match contents {
                    _ if is_resumed => {}
                    Some((contents, room)) => self.queue(id, Job::Whole(contents), room),
                    None => self.shared.reply(FromDestination::Want { id, start: Start::Beginning })?,
                }
                Ok(())
            }
        }
    }

    /// Decides about a file and where it goes on, again after another copy of it has ended.
    fn decide(&mut self, plan: &mut Plan) -> io::Result<Verdict> {
        let shared = Arc::clone(&self.shared);
        shared.once_released(|| {
            let verdict = self.judge(&mut plan.target, &plan.directory, &plan.attributes);
            let verdict = verdict.map_err(io::Error::other)?;
            if verdict == Verdict::Copy && !shared.options.dry_run {
                plan.find_checkpoint()?;
            }
            Ok(verdict)
        })
    }

    /// Decides about a file by what has its name.
    fn judge(
        &mut self,
        target: &mut Target,
        directory: &Arc<Directory>,
        attributes: &Attributes,
    ) -> Result<Verdict, String> {
        let (checksum, existing) = (self.shared.options.checksum, self.shared.options.existing);
        let (probe, size) = (&mut self.probe, target.size);
        let mut look = |stat: &Stat| {
            if !is_file_of(stat, size) {
                Verdict::Copy
            } else if checksum {
                Verdict::Compare
            } else if probe.has_time(stat, attributes, directory) {
                Verdict::Identical
            } else {
                Verdict::Copy
            }
        };
        let stat = found(directory.stat_name(&target.name));
        let stat = stat.map_err(|error| format!("cannot be examined: {error}"))?;
        let Some(stat) = stat else { return Ok(Verdict::Copy) };
        match look(&stat) {
            Verdict::Copy if existing == Existing::KeepBoth => {
                let may_be_same = |name: &[u8]| {
                    let stat = directory.stat_name(name).ok()?;
                    Some(look(&stat) != Verdict::Copy)
                };
                target.other_name = kept_before(&target.name, may_be_same);
                Ok(match target.other_name {
                    Some(_) if checksum => Verdict::Compare,
                    Some(_) => Verdict::Identical,
                    None => Verdict::Copy,
                })
            }
            Verdict::Copy => match not_replaced(&stat) {
                Some(text) => Err(text),
                None if existing == Existing::Overwrite => Ok(Verdict::Copy),
                None if is_file_of(&stat, 0) && self.probe.has_time(&stat, attributes, directory) => {
                    Err(EMPTIED.into())
                }
                None => Err(DIFFERS.into()),
            },
            verdict => Ok(verdict),
        }
    }

    fn queue(&self, id: u64, job: Job, room: Room) {
        let worker = &self.workers[super::worker_of(id, self.workers.len())];
        // Fails if the worker has ended with the copy. Entries that are unresolved are limited, so
        // these jobs are too.
        let _ = worker.send(Work { id, job, room });
    }
}

/// Decision about a file whose name exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Identical,
    Compare,
    Copy,
}

/// Directory that was created or opened.
pub(super) struct Entered {
    /// `None`: a dry run would create it.
    pub(super) directory: Option<Arc<Directory>>,
    existed: bool,
    mode: NewMode,
}

/// Creates or opens a directory.
pub(super) fn enter(
    parent: &Arc<Directory>,
    name: &[u8],
    options: DestinationOptions,
) -> io::Result<Entered> {
    if options.dry_run {
        let directory = found(parent.open_directory(name))?;
        return Ok(Entered { existed: directory.is_some(), directory, mode: NewMode::Keep });
    }
    let is_new = match mkdirat(&*parent.handle()?, name, unfinished()) {
        Ok(()) => true,
        Err(Errno::EXIST) => false,
        Err(error) => return Err(error.into()),
    };
    let directory = match parent.open_directory(name) {
        Ok(directory) => directory,
        Err(error) if is_new => return Err(error),
        Err(_) => return Err(io::Error::other("exists and is no directory that can be read")),
    };
    let handle = directory.handle()?;
    let stat = fstat(&*handle)?;
    let mode = if is_new {
        // Other systems than Linux create it without the sticky bit.
        if !is_unfinished(&stat) {
            let _ = fchmod(&*handle, unfinished() | (mode_of(&stat) & Mode::SGID));
        }
        NewMode::Source
    } else if is_unfinished(&stat) {
        NewMode::Source
    } else {
        fillable(parent, name, &handle, &stat)
    };
    let mode = if options.existing == Existing::Overwrite { NewMode::Source } else { mode };
    Ok(Entered { directory: Some(directory), existed: !is_new, mode })
}
