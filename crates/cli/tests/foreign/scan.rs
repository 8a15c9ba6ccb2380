//! Parses lines by the printf formats of the reference programs.

/// Line of a fast retransmission.
pub(crate) const FAST: &str = "[%6.3f] --> %d (attempt %d of %d, RTO %.3f, timer expires @ %.3f, 3-dup ACK)";

/// Returns the fields of `line` if printf with `format` can print it; else `None`. Supports `%d`,
/// `%X`, `%s`, `%g` and `%f`, with width and precision.
pub(crate) fn scan<'a>(format: &str, line: &'a str) -> Option<Vec<&'a str>> {
    let mut fields = Vec::new();
    let (mut format, mut line) = (format, line);
    while let Some((literal, spec)) = format.split_once('%') {
        line = line.strip_prefix(literal)?;
        let end = spec.find(|c: char| c.is_ascii_alphabetic())?;
        let (size, kind) = (&spec[..end], spec.as_bytes()[end]);
        format = &spec[end + 1..];
        let (width, precision) = size.split_once('.').unwrap_or((size, "6"));
        let padding = line.len() - line.trim_start_matches(' ').len();
        let length = padding + field(kind, precision.parse().ok()?, &line[padding..], format)?;
        let width = width.parse().unwrap_or(0);
        if length < width || (padding > 0 && length != width) {
            return None;
        }
        fields.push(&line[padding..length]);
        line = &line[length..];
    }
    (line == format).then_some(fields)
}

/// Returns the length of the field at the start of `text`; `next` is the text after the field in
/// the format.
fn field(kind: u8, precision: usize, text: &str, next: &str) -> Option<usize> {
    let run = |text: &str, of: fn(char) -> bool| text.find(|c| !of(c)).unwrap_or(text.len());
    let sign = usize::from(text.starts_with('-'));
    let length = match kind {
        b'd' => sign + run(&text[sign..], |c| c.is_ascii_digit()),
        b'X' => run(text, |c| c.is_ascii_digit() || ('A'..='F').contains(&c)),
        b'g' => run(text, |c| c.is_ascii_digit() || "+-.e".contains(c)),
        b'f' => {
            let whole = sign + run(&text[sign..], |c| c.is_ascii_digit());
            let fraction =
                text[whole..].strip_prefix('.').map_or(0, |rest| 1 + run(rest, |c| c.is_ascii_digit()));
            let wanted = if precision == 0 { 0 } else { precision + 1 };
            if whole == sign || fraction != wanted {
                return None;
            }
            whole + fraction
        }
        b's' => match next.split('%').next() {
            Some(literal) if !literal.is_empty() => text.find(literal)?,
            _ => text.len(),
        },
        _ => return None,
    };
    (length > 0).then_some(length)
}

#[test]
fn formats_match_only_their_own_output() {
    let fits: [(&str, &str, &[&str]); 6] = [
        (
            "[%6.3f] <-- FIN-ACK %d window %X",
            "[ 0.120] <-- FIN-ACK 45 window FC19A074",
            &["0.120", "45", "FC19A074"],
        ),
        ("[%6.3f]", "[1234.500]", &["1234.500"]),
        ("[%3.0f] B %6d", "[  2] B   1433", &["2", "1433"]),
        ("loss %g / %g, link %.0f Mbps", "loss 1e-05 / 0.1, link 14 Mbps", &["1e-05", "0.1", "14"]),
        ("to %s in %.3f", "to localhost in 0.100", &["localhost", "0.100"]),
        ("done", "done", &[]),
    ];
    for (format, line, fields) in fits {
        assert_eq!(scan(format, line).as_deref(), Some(fields), "{format:?} {line:?}");
    }
    for (format, line) in [
        ("[%6.3f]", "[0.120]"),
        ("[%6.3f]", "[ 0.12]"),
        ("[%6.3f]", "[  0.120]"),
        ("%d", " 5"),
        ("%X", "5b0360d"),
        ("%.3f sec", "0.1234 sec"),
        ("%d", "5 "),
        ("%.0f", "14.0"),
    ] {
        assert_eq!(scan(format, line), None, "{format:?} {line:?}");
    }
}
