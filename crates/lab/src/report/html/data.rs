//! Texts that only the script of a page reads: tables of figures, raw results, experiments' files.
//! One block has all of them, compressed together, which is a quarter smaller than each alone.

use std::collections::BTreeMap;

use miniz_oxide::deflate::compress_to_vec_zlib;
use serde_json::Value;

/// Separates the fields of a column.
const SEPARATOR: &str = "|";
/// Field that differs from the one above as that one from its predecessor: times of bins and
/// numbers of repetitions, which deflate cannot see.
const CONTINUED: &str = "~";

/// Texts of a page by class, each once. Those of one class are neighbours in the block, where
/// deflate finds repetitions.
#[derive(Debug, Default)]
pub(super) struct Data(BTreeMap<&'static str, Vec<String>>);

impl Data {
    /// Returns a reference to a text, for the script, which knows the classes `csv` (table of a
    /// figure), `toml` (file of an experiment) and `raw` (table of raw results, which has a name).
    pub(super) fn refer(&mut self, class: &'static str, name: &str, text: &str) -> String {
        let texts = self.0.entry(class).or_default();
        let index = texts.iter().position(|it| it == text).unwrap_or(texts.len());
        if index == texts.len() {
            texts.push(text.to_owned());
        }
        let name = if name.is_empty() { String::new() } else { format!(" data-name={name}") };
        format!("<script type=\"text/plain\" class={class}{name} data-at={index}></script>\n")
    }

    /// Returns the block: a deflated object of JSON in base 85. A table is the list of its columns.
    pub(super) fn block(&self) -> String {
        let value = |text: &String| by_columns(text).map_or_else(|| Value::from(text.as_str()), Value::from);
        let of_class =
            self.0.iter().map(|(class, texts)| ((*class).to_owned(), texts.iter().map(value).collect()));
        let all = Value::Object(of_class.collect());
        let packed = base85(&compress_to_vec_zlib(all.to_string().as_bytes(), 9));
        format!("<script type=\"text/plain\" id=\"data\">{packed}</script>\n")
    }
}

/// Returns the columns of a table. `None` if the script could not join them again: the text is no
/// table of CSV with equally long rows, or a field contains a line break or [`SEPARATOR`], or is
/// [`CONTINUED`].
pub(super) fn by_columns(csv: &str) -> Option<Vec<String>> {
    if csv.contains(SEPARATOR) || csv.contains('\r') || !csv.ends_with('\n') {
        return None;
    }
    let mut columns: Vec<Vec<&str>> = Vec::new();
    for (i, line) in csv.lines().enumerate() {
        let mut quoted = false;
        let fields = line.split(|c| {
            quoted ^= c == '"';
            c == ',' && !quoted
        });
        let fields: Vec<&str> = fields.collect();
        if i == 0 {
            columns.resize(fields.len(), Vec::new());
        }
        if quoted || fields.len() != columns.len() || fields.contains(&CONTINUED) {
            return None;
        }
        columns.iter_mut().zip(fields).for_each(|(column, field)| column.push(field));
    }
    Some(columns.iter().map(|column| continued(column)).collect())
}

/// Returns the fields of a column with its head, with [`CONTINUED`] for numbers that continue it.
fn continued(column: &[&str]) -> String {
    let field = |(i, field): (usize, &&str)| {
        let next = if i > 2 { next_number(column[i - 2], column[i - 1]) } else { None };
        if next.as_deref() == Some(*field) { CONTINUED.to_owned() } else { (*field).to_owned() }
    };
    column.iter().enumerate().map(field).collect::<Vec<_>>().join(SEPARATOR)
}

/// Returns the number that continues two others, as the script computes and writes it. `None` for
/// numbers that the script would write with an exponent.
fn next_number(before: &str, last: &str) -> Option<String> {
    let (before, last): (f64, f64) = (before.parse().ok()?, last.parse().ok()?);
    let next = ((2.0 * last - before) * 1e9).round() / 1e9;
    (1e-6..1e15).contains(&next).then(|| next.to_string())
}

/// Returns bytes in base 85: each four bytes are five characters, a sixteenth less than in base64.
/// The digits are the characters from `#` on, but `z` for `<`, which could end a block of the page.
pub(super) fn base85(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(4) * 5);
    for group in bytes.chunks(4) {
        let mut word = [0; 4];
        word[..group.len()].copy_from_slice(group);
        let word = u32::from_be_bytes(word);
        // As many digits as bytes and one more tell the bytes of the last group.
        for power in [4, 3, 2, 1, 0].into_iter().take(group.len() + 1) {
            let digit = u8::try_from(word / 85_u32.pow(power) % 85).unwrap_or(0);
            out.push(if digit == b'<' - b'#' { 'z' } else { char::from(b'#' + digit) });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_of_a_class_have_one_reference() {
        let mut data = Data::default();
        let mut at = |kind, text| {
            let reference = data.refer(kind, "", text);
            reference.split("data-at=").nth(1).expect("an index").starts_with('0')
        };
        assert!(at("csv", "a") && at("toml", "a") && at("csv", "a"));
        assert!(!at("csv", "b"));
    }

    #[test]
    fn columns_of_equal_steps_become_marks() {
        let columns = by_columns("x,y,n\n0.1,5,\n0.2,5,\n0.3,4,\n0.4,3,\n0.6,9,\n").expect("a table");
        assert_eq!(columns, ["x|0.1|0.2|~|~|0.6", "y|5|5|4|~|9", "n|||||"]);
        for text in ["x\n~\n", "x|y\n", "x\r\n", "x", "", "x,y\n1\n", "x\n\"two\nlines\"\n"] {
            assert_eq!(by_columns(text), None, "{text}");
        }
    }

    #[test]
    fn bytes_become_base85() {
        let group = |word: u32| base85(&word.to_be_bytes());
        assert_eq!([group(0), group(84), group(85), group(25)], ["#####", "####w", "###$#", "####z"]);
        assert_eq!(base85(&[0, 0, 0, 0, 0]), "#######");
        let every: Vec<u8> = (0..=255).collect();
        assert!(base85(&every).len() == 320 && !base85(&every).contains('<'));
    }
}
