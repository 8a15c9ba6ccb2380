//! Locks, journals and lost data of files in progress.

use std::cell::Cell;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use super::*;
use crate::directory::Links;

thread_local! {
    /// True: locks fail as on a file system that has none.
    pub(super) static HAS_NO_LOCKS: Cell<bool> = const { Cell::new(false) };
}

const SUBJECT: Subject = Subject { token: [1; 16], size: LARGE_BYTES + GROUP_BYTES, name_hash: [2; 32] };

fn open(folder: &Path) -> (Arc<Directory>, Temporary) {
    let handle = File::open(folder).unwrap().into();
    (Directory::top(handle, "".into(), Links::Keep).unwrap(), Temporary::of(b"name"))
}

fn group_end() -> Checkpoint {
    Checkpoint { offset: GROUP_BYTES, stack: vec![[7; 32]] }
}

fn large(directory: &Arc<Directory>, names: &Temporary) -> Part {
    Part::create_large(directory, names.clone(), SUBJECT).unwrap()
}

fn names_in(folder: &Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

#[test]
fn failed_sync_ends_checkpoints() {
    let folder = tempfile::tempdir().unwrap();
    let (directory, names) = open(folder.path());
    for fails_at_end in [false, true] {
        let mut part = large(&directory, &names);
        if fails_at_end {
            part.written(Err(Errno::IO.into())).unwrap_err();
        } else {
            let Progress::Idle(journal) = std::mem::replace(&mut part.progress, Progress::None) else {
                panic!("no journal");
            };
            let failed = std::thread::spawn(|| (journal, Err(Errno::IO.into())));
            part.progress = Progress::Syncing(failed);
        }
        part.suspend(Some(group_end()));
        assert_eq!(find_checkpoint(&directory, &names, &SUBJECT).unwrap(), None);
    }
    large(&directory, &names).suspend(Some(group_end()));
    assert_eq!(find_checkpoint(&directory, &names, &SUBJECT).unwrap(), Some(group_end()));
}

#[test]
fn note_counts_if_its_data_is_there() {
    for (written, is_there) in [(3, true), (2, false)] {
        let folder = tempfile::tempdir().unwrap();
        let (directory, names) = open(folder.path());
        let part = large(&directory, &names);
        let (mut tree, group) = (TreeHash::new(SUBJECT.size), vec![7; 512 << 10]);
        for _ in 0..3 {
            tree.update(&group);
        }
        // The last group is zeros if it was not written.
        for number in 0..written {
            part.file.write_all_at(&group, number * GROUP_BYTES).unwrap();
        }
        let (offset, stack) = tree.state();
        let noted = Checkpoint { offset, stack: stack.to_vec() };
        part.note(&noted).unwrap();
        // As of a process that is killed.
        drop(part);
        let found = find_checkpoint(&directory, &names, &SUBJECT).unwrap();
        assert_eq!(found, is_there.then_some(noted), "{written} groups");
    }
}

#[test]
fn copies_without_locks_have_own_parts() {
    HAS_NO_LOCKS.set(true);
    let folder = tempfile::tempdir().unwrap();
    let (directory, names) = open(folder.path());
    let (first, second) = (large(&directory, &names), large(&directory, &names));
    assert_ne!(first.names.part, second.names.part);
    first.file.write_all_at(b"first", 0).unwrap();
    assert_eq!(find_checkpoint(&directory, &names, &SUBJECT).unwrap(), None);
    assert!(first.check_name().is_ok() && second.check_name().is_ok());
    assert_eq!(names_in(folder.path()), 2, "two parts, no journal");
    first.suspend(Some(group_end()));
    second.discard();
    assert_eq!(names_in(folder.path()), 0);
}

#[test]
fn replaced_part_gets_no_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let (directory, names) = open(folder.path());
    let mut part = large(&directory, &names);
    remove(&directory, &names.part).unwrap();
    let other = create(&directory, &names.part).unwrap();
    other.set_len(SUBJECT.size).unwrap();
    part.checkpoint(group_end()).unwrap_err();
    part.suspend(Some(group_end()));
    assert_eq!(find_checkpoint(&directory, &names, &SUBJECT).unwrap(), None);
}

#[test]
fn journal_belongs_to_one_part() {
    let folder = tempfile::tempdir().unwrap();
    let (directory, names) = open(folder.path());
    let part = large(&directory, &names);
    // Held, so that the next file has another inode.
    let file = Arc::clone(&part.file);
    part.suspend(Some(group_end()));
    remove(&directory, &names.part).unwrap();
    create(&directory, &names.part).unwrap().set_len(SUBJECT.size).unwrap();
    assert_eq!(find_checkpoint(&directory, &names, &SUBJECT).unwrap(), None);
    Part::resume(&directory, names, SUBJECT, &group_end()).unwrap_err();
    drop(file);
}

#[test]
fn read_only_part_is_begun_again() {
    let folder = tempfile::tempdir().unwrap();
    let (directory, names) = open(folder.path());
    let part = large(&directory, &names);
    let file = Arc::clone(&part.file);
    part.suspend(Some(group_end()));
    // As of a copy that was killed before the rename.
    fchmod(&*file, Mode::RUSR).unwrap();
    assert_eq!(find_checkpoint(&directory, &names, &SUBJECT).unwrap(), None);
    large(&directory, &names).discard();
}

#[test]
fn part_in_progress_is_not_removed() {
    let folder = tempfile::tempdir().unwrap();
    let (directory, names) = open(folder.path());
    let part = large(&directory, &names);
    remove_left(&directory, &names).unwrap_err();
    part.suspend(None);
    remove_left(&directory, &names).unwrap();
    assert_eq!(names_in(folder.path()), 0);
    remove_left(&directory, &names).unwrap();
}
