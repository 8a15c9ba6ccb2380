//! Base32 text of keys, secrets and tickets: RFC 4648, section 6, in lower case without padding.

/// Digits in the order of their values.
const DIGITS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// Error of a text that is not base32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Base32Error {
    /// Character outside of the alphabet.
    #[error("character {position} is {found:?}; allowed are a to z and 2 to 7")]
    Character {
        /// Position in the text, counted in characters from 1.
        position: usize,
        /// Character at this position.
        found: char,
    },
    /// Text that cannot be the result of [`encode`]: a character is missing, or bits that belong to
    /// no byte are not zero.
    #[error("the last character is wrong or missing")]
    End,
}

/// Returns the text of `bytes`: 8 characters for each 5 bytes, rounded up.
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(5) * 8);
    for chunk in bytes.chunks(5) {
        let mut bits = [0; 8];
        bits[3..3 + chunk.len()].copy_from_slice(chunk);
        let bits = u64::from_be_bytes(bits);
        let digits = (chunk.len() * 8).div_ceil(5);
        text.extend((0..digits).map(|i| char::from(DIGITS[(bits >> (35 - 5 * i) & 31) as usize])));
    }
    text
}

/// Returns the bytes of a text. Upper case counts as lower case. Each byte string has one text
/// besides that: other texts are refused.
///
/// # Errors
/// [`Base32Error`], with the place.
pub fn decode(text: &str) -> Result<Vec<u8>, Base32Error> {
    let mut bytes = Vec::with_capacity(text.len() / 8 * 5 + 5);
    let (mut bits, mut held) = (0_u32, 0);
    for (i, found) in text.chars().enumerate() {
        let digit = match found.to_ascii_lowercase() {
            letter @ 'a'..='z' => letter as u32 - 'a' as u32,
            number @ '2'..='7' => number as u32 - '2' as u32 + 26,
            _ => return Err(Base32Error::Character { position: i + 1, found }),
        };
        bits = bits << 5 | digit;
        held += 5;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held & 0xff) as u8);
            bits &= (1 << held) - 1;
        }
    }
    if held >= 5 || bits != 0 { Err(Base32Error::End) } else { Ok(bytes) }
}

#[cfg(test)]
mod tests {
    use rdt_testing::Numbers;

    use super::*;

    /// RFC 4648, section 10.
    #[test]
    fn rfc_vectors_are_met() {
        let texts = ["", "my", "mzxq", "mzxw6", "mzxw6yq", "mzxw6ytb", "mzxw6ytboi"];
        for (length, text) in texts.into_iter().enumerate() {
            assert_eq!(encode(&b"foobar"[..length]), text);
            assert_eq!(decode(text).unwrap(), &b"foobar"[..length]);
            assert_eq!(decode(&text.to_uppercase()).unwrap(), &b"foobar"[..length]);
        }
    }

    #[test]
    fn random_bytes_return() {
        let mut numbers = Numbers::new(5);
        for length in 0..100 {
            let bytes: Vec<u8> = (0..length).map(|_| u8::try_from(numbers.below(256)).unwrap()).collect();
            assert_eq!(decode(&encode(&bytes)).unwrap(), bytes);
        }
    }

    /// All texts of up to three characters: whatever is taken is the text of its bytes.
    #[test]
    fn other_texts_are_refused() {
        let digits = || DIGITS.iter().map(|&digit| char::from(digit));
        let pairs = digits().flat_map(|a| digits().map(move |b| format!("{a}{b}")));
        let triples = pairs.clone().flat_map(|pair| digits().map(move |c| format!("{pair}{c}")));
        for text in digits().map(String::from).chain(pairs).chain(triples) {
            match decode(&text) {
                Ok(bytes) => assert_eq!(encode(&bytes), text),
                Err(error) => assert_eq!(error, Base32Error::End, "{text}"),
            }
        }
    }

    #[test]
    fn errors_name_the_place() {
        let error = |text| decode(text).unwrap_err().to_string();
        assert_eq!(error("my1"), "character 3 is '1'; allowed are a to z and 2 to 7");
        assert_eq!(error("äb"), "character 1 is 'ä'; allowed are a to z and 2 to 7");
        assert_eq!(error("m y"), "character 2 is ' '; allowed are a to z and 2 to 7");
        assert_eq!(error("mz"), "the last character is wrong or missing");
        assert_eq!(error("m"), "the last character is wrong or missing");
    }
}
