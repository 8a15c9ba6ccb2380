//! Journal of a large file in progress: how far its data was verified and is durable, and the state
//! of its hash there.
//!
//! | bytes | content |
//! |---|---|
//! | 0..4096 | header: magic (8), token (16), size (8), name (32), inode (8), checksum (16) |
//! | 4096..8192 | slot 0 |
//! | 8192..12288 | slot 1 |
//! | 12288..16384 | note |
//!
//! The name is its BLAKE3, the inode that of the part. A slot has a sequence number (8), an offset
//! (8), the number of chaining values (1), these (32 each) and a checksum (16). Checkpoints go to
//! the slots in turn, so a torn write leaves the one before. Checksums are BLAKE3; those of slots
//! cover the header too.
//!
//! The note has the form of a slot, and is written after each group, without a sync: it outlives a
//! killed process. After a crash of the system it may name data that is not there, so the data
//! between the last checkpoint and the note is hashed again before a copy goes on at the note.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::unix::fs::FileExt as _;

use crate::protocol::{HashBytes, Token};
use crate::tree_hash::{GROUP_BYTES, TreeHash};

const MAGIC: [u8; 8] = *b"rdtcopy3";
const HEADER_BYTES: usize = 72;
const CHECKSUM_BYTES: usize = 16;
const SLOT_BYTES: usize = 4096;
/// Place of the note.
const NOTE_START: usize = 3 * SLOT_BYTES;
/// Size of a journal, bytes.
const JOURNAL_BYTES: u64 = 4 * SLOT_BYTES as u64;

/// File that a journal belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Subject {
    /// Identity of the contents at the source.
    pub(crate) token: Token,
    /// Size, bytes.
    pub(crate) size: u64,
    /// BLAKE3 of the final name.
    pub(crate) name_hash: HashBytes,
}

/// End of the verified data, and the state of the hash there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Checkpoint {
    /// Bytes before are verified: a multiple of a group, less than the size.
    pub(crate) offset: u64,
    pub(crate) stack: Vec<HashBytes>,
}

/// Where a file that was interrupted may go on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Left {
    /// Checkpoint: the data before is durable.
    pub(crate) durable: Option<Checkpoint>,
    /// Note behind the checkpoint.
    pub(crate) noted: Option<Checkpoint>,
}

/// Writer of the notes, beside the thread that writes checkpoints.
#[derive(Debug)]
pub(crate) struct Notes {
    file: File,
    header: Vec<u8>,
}

impl Notes {
    /// Notes the end of a group.
    pub(crate) fn write(&self, checkpoint: &Checkpoint) -> io::Result<()> {
        self.file.write_all_at(&slot(&self.header, 0, checkpoint), NOTE_START as u64)
    }
}

#[derive(Debug)]
pub(crate) struct Journal {
    file: File,
    header: Vec<u8>,
    sequence: u64,
}

impl Journal {
    /// Starts a journal without a checkpoint, of the part with this inode. Forgets what the file
    /// had.
    pub(crate) fn create(file: File, subject: Subject, inode: u64) -> io::Result<Self> {
        let header = header(&subject, inode);
        file.set_len(0)?;
        file.write_all_at(&header, 0)?;
        Ok(Self { file, header, sequence: 0 })
    }

    /// Continues a journal of this subject and part.
    pub(crate) fn resume(file: File, subject: Subject, inode: u64) -> io::Result<(Self, Left)> {
        let header = header(&subject, inode);
        let (sequence, left) = left(&read(&file)?, &header, subject.size);
        Ok((Self { file, header, sequence }, left))
    }

    /// Reads where a file may go on. Nowhere if the journal is not of this subject and part.
    pub(crate) fn peek(file: &File, subject: &Subject, inode: u64) -> io::Result<Left> {
        Ok(left(&read(file)?, &header(subject, inode), subject.size).1)
    }

    /// Returns the writer of its notes.
    pub(crate) fn notes(&self) -> io::Result<Notes> {
        Ok(Notes { file: self.file.try_clone()?, header: self.header.clone() })
    }

