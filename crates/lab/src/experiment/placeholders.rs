//! Placeholders in command lines: `{word}` stands for the value of a word. Other braces stay.
#![cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "commands run on Linux only"))]

/// Returns the names of the placeholders of a line.
pub(crate) fn names(line: &str) -> Vec<&str> {
    pieces(line).into_iter().filter_map(|(_, name)| name).collect()
}

/// Replaces the placeholders by their values. The error is the first one without a value.
pub(crate) fn fill(line: &str, value: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let piece = |(text, name): (&str, Option<&str>)| {
        let value = name.map_or(Ok(String::new()), |name| value(name).ok_or_else(|| name.to_owned()));
        Ok(text.to_owned() + &value?)
    };
    pieces(line).into_iter().map(piece).collect()
}

/// Splits a line after its placeholders: words of small letters, digits and hyphens in braces,
/// without a `$` before them, which is a variable of the shell. Returns each piece as the text
/// before the placeholder and its name.
fn pieces(line: &str) -> Vec<(&str, Option<&str>)> {
    let mut pieces = Vec::new();
    let (mut start, mut from) = (0, 0);
    while let Some(open) = line[from..].find('{').map(|at| at + from) {
        from = open + 1;
        let Some(close) = line[from..].find('}').map(|at| at + from) else { break };
        let name = &line[from..close];
        let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if !name.starts_with(|c: char| c.is_ascii_lowercase())
            || !name.chars().all(is_word)
            || line[..open].ends_with('$')
        {
            continue;
        }
        pieces.push((&line[start..open], Some(name)));
        (start, from) = (close + 1, close + 1);
    }
    pieces.push((&line[start..], None));
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_words_in_braces_are_placeholders() {
        let line = "{client} ${var} {a{b-2}} awk '{print $1}' {} {A} {";
        assert_eq!(names(line), ["client", "b-2"]);
        let filled = fill(line, |name| Some(format!("<{name}>")));
        assert_eq!(filled.as_deref(), Ok("<client> ${var} {a<b-2>} awk '{print $1}' {} {A} {"));
        assert_eq!(fill("x {no}", |_| None), Err("no".to_owned()));
    }
}
