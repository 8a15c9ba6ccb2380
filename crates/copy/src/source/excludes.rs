//! Names that are left out, by lines of a `.gitignore`.

use std::ffi::OsStr;

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::protocol::MAX_EXCLUDES;
use crate::{CopyError, SourceOptions};

/// Compiles the lines of `--exclude`. One that can match nothing is refused: what it was meant for
/// would be copied.
pub(crate) fn excludes(options: &SourceOptions) -> Result<Gitignore, CopyError> {
    let mut builder = GitignoreBuilder::new("");
    if options.excludes.len() > MAX_EXCLUDES {
        return Err(CopyError::Request(format!("more than {MAX_EXCLUDES} patterns to exclude")));
    }
    let bad = |line: &str, why: &str| CopyError::Request(format!("pattern '{line}' to exclude {why}"));
    for (at, line) in options.excludes.iter().enumerate() {
        if let Some(why) = useless(line, at == 0) {
            return Err(bad(line, why));
        }
        builder.add_line(None, line).map_err(|error| bad(line, &format!("is wrong: {error}")))?;
    }
    builder.build().map_err(|error| bad("", &format!("is wrong: {error}")))
}

/// Returns why a line can match no name.
fn useless(line: &str, is_first: bool) -> Option<&'static str> {
    // A blank at the end counts only behind a backslash.
    let line = if line.ends_with("\\ ") { line } else { line.trim_end() };
    if line.starts_with('#') {
        return Some("matches nothing: it is a comment. A name that begins with # is \\#NAME");
    }
    let pattern = match line.strip_prefix('!') {
        Some(_) if is_first => {
            return Some(
                "matches nothing: it takes back an earlier one. A name that begins with ! is \\!NAME",
            );
        }
        Some(pattern) => pattern,
        None => line,
    };
    if pattern.trim_matches('/').is_empty() {
        return Some("matches nothing: it has no name");
    }
    let path = pattern.strip_prefix('/').unwrap_or(pattern);
    let path = path.strip_suffix('/').unwrap_or(path);
    let has_no_name = path.split('/').any(|component| matches!(component, "" | "." | ".."));
    has_no_name.then_some("matches nothing: paths begin inside of each source, and have no '.', '..' or '//'")
}

/// Returns true for a source that is left out by its name. A pattern that begins with `/` is for
/// names inside of sources.
pub(crate) fn is_excluded_source(excludes: &Gitignore, name: &OsStr, is_directory: bool) -> bool {
    let found = excludes.matched(name, is_directory);
    found.is_ignore() && found.inner().is_some_and(|glob| !glob.original().starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_that_match_nothing_are_named() {
        for line in [
            "", " ", "\t", "/", "//", "#notes", "!keep", "./build", "/./build", "a/./b", "a/../b", "../x",
            "a//b", "build/.", "..", ".",
        ] {
            let options = SourceOptions { excludes: vec![line.into()], ..SourceOptions::default() };
            let error = excludes(&options).unwrap_err().to_string();
            assert!(error.contains(&format!("'{line}'")) && error.contains("nothing"), "{line}: {error}");
        }
        for line in ["a", "*.o", "target/", "/a/b", "a/**/b", "**", "\\#notes", "\\!x", "...", ".git", "a\\ "]
        {
            assert_eq!(useless(line, true), None, "{line}");
        }
        assert_eq!(useless("!keep", false), None);
    }

    /// The crate must not find what this module calls useless.
    #[test]
    fn useless_patterns_match_nothing() {
        for line in ["./build", "a/./b", "a//b", "build/.", "../x"] {
            let mut builder = GitignoreBuilder::new("");
            builder.add_line(None, line).unwrap();
            let found = builder.build().unwrap();
            for name in ["build", "a/b", "x", "a", "b"] {
                for is_directory in [false, true] {
                    assert!(!found.matched(name, is_directory).is_ignore(), "{line} {name}");
                }
            }
        }
    }
}