    /// Writes a checkpoint, after the data before it is durable.
    pub(crate) fn write(&mut self, checkpoint: &Checkpoint) -> io::Result<()> {
        self.sequence += 1;
        let slot = slot(&self.header, self.sequence, checkpoint);
        self.file.write_all_at(&slot, slot_start(self.sequence) as u64)?;
        self.file.sync_data()
    }
}

fn slot_start(sequence: u64) -> usize {
    if sequence % 2 == 1 { SLOT_BYTES } else { 2 * SLOT_BYTES }
}

fn read(mut file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.take(JOURNAL_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn checksum(parts: &[&[u8]]) -> [u8; CHECKSUM_BYTES] {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(part);
    }
    let mut sum = [0; CHECKSUM_BYTES];
    hasher.finalize_xof().fill(&mut sum);
    sum
}

fn header(subject: &Subject, inode: u64) -> Vec<u8> {
    let (size, inode) = (subject.size.to_le_bytes(), inode.to_le_bytes());
    let mut bytes = [&MAGIC[..], &subject.token, &size, &subject.name_hash, &inode].concat();
    debug_assert_eq!(bytes.len(), HEADER_BYTES);
    bytes.extend(checksum(&[&bytes]));
    bytes
}

fn slot(header: &[u8], sequence: u64, checkpoint: &Checkpoint) -> Vec<u8> {
    let mut bytes = sequence.to_le_bytes().to_vec();
    bytes.extend(checkpoint.offset.to_le_bytes());
    bytes.push(u8::try_from(checkpoint.stack.len()).unwrap_or(u8::MAX));
    bytes.extend(checkpoint.stack.as_flattened());
    bytes.extend(checksum(&[header, &bytes]));
    bytes
}

/// Returns the newest checkpoint and the note that are whole and of a journal with this header, and
/// the sequence number of the checkpoint.
fn left(bytes: &[u8], header: &[u8], size: u64) -> (u64, Left) {
    if !bytes.starts_with(header) {
        return (0, Left::default());
    }
    let slot = |start| parse_slot(bytes.get(start..)?, header, size);
    let newest = [SLOT_BYTES, 2 * SLOT_BYTES].into_iter().filter_map(slot).max_by_key(|(number, _)| *number);
    let (sequence, durable) = newest.map_or((0, None), |(sequence, durable)| (sequence, Some(durable)));
    let offset = durable.as_ref().map_or(0, |durable| durable.offset);
    let noted = slot(NOTE_START).map(|(_, noted)| noted).filter(|noted| noted.offset > offset);
    (sequence, Left { durable, noted })
}

fn parse_slot(bytes: &[u8], header: &[u8], size: u64) -> Option<(u64, Checkpoint)> {
    let (sequence, rest) = bytes.split_first_chunk::<8>()?;
    let (offset, rest) = rest.split_first_chunk::<8>()?;
    let (count, rest) = rest.split_first()?;
    let (stack, _) = rest.as_chunks::<32>();
    let stack = stack.get(..usize::from(*count))?;
    let sequence = u64::from_le_bytes(*sequence);
    let checkpoint = Checkpoint { offset: u64::from_le_bytes(*offset), stack: stack.to_vec() };
    let is_whole = bytes.starts_with(&slot(header, sequence, &checkpoint));
    let is_state = TreeHash::resume(size, checkpoint.offset, &checkpoint.stack).is_some();
    (is_whole && is_state && checkpoint.offset >= GROUP_BYTES).then_some((sequence, checkpoint))
}

#[cfg(test)]
mod tests {
    use super::*;

    const INODE: u64 = 5;
    const SUBJECT: Subject = Subject { token: [1; 16], size: 100 * GROUP_BYTES, name_hash: [2; 32] };

    fn checkpoint(groups: u64) -> Checkpoint {
        let stack = vec![[groups.to_le_bytes()[0]; 32]; groups.count_ones() as usize];
        Checkpoint { offset: groups * GROUP_BYTES, stack }
    }

    fn journal() -> (File, Journal) {
        let file = tempfile::tempfile().unwrap();
        let journal = Journal::create(file.try_clone().unwrap(), SUBJECT, INODE).unwrap();
        (file, journal)
    }

    #[test]
    fn last_checkpoint_is_found() {
        let (file, mut journal) = journal();
        assert_eq!(peek(&file), Left::default());
        for groups in 1..9 {
            journal.write(&checkpoint(groups)).unwrap();
            assert_eq!(peek(&file).durable, Some(checkpoint(groups)));
        }
        let (mut journal, last) = Journal::resume(file.try_clone().unwrap(), SUBJECT, INODE).unwrap();
        assert_eq!(last, Left { durable: Some(checkpoint(8)), noted: None });
        journal.write(&checkpoint(9)).unwrap();
        assert_eq!(peek(&file).durable, Some(checkpoint(9)));
    }

    fn peek(file: &File) -> Left {
        Journal::peek(file, &SUBJECT, INODE).unwrap()
    }

    #[test]
    fn note_counts_only_behind_checkpoint() {
        let (file, mut journal) = journal();
        let notes = journal.notes().unwrap();
        notes.write(&checkpoint(3)).unwrap();
        assert_eq!(peek(&file), Left { durable: None, noted: Some(checkpoint(3)) });
        journal.write(&checkpoint(3)).unwrap();
        assert_eq!(peek(&file), Left { durable: Some(checkpoint(3)), noted: None });
        notes.write(&checkpoint(5)).unwrap();
        assert_eq!(peek(&file), Left { durable: Some(checkpoint(3)), noted: Some(checkpoint(5)) });
    }

    #[test]
    fn other_subjects_find_nothing() {
        let (file, mut journal) = journal();
        journal.write(&checkpoint(3)).unwrap();
        for other in [
            Subject { token: [9; 16], ..SUBJECT },
            Subject { size: SUBJECT.size + 1, ..SUBJECT },
            Subject { name_hash: [9; 32], ..SUBJECT },
        ] {
            assert_eq!(Journal::peek(&file, &other, INODE).unwrap(), Left::default());
        }
        assert_eq!(Journal::peek(&file, &SUBJECT, INODE + 1).unwrap(), Left::default());
    }

    #[test]
    fn torn_write_at_every_byte_leaves_previous() {
        let (file, mut journal) = journal();
        journal.write(&checkpoint(5)).unwrap();
        journal.write(&checkpoint(6)).unwrap();
        let new = slot(&header(&SUBJECT, INODE), 3, &checkpoint(7));
        for written in 0..=new.len() {
            // Slot 0 had checkpoint 5, of which the rest remains.
            let mut bytes = read(&file).unwrap();
            bytes[SLOT_BYTES..SLOT_BYTES + written].copy_from_slice(&new[..written]);
            let found = left(&bytes, &header(&SUBJECT, INODE), SUBJECT.size).1.durable.unwrap();
            let expected = if written == new.len() { 7 } else { 6 };
            assert_eq!(found, checkpoint(expected), "{written} bytes");
        }
    }

    #[test]
    fn every_flipped_byte_is_noticed() {
        let (file, mut journal) = journal();
        journal.write(&checkpoint(7)).unwrap();
        let bytes = read(&file).unwrap();
        let used = (0..HEADER_BYTES + CHECKSUM_BYTES).chain(SLOT_BYTES..bytes.len());
        for at in used {
            let mut bytes = bytes.clone();
            bytes[at] ^= 0x40;
            assert_eq!(
                left(&bytes, &header(&SUBJECT, INODE), SUBJECT.size),
                (0, Left::default()),
                "byte {at}"
            );
        }
        for length in 0..bytes.len() {
            assert_eq!(
                left(&bytes[..length], &header(&SUBJECT, INODE), SUBJECT.size),
                (0, Left::default()),
                "{length} bytes"
            );
        }
    }
}
