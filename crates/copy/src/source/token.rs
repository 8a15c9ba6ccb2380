//! Identity of a file's contents: which file, and when it was last changed.

use rustix::fs::Stat;

use crate::directory::{device, inode};
use crate::protocol::Token;

/// Returns a token that changes when the file is written to or replaced. It tells the peer nothing
/// but whether that happened.
#[expect(clippy::unnecessary_cast, reason = "other systems have other types")]
pub(crate) fn token(stat: &Stat) -> Token {
    let mut hasher = blake3::Hasher::new_derive_key("rdt-copy 1 source token");
    let numbers = [
        device(stat).to_le_bytes(),
        inode(stat).to_le_bytes(),
        (stat.st_size as i64).to_le_bytes(),
        (stat.st_mtime as i64).to_le_bytes(),
        (stat.st_mtime_nsec as u64).to_le_bytes(),
        (stat.st_ctime as i64).to_le_bytes(),
        (stat.st_ctime_nsec as u64).to_le_bytes(),
    ];
    hasher.update(numbers.as_flattened());
    let mut token = Token::default();
    hasher.finalize_xof().fill(&mut token);
    token
}
