//! Name of a stored file, from the name that a sender suggests. The sender may be hostile: the
//! result is one component of a path, is visible, and prints as what it is.

/// Names of devices on Windows, whatever follows their first dot.
const DEVICES: [&str; 4] = ["con", "prn", "aux", "nul"];
/// Prefixes of names of devices on Windows, with a digit after them.
const NUMBERED_DEVICES: [&str; 2] = ["com", "lpt"];

/// Returns a name that is safe as a file name, at most a byte longer than `suggested`. `None` if
/// nothing is left of it.
pub(crate) fn stored_name(suggested: &str) -> Option<String> {
    let component = suggested.rsplit(['/', '\\']).next().unwrap_or_default();
    let clean: String = component.chars().map(|c| if is_forbidden(c) { '_' } else { c }).collect();
    let trimmed = clean.trim_matches(|c: char| c == '.' || c.is_whitespace());
    if trimmed.is_empty() {
        return None;
    }
    let is_option = trimmed.starts_with('-');
    Some(if is_option || is_device(trimmed) { format!("_{trimmed}") } else { trimmed.to_owned() })
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
    use rand::rngs::StdRng;
    use rand::{RngExt as _, SeedableRng as _};

    use super::*;

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
        let mut rng = StdRng::seed_from_u64(7);
        for _ in 0..20_000 {
            let length = rng.random_range(0..12);
            let text: String = (0..length).map(|_| alphabet[rng.random_range(0..alphabet.len())]).collect();
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
