//! A secret that both sides share: one line, base32 of 16 random bytes or more.

use std::path::Path;

use rdt_crypto::{Entropy, SharedSecret, base32};
use zeroize::Zeroizing;

use crate::lines::read_only_line;
use crate::{FileError, LineError, files};

/// Random bytes of a secret that this module makes.
const SECRET_BYTES: usize = 32;

/// Reads the secret of a file. Passphrases are refused, as far as they are no base32 or too short:
/// a recorded handshake lets anybody test guesses.
///
/// # Errors
/// [`FileError`]: the file is missing, exposed, a link, or not a secret.
pub fn load_secret(path: &Path) -> Result<SharedSecret, FileError> {
    let expected = "one line: a secret in base32";
    read_only_line(path, expected, |words| {
        let [word] = words else { return Err(LineError::Fields(expected)) };
        let bytes = Zeroizing::new(base32::decode(word)?);
        Ok(SharedSecret::new(&bytes)?)
    })
}

/// Makes a file with a fresh secret of 32 bytes, mode 0600, and returns the secret.
///
/// # Errors
/// [`FileError::Exists`], and if the file cannot be made.
pub fn create_secret(path: &Path, entropy: &mut Entropy) -> Result<SharedSecret, FileError> {
    let bytes = Zeroizing::new(entropy.array::<SECRET_BYTES>());
    let line = Zeroizing::new(base32::encode(&*bytes) + "\n");
    if !files::create(path, &line, entropy)? {
        return Err(FileError::Exists(path.to_owned()));
    }
    Ok(SharedSecret::from_array(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::tests::{entropy, file, sentence};

    #[test]
    fn made_secret_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret");
        let secret = create_secret(&path, &mut entropy()).unwrap();
        assert_eq!(load_secret(&path).unwrap(), secret);
        assert_eq!(secret.as_bytes().len(), 32);
        let expected = "secret exists: a secret is not overwritten, delete it first";
        assert_eq!(sentence(create_secret(&path, &mut Entropy::from_seed([2; 32])), &path), expected);
        assert_eq!(load_secret(&path).unwrap(), secret);
    }

    #[test]
    fn weak_and_wrong_secrets_are_refused() {
        let refused = |text, expected: &str| {
            let (_folder, path) = file("secret", text, 0o600);
            assert_eq!(sentence(load_secret(&path), &path), expected);
        };
        refused("", "secret, line 1: expected one line: a secret in base32");
        let repeats = "secret, line 1: a secret of one repeated byte; it needs at least 16 random bytes";
        refused("aaaaaaaaaaaaaaaaaaaaaaaaaa", repeats);
        refused("two words", "secret, line 1: expected one line: a secret in base32");
        refused("mysecret", "secret, line 1: a secret of 5 bytes; it needs at least 16 random bytes");
        refused("Tr0ub4dor", "secret, line 1: no base32: character 3 is '0'; allowed are a to z and 2 to 7");
        refused("# made by\naaaaaaaa\nbbbbbbbb", "secret, line 3: expected nothing after the first line");
    }

    #[cfg(unix)]
    #[test]
    fn exposed_secret_is_refused() {
        let (_folder, path) = file("secret", &"a".repeat(26), 0o604);
        let expected = "secret: group or others have access to it (mode 604): run chmod 600 secret";
        assert_eq!(sentence(load_secret(&path), &path), expected);
        let (_folder, path) = file("secret", &"ba".repeat(13), 0o400);
        assert_eq!(load_secret(&path).unwrap().as_bytes().len(), 16);
    }
}
