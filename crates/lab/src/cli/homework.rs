//! Homework: a student's program in the experiment of a course, and a seed that the teacher keeps
//! secret. Both become part of the experiment's text, so that its folder of results needs no other
//! file.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::failure::Failure;
use super::output;
use crate::cell::hex;
use crate::claim::Judgement;
use crate::experiment::Command;

/// Returns the text of an experiment with the client and the seed of the command line.
pub(super) fn given(
    name: &str,
    text: String,
    client: Option<&str>,
    seed_file: Option<&Path>,
) -> Result<String, Failure> {
    let mut text = text;
    if let Some(client) = client {
        if !text.lines().any(|line| table_of(line) == Some("command")) {
            return Err(Failure::Usage(format!(
                "{name} has no table [command], which --client needs: add it, or leave --client out"
            )));
        }
        // A JSON string is a TOML string too.
        let mut words = vec![("client", serde_json::Value::from(client).to_string())];
        words.push((Command::CLIENT_HASH, format!("\"{}\"", hash_of_files(client))));
        text = with_words(&text, "command", &words);
    }
    if let Some(file) = seed_file {
        text = with_words(&text, "design", &[("seed", seed(file)?.to_string())]);
    }
    Ok(text)
}

/// Returns the seed of a secret: the first 63 bits of the SHA-256 of a file.
fn seed(file: &Path) -> Result<u64, Failure> {
    let secret = fs::read(file).map_err(|error| Failure::Read(PathBuf::from(file), error))?;
    let digest = Sha256::digest(secret);
    let (first, _) = digest.split_first_chunk::<8>().unwrap_or((&[0; 8], &[]));
    // A TOML integer has 63 bits and a sign.
    Ok(u64::from_be_bytes(*first) >> 1)
}

/// Returns the hash of all files that a command line names, so that a changed program is another
/// cell.
fn hash_of_files(line: &str) -> String {
    let mut hash = Sha256::new();
    // A device such as /dev/zero may have no end.
    let files = line.split_whitespace().filter(|word| Path::new(word).is_file());
    files.filter_map(|file| fs::read(file).ok()).for_each(|bytes| hash.update(bytes));
    hex(&hash.finalize())
}

/// Returns the name of the table whose header a line of TOML is: `command` of `[command]  #
/// comment`. That of a table in an array is in brackets.
fn table_of(line: &str) -> Option<&str> {
    let header = line.split('#').next().unwrap_or_default().trim();
    let name = header.strip_prefix('[')?.strip_suffix(']')?.trim();
    (!name.contains(['=', ',', '"', '\''])).then_some(name)
}

/// Sets words of a table in a text of TOML, and replaces those that are there. Comments stay.
fn with_words(text: &str, table: &str, words: &[(&str, String)]) -> String {
    let new = words.iter().map(|(word, value)| format!("{word} = {value}\n")).collect::<Vec<_>>().concat();
    let (mut out, mut is_inside, mut is_set) = (String::new(), false, false);
    for line in text.lines() {
        let header = table_of(line);
        if let Some(name) = header {
            is_inside = name == table;
        }
        let key = line.split('=').next().unwrap_or_default().trim();
        if is_inside && words.iter().any(|(word, _)| *word == key) {
            continue;
        }
        out.push_str(line);
        out.push('\n');
        if header == Some(table) {
            out.push_str(&new);
            is_set = true;
        }
    }
    if !is_set {
        out.push_str(&["\n[", table, "]\n", &new].concat());
    }
    out
}

/// Returns the points reached and possible. `None` if no claim has points.
pub(super) fn points(judged: &[Judgement]) -> Option<(u32, u32)> {
    let sum = |of: fn(&Judgement) -> Option<u32>| judged.iter().filter_map(of).sum();
    judged.iter().any(|it| it.points.is_some()).then(|| (sum(Judgement::reached), sum(|it| it.points)))
}

/// Returns the table of points. Empty if no claim has points.
pub(super) fn table(judged: &[Judgement]) -> String {
    let Some((reached, possible)) = points(judged) else { return String::new() };
    let row = |name: &str, (reached, possible): (u32, u32), verdict: String| {
        vec![format!("  {name}"), format!("{reached} of {possible}"), verdict]
    };
    let with_points = judged.iter().filter_map(|it| it.reached().zip(it.points).map(|points| (it, points)));
    let mut rows = vec![vec!["  claim".to_owned(), "points".to_owned(), "verdict".to_owned()]];
    rows.extend(with_points.map(|(it, points)| row(&it.id, points, it.verdict.to_string())));
    rows.push(row("all", (reached, possible), String::new()));
    output::table(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_replace_those_of_their_table() {
        let text = "seed = 0\n[command]\nprogram = \"{client} x\"\nclient = \"./old\"\n[[claim]]\nclient = 1";
        let changed = with_words(text, "command", &[("client", "\"./new\"".to_owned())]);
        let wanted =
            "seed = 0\n[command]\nclient = \"./new\"\nprogram = \"{client} x\"\n[[claim]]\nclient = 1\n";
        assert_eq!(changed, wanted);
        assert!(with_words(text, "design", &[("seed", "7".to_owned())]).ends_with("\n[design]\nseed = 7\n"));
    }

    #[test]
    fn headers_with_spaces_and_comments_are_found() {
        let text = "[ command ]  # of students\nlist = [\n  [1],\n  ['x']\n]\nclient = 'old'\n";
        let changed = with_words(text, "command", &[("client", "'new'".to_owned())]);
        assert_eq!(changed, "[ command ]  # of students\nclient = 'new'\nlist = [\n  [1],\n  ['x']\n]\n");
    }

    #[test]
    fn changed_clients_have_another_hash() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("client.py");
        let line = format!("python3 {} --fast", file.display());
        let of = |program: &str| {
            fs::write(&file, program).expect("a written file");
            hash_of_files(&line)
        };
        assert_ne!(of("one"), of("two"));
        assert_eq!(of("one"), of("one"));
    }

    #[test]
    fn seeds_come_from_the_whole_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let of = |secret: &str| {
            let file = folder.path().join("secret");
            fs::write(&file, secret).expect("a written file");
            seed(&file).expect("a seed")
        };
        assert_eq!(of("winter term"), of("winter term"));
        assert_ne!(of("winter term"), of("winter term\n"));
        assert!(of("x") < 1 << 63);
    }
}
