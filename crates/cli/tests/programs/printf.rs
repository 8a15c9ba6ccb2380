//! Parses lines by C printf formats.

use std::iter::Peekable;
use std::str::Chars;

/// Returns the values in `line` if printf with `format` can print exactly this line, with all
/// widths and precisions; else `None`. Supports `%d`, `%f`, `%g`, `%X` and `%s`. A `%s` extends to
/// the next text of the format.
pub(super) fn values(format: &str, line: &str) -> Option<Vec<String>> {
    let mut format = format.chars().peekable();
    let mut rest = line;
    let mut values = Vec::new();
    while let Some(c) = format.next() {
        if c != '%' {
            rest = rest.strip_prefix(c)?;
            continue;
        }
        let width = digits(&mut format).unwrap_or(0);
        let precision = format.next_if_eq(&'.').and_then(|_| digits(&mut format));
        let conversion = format.next()?;
        let padding = rest.len() - rest.trim_start_matches(' ').len();
        let field = &rest[padding..];
        let end = match conversion {
            's' => format.peek().map_or(Some(field.len()), |next| field.find(*next))?,
            _ => field.find(|c| !belongs(conversion, c)).unwrap_or(field.len()),
        };
        let value = &field[..end];
        let padded = padding == width.saturating_sub(end);
        if !padded || !is_printed(conversion, precision, value) {
            return None;
        }
        values.push(value.to_string());
        rest = &field[end..];
    }
    rest.is_empty().then_some(values)
}

fn digits(format: &mut Peekable<Chars<'_>>) -> Option<usize> {
    let mut number = None;
    while let Some(digit) = format.peek().and_then(|c| c.to_digit(10)) {
        format.next();
        number = Some(number.unwrap_or(0) * 10 + digit as usize);
    }
    number
}

fn belongs(conversion: char, c: char) -> bool {
    match conversion {
        'd' => c.is_ascii_digit(),
        'f' => c.is_ascii_digit() || c == '.',
        'g' => c.is_ascii_digit() || ".e+-".contains(c),
        'X' => c.is_ascii_digit() || ('A'..='F').contains(&c),
        other => panic!("no such conversion: %{other}"),
    }
}

fn is_printed(conversion: char, precision: Option<usize>, value: &str) -> bool {
    let no_zeros_before = value == "0" || !value.starts_with('0');
    match conversion {
        's' => !value.is_empty(),
        'd' | 'X' => !value.is_empty() && no_zeros_before,
        'f' => {
            let decimals = value.split_once('.').map_or(0, |(_, decimals)| decimals.len());
            value.parse::<f64>().is_ok() && decimals == precision.unwrap_or(6) && !value.ends_with('.')
        }
        _ => value.parse::<f64>().is_ok(),
    }
}

#[test]
fn fields_match_width_and_precision() {
    let read = |format, line| values(format, line).map(|values| values.join(" "));
    assert_eq!(read("[%6.3f] --> %d", "[ 1.250] --> 7"), Some("1.250 7".into()));
    assert_eq!(read("[%3.0f] W %X", "[  2] W 5B0360D"), Some("2 5B0360D".into()));
    assert_eq!(read("to %s in %.3f sec", "to [::1]:7 in 0.100 sec"), Some("[::1]:7 0.100".into()));
    for (format, line) in [
        ("[%6.3f]", "[1.250]"),
        ("[%6.3f]", "[  1.250]"),
        ("%.2f", "1.234"),
        ("%.2f", "inf"),
        ("%.2f", "NaN"),
        ("%.0f", "2."),
        ("%X", "0D"),
        ("%X", "5b0360d"),
        ("%d", "1.5"),
        ("%d", "1 "),
    ] {
        assert_eq!(read(format, line), None, "{format} does not print '{line}'");
    }
}
