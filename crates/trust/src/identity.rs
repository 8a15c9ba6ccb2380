//! Private key of this side: one line `rdt-secret-1` and 52 characters of base32.

use std::io;
use std::path::Path;

use rdt_crypto::{Entropy, KeyError, StaticKey, base32};
use zeroize::Zeroizing;

use crate::lines::read_only_line;
use crate::{FileError, LineError, files};

/// First word of the line. The number changes with the kind of key.
const KIND: &str = "rdt-secret-1";
const FIELDS: &str = "one line: rdt-secret-1 and a key";

/// Reads the private key of a file.
///
/// # Errors
/// [`FileError`]: the file is missing, exposed, a link, or not an identity.
pub fn load_identity(path: &Path) -> Result<StaticKey, FileError> {
    read_only_line(path, FIELDS, parse)
}

/// Reads the private key of a file, and makes the file first if it is missing. The second value is
/// true if it was made. Programs that start at the same time get the same key.
///
/// # Errors
/// As [`load_identity`], and if the file cannot be made.
pub fn load_or_create_identity(path: &Path, entropy: &mut Entropy) -> Result<(StaticKey, bool), FileError> {
    match load_identity(path) {
        Err(FileError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
        result => return result.map(|key| (key, false)),
    }
    let key = StaticKey::generate(entropy);
    let text = Zeroizing::new(base32::encode(&*key.to_bytes()));
    let line = Zeroizing::new(format!("{KIND} {}\n", *text));
    // Another program may have made the file meanwhile: its key counts.
    let made = files::create(path, &line, entropy)?;
    Ok(if made { (key, true) } else { (load_identity(path)?, false) })
}

fn parse(words: &[&str]) -> Result<StaticKey, LineError> {
    let &[kind, key] = words else { return Err(LineError::Fields(FIELDS)) };
    if kind != KIND {
        return Err(LineError::Kind { found: kind.to_owned(), expected: KIND });
    }
    let bytes = Zeroizing::new(base32::decode(key)?);
    let length = KeyError::Length { found: bytes.len(), expected: 32 };
    let key = bytes.as_slice().try_into().map_err(|_| length)?;
    Ok(StaticKey::from_bytes(key))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Barrier;

    use super::*;
    use crate::files::tests::{entropy, file, sentence};

    fn assert_refused(text: &str, expected: &str) {
        let (_folder, path) = file("identity", text, 0o600);
        assert_eq!(sentence(load_identity(&path), &path), expected);
        let before = fs::read(&path).unwrap();
        assert_eq!(sentence(load_or_create_identity(&path, &mut entropy()), &path), expected);
        assert_eq!(fs::read(&path).unwrap(), before, "a file that cannot be read is not replaced");
    }

    #[test]
    fn identity_is_made_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rdt").join("identity");
        let missing = sentence(load_identity(&path), &path);
        assert!(missing.starts_with("cannot open identity: "), "{missing}");
        let (key, made) = load_or_create_identity(&path, &mut entropy()).unwrap();
        assert!(made);
        let (again, made) = load_or_create_identity(&path, &mut Entropy::from_seed([2; 32])).unwrap();
        assert!(!made);
        assert_eq!(again.public(), key.public());
        assert_eq!(load_identity(&path).unwrap().public(), key.public());
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.len(), KIND.len() + 1 + 52 + 1);
        assert!(text.starts_with("rdt-secret-1 "));
    }

    #[test]
    fn simultaneous_starts_get_one_key() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("identity");
        let barrier = Barrier::new(8);
        let keys: Vec<_> = std::thread::scope(|scope| {
            let start = |seed| {
                let (path, barrier) = (&path, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    load_or_create_identity(path, &mut Entropy::from_seed([seed; 32])).unwrap()
                })
            };
            let threads: Vec<_> = (0..8).map(start).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(keys.iter().filter(|(_, made)| *made).count(), 1);
        assert!(keys.iter().all(|(key, _)| key.public() == keys[0].0.public()));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary files");
    }

    #[test]
    fn other_texts_are_refused() {
        let key = "a".repeat(52);
        assert_refused("", "identity, line 1: expected one line: rdt-secret-1 and a key");
        assert_refused("# comment\n\n", "identity, line 2: expected one line: rdt-secret-1 and a key");
        assert_refused("rdt-secret-1\n", "identity, line 1: expected one line: rdt-secret-1 and a key");
        assert_refused(
            &format!("rdt-secret-2 {key}"),
            "identity, line 1: \"rdt-secret-2\" where rdt-secret-1 belongs",
        );
        assert_refused(
            &format!("\nrdt-secret-1 {}", &key[..48]),
            "identity, line 2: 30 bytes where a key has 32: is the text complete?",
        );
        assert_refused(
            "rdt-secret-1 abc!",
            "identity, line 1: no base32: character 4 is '!'; allowed are a to z and 2 to 7",
        );
        assert_refused(
            &format!("rdt-secret-1 {key}\nrdt-secret-1 {key}\n"),
            "identity, line 2: expected nothing after the first line",
        );
    }

    #[cfg(unix)]
    #[test]
    fn exposed_identity_is_refused() {
        use crate::files::tests::set_mode;

        let (_folder, path) = file("identity", &format!("rdt-secret-1 {}", "a".repeat(52)), 0o600);
        load_identity(&path).unwrap();
        set_mode(&path, 0o640);
        let expected = "identity: group or others have access to it (mode 640): run chmod 600 identity";
        assert_eq!(sentence(load_or_create_identity(&path, &mut entropy()), &path), expected);
        let link = path.with_file_name("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let expected = "link is a symbolic link: name the file itself";
        assert_eq!(sentence(load_or_create_identity(&link, &mut entropy()), &link), expected);
    }
}
