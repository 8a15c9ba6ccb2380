//! Names of files: that which a sender suggests, and that of the stored file. The sender may be
//! hostile: a stored name is one component of a path, is visible, and prints as what it is.

use std::net::SocketAddr;
use std::path::Path;

use rdt_transport::StreamName;

/// Longest end of a file name, with its dot, that is kept when the name is cut.
const MAX_EXTENSION: usize = 32;

/// Names of devices on Windows, whatever follows their first dot.
const DEVICES: [&str; 4] = ["con", "prn", "aux", "nul"];
/// Prefixes of names of devices on Windows, with a digit after them.
const NUMBERED_DEVICES: [&str; 2] = ["com", "lpt"];

/// Returns the name to suggest for the stream of a file, cut before its extension if it is too
/// long. `None` for a path without a name.
pub fn suggested_name(path: &Path) -> Option<StreamName> {
    let name = path.file_name()?.to_string_lossy();
    let (stem, extension) = match name.rfind('.') {
        Some(dot) if name.len() - dot <= MAX_EXTENSION => name.split_at(dot),
        _ => (&*name, ""),
    };
    let room = (StreamName::MAX_LEN - extension.len()).min(stem.len());
    let cut = (0..=room).rev().find(|at| stem.is_char_boundary(*at)).unwrap_or(0);
    StreamName::new(&format!("{}{extension}", &stem[..cut]))
}

/// Returns a safe file name, at most a byte longer than `suggested`, if something is left of it.
pub fn stored_name(suggested: &str) -> Option<String> {
    let component = suggested.rsplit(['/', '\\']).next().unwrap_or_default();
    let clean: String = component.chars().map(|c| if is_forbidden(c) { '_' } else { c }).collect();
    let trimmed = clean.trim_matches(|c: char| c == '.' || c.is_whitespace());
    if trimmed.is_empty() {
        return None;
    }
    let is_option = trimmed.starts_with('-');
    Some(if is_option || is_device(trimmed) { format!("_{trimmed}") } else { trimmed.to_owned() })
}

/// Returns the name for a stream whose sender suggests none: its address.
pub fn name_of_peer(peer: SocketAddr) -> String {
    let ip = peer.ip().to_canonical().to_string().replace(':', "_");
    format!("{ip}-{}.bin", peer.port())
}

/// Returns the name of the file with this number among those of the same name, from 1.
pub(super) fn numbered(name: &str, number: u32) -> String {
    match name.rsplit_once('.') {
        _ if number == 1 => name.to_owned(),
        Some((stem, extension)) if !stem.is_empty() => format!("{stem}-{number}.{extension}"),
        _ => format!("{name}-{number}"),
    }
}

/// True for control characters, those that no Windows file name may have, and those that are
/// invisible or change the direction of text.
fn is_forbidden(c: char) -> bool {
    c.is_control()
        || r#"<>:"|?*"#.contains(c)
        || matches!(c,
            '\u{AD}' | '\u{61C}' | '\u{180E}' | '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}' | '\u{FEFF}' | '\u{FFF9}'..='\u{FFFB}' | '\u{E0000}'..='\u{E007F}')
}

fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().trim_end().to_ascii_lowercase();
    let is_numbered =
        |prefix: &str| stem.strip_prefix(prefix).is_some_and(|rest| matches!(rest.as_bytes(), [b'0'..=b'9']));
    DEVICES.contains(&&*stem) || NUMBERED_DEVICES.into_iter().any(is_numbered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_name_keeps_extension() {
        let cut = |name: &str| suggested_name(Path::new(name)).map(|name| name.as_str().to_owned());
        assert_eq!(cut("folder/data.bin").as_deref(), Some("data.bin"));
        assert_eq!(cut(".."), None);
        assert_eq!(cut(&format!("{}.tar", "x".repeat(250))), Some(format!("{}.tar", "x".repeat(200))));
        assert_eq!(cut(&"é".repeat(127)), Some("é".repeat(102)));
        let dotted = format!("a.{}", "x".repeat(250));
        assert_eq!(cut(&dotted).map(|name| name.len()), Some(204));
    }

    #[test]
    fn hostile_names_become_plain_components() {
        for (suggested, stored) in [
            ("backup.tar", "backup.tar"),
            ("Größe der Höhle.txt", "Größe der Höhle.txt"),
            ("/etc/passwd", "passwd"),
            ("../../.ssh/authorized_keys", "authorized_keys"),
            (r"C:\Windows\system32\evil.dll", "evil.dll"),
            (r"..\evil", "evil"),
            (".bashrc", "bashrc"),
            (".rdt-partial-x", "rdt-partial-x"),
            ("  spaced .txt. ", "spaced .txt"),
            ("-rf", "_-rf"),
            ("a\nb\rc\td\0e\x1b[31m\x7f\u{9b}", "a_b_c_d_e_[31m__"),
            ("evil\u{202E}gpj.exe", "evil_gpj.exe"),
            ("zero\u{200B}width", "zero_width"),
            (r#"a<b>c:d"e|f?g*"#, "a_b_c_d_e_f_g_"),
            ("CON", "_CON"),
            ("nul.tar.gz", "_nul.tar.gz"),
            ("com1 .txt", "_com1 .txt"),
            ("com10", "com10"),
            ("lpt", "lpt"),
        ] {
            assert_eq!(stored_name(suggested).as_deref(), Some(stored), "{suggested:?}");
        }
        for nothing in ["", ".", "..", "...", "/", "a/", r"a\", " ", "a/..", "\u{3000}."] {
            assert_eq!(stored_name(nothing), None, "{nothing:?}");
        }
    }

    /// Random text of the characters that matter.
    #[test]
    fn any_text_becomes_visible_component() {
        let alphabet: Vec<char> = "ab.-_/\\ :\0\n\u{202E}\u{200B}é\u{E0041}con1".chars().collect();
        let mut random = rdt_testing::random(7);
        for _ in 0..20_000 {
            let length = random(12);
            let letter = |_| alphabet[usize::try_from(random(alphabet.len() as u64)).unwrap()];
            let text: String = (0..length).map(letter).collect();
            let Some(name) = stored_name(&text) else { continue };
            assert!(!name.is_empty() && name.len() <= text.len() + 1, "{text:?}");
            assert!(!name.starts_with(['.', '-', ' ']) && !name.ends_with(['.', ' ']), "{text:?}: {name:?}");
            assert!(!name.contains(['/', '\\', ':']) && !name.contains(is_forbidden), "{text:?}: {name:?}");
            assert_eq!(stored_name(&name), Some(name.clone()), "a safe name stays");
        }
    }

    #[test]
    fn number_goes_before_extension() {
        assert_eq!(["a.txt", "a.tar.gz", "a"].map(|name| numbered(name, 1)), ["a.txt", "a.tar.gz", "a"]);
        assert_eq!(
            ["a.txt", "a.tar.gz", "a"].map(|name| numbered(name, 2)),
            ["a-2.txt", "a.tar-2.gz", "a-2"]
        );
    }
}
