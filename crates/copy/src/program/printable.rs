//! Text of other users and hosts, for a terminal.

use std::borrow::Cow;
use std::path::Path;

/// Limit on the text of a peer, characters.
const MAX_CHARS: usize = 500;

/// Returns a path: other users choose names. That of a source without a name is empty.
pub(super) fn path(path: &Path) -> String {
    if path.as_os_str().is_empty() { ".".into() } else { escaped(&path.to_string_lossy()) }
}

/// Returns what a far shell has printed.
pub(super) fn bytes(bytes: &[u8]) -> String {
    short(&escaped(String::from_utf8_lossy(bytes).trim())).into_owned()
}

/// Returns the text, or its beginning and end: a client of `--serve` chooses it, and may send many.
pub(super) fn short(text: &str) -> Cow<'_, str> {
    let count = text.chars().count();
    if count <= MAX_CHARS {
        return text.into();
    }
    let kept = MAX_CHARS / 2;
    let begin = text.chars().take(kept);
    begin.chain("...".chars()).chain(text.chars().skip(count - kept)).collect::<String>().into()
}

/// Escapes control characters, and those that change the direction of the text around them.
pub(super) fn escaped(text: &str) -> String {
    let escape = |character: char| match character {
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => character.escape_default().to_string(),
        character if character.is_control() => character.escape_default().to_string(),
        character => character.to_string(),
    };
    text.chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut() {
        assert_eq!(short("path"), "path");
        let text = short(&format!("begin{}end", "\u{e4}".repeat(4000))).into_owned();
        assert_eq!(text.chars().count(), MAX_CHARS + 3);
        assert!(text.starts_with("begin") && text.ends_with("end") && text.contains("..."), "{text}");
    }

    #[test]
    fn far_text_has_no_control_characters() {
        assert_eq!(bytes(b"\x1b]0;title\x07Hi\xff\r\n"), "\\u{1b}]0;title\\u{7}Hi\u{fffd}");
    }
}
