//! Wildcards in the sources of a pull: `*`, `?` and `[...]`, expanded where the files are, as a
//! shell there would do it.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};
use rustix::fs::Dir;

use super::top::SourcePath;
use crate::directory::{Directory, RootDirectory};
use crate::name::is_marker;
use crate::protocol::MAX_SOURCES;

/// Limit on directories that are listed for one pattern. A link to its own directory gives a short
/// pattern paths without end.
const MAX_LISTED: usize = 65_536;

/// Component of a path with wildcards.
#[derive(Debug)]
pub(crate) struct Wildcard {
    matcher: GlobMatcher,
    /// True: it names the leading dot of hidden names.
    has_dot: bool,
}

impl Wildcard {
    /// Returns `None` for a component without wildcards, or with a bracket that is not closed: it
    /// is a plain name.
    pub(crate) fn of(component: &[u8]) -> Option<Self> {
        component.iter().find(|byte| b"*?[".contains(byte))?;
        let text = std::str::from_utf8(component).ok()?;
        // Braces are a shell's alone.
        let text = text.replace('{', "[{]").replace('}', "[}]");
        let glob = GlobBuilder::new(&text).literal_separator(true).backslash_escape(true).build().ok()?;
        Some(Self {
            matcher: glob.compile_matcher(),
            has_dot: text.trim_start_matches('\\').starts_with('.'),
        })
    }

    pub(crate) fn matches(&self, name: &[u8]) -> bool {
        (self.has_dot || !name.starts_with(b".")) && self.matcher.is_match(OsStr::from_bytes(name))
    }
}

/// Returns true if a component of the path has wildcards.
pub(crate) fn is_pattern(path: &Path) -> bool {
    components(path).any(|component| Wildcard::of(component).is_some())
}

/// Component of a pattern.
enum Part<'a> {
    Name(&'a [u8]),
    Wildcard(Wildcard),
}

/// Search for the paths that a pattern matches.
pub(super) struct Search<'a> {
    root: &'a RootDirectory,
    /// True: matches are directories alone, because the pattern ends with `/` or `/.`.
    is_of_directories: bool,
    listed: usize,
    found: Vec<PathBuf>,
}

impl Search<'_> {
    /// Returns the paths in the order of their names. As in a shell, a pattern without a match is
    /// the name of a file, if there is one.
    ///
    /// # Errors
    /// If nothing is found, or too much.
    pub(super) fn run(root: &RootDirectory, pattern: &Path) -> io::Result<Vec<PathBuf>> {
        let SourcePath { is_contents, has_slash, .. } = SourcePath::of(pattern);
        let is_of_directories = is_contents || has_slash;
        let mut search = Search { root, is_of_directories, listed: 0, found: Vec::new() };
        let base = if pattern.has_root() { "/" } else { "" };
        let part = |name| Wildcard::of(name).map_or(Part::Name(name), Part::Wildcard);
        let parts: Vec<_> = components(pattern).map(part).collect();
        search.step(Path::new(base), &parts)?;
        if search.found.is_empty() && search.is_there(pattern) {
            search.found.push(pattern.into());
        }
        if search.found.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "no name matches"));
        }
        let end = match (is_contents, has_slash) {
            (true, _) => "/.",
            (_, true) => "/",
            _ => return Ok(search.found),
        };
        let with_end = |path: PathBuf| [path.as_os_str().as_bytes(), end.as_bytes()].concat();
        Ok(search.found.into_iter().map(|path| PathBuf::from(OsStr::from_bytes(&with_end(path)))).collect())
    }

    fn step(&mut self, base: &Path, parts: &[Part<'_>]) -> io::Result<()> {
        let mut path = base.to_owned();
        for (at, part) in parts.iter().enumerate() {
            match part {
                Part::Name(name) => path.push(OsStr::from_bytes(name)),
                Part::Wildcard(wildcard) => {
                    let mut names = self.names(&path, wildcard)?.into_iter();
                    return names.try_for_each(|name| {
                        self.step(&path.join(OsStr::from_bytes(&name)), &parts[at + 1..])
                    });
                }
            }
        }
        self.end(path, parts.is_empty())
    }

    /// Adds a path if it exists. That of a listed name does.
    fn end(&mut self, path: PathBuf, is_listed: bool) -> io::Result<()> {
        if (is_listed && !self.is_of_directories) || self.is_there(&path) {
            if self.found.len() == MAX_SOURCES {
                let text = format!("more than {MAX_SOURCES} names match: name their directory");
                return Err(io::Error::other(text));
            }
            self.found.push(path);
        }
        Ok(())
    }

    /// Returns the names in a directory that match. One that cannot be listed has none, as in a
    /// shell.
    fn names(&mut self, directory: &Path, wildcard: &Wildcard) -> io::Result<Vec<Vec<u8>>> {
        self.listed += 1;
        if self.listed > MAX_LISTED {
            let text = format!("its wildcards lead to more than {MAX_LISTED} directories");
            return Err(io::Error::other(text));
        }
        let list = self.root.open_directory(directory).and_then(|handle| Ok(Dir::new(handle)?));
        let mut names = Vec::new();
        for entry in list.into_iter().flatten().map_while(Result::ok) {
            let name = entry.file_name().to_bytes();
            if !matches!(name, b"." | b"..") && !is_marker(name) && wildcard.matches(name) {
                names.push(name.to_vec());
            }
        }
        names.sort();
        Ok(names)
    }

    fn is_there(&self, path: &Path) -> bool {
        if self.is_of_directories {
            return self.root.open_directory(path).is_ok();
        }
        let SourcePath { parent, name, .. } = SourcePath::of(path);
        let parent = self.root.open_directory(parent);
        let parent = parent.and_then(|parent| Directory::top(parent, path.into(), self.root.links(false)));
        parent.is_ok_and(|parent| parent.stat_name(name).is_ok())
    }
}

/// Returns the components, without those that name the directory itself.
fn components(path: &Path) -> impl Iterator<Item = &[u8]> {
    path.as_os_str().as_bytes().split(|byte| *byte == b'/').filter(|it| !matches!(*it, b"" | b"."))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::{Permission, Root};

    fn matches(pattern: &str, name: &str) -> bool {
        Wildcard::of(pattern.as_bytes()).unwrap().matches(name.as_bytes())
    }

    #[test]
    fn names_match_as_in_shell() {
        for (pattern, name, expected) in [
            ("*.jpg", "a.jpg", true),
            ("*.jpg", ".jpg", false),
            ("*", ".hidden", false),
            (".*", ".hidden", true),
            ("?idden", ".idden", false),
            ("[.]x", ".x", false),
            ("a?c", "abc", true),
            ("[!a-c]x", "dx", true),
            ("[!a-c]x", "bx", false),
            ("[[:digit:]]*", "7up", true),
            ("**.jpg", "a.jpg", true),
            ("a\\*b*", "a*bc", true),
            ("a\\*b*", "axbc", false),
            ("{a,b}*", "ab", false),
            ("{a,b}*", "{a,b}c", true),
            ("*.JPG", "a.jpg", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
        assert!(Wildcard::of(b"*").unwrap().matches(b"not \xff utf-8"));
        for plain in [&b"plain"[..], b"a[b", b"{a,b}", b"back\\slash", b"\xff*"] {
            assert!(Wildcard::of(plain).is_none(), "{}", plain.escape_ascii());
        }
    }

    /// Returns what a pattern finds, and in the end the reason why it finds nothing.
    fn found(root: &Root, pattern: &str) -> Vec<String> {
        let root = RootDirectory::open(root).unwrap();
        match Search::run(&root, Path::new(pattern)) {
            Ok(found) => found.iter().map(|path| path.to_str().unwrap().to_owned()).collect(),
            Err(error) => vec![error.to_string()],
        }
    }

    #[test]
    fn patterns_find_paths_inside_of_root() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        for name in ["d/b.jpg", "d/a.jpg", "d/.c.jpg", "e/a.jpg", "e/x[1].txt", "e/sub/y"] {
            let path = root.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        fs::write(folder.path().join("secret.jpg"), "x").unwrap();
        symlink("..", root.join("up")).unwrap();
        symlink("/nowhere", root.join("d/z.jpg")).unwrap();
        let root = Root::confined(&root, Permission::ReadOnly).unwrap();
        for (pattern, expected) in [
            ("d/*.jpg", &["d/a.jpg", "d/b.jpg", "d/z.jpg"][..]),
            ("./d//[ab].jpg", &["d/a.jpg", "d/b.jpg"]),
            ("/d/a*", &["/d/a.jpg"]),
            ("?/a.jpg", &["d/a.jpg", "e/a.jpg"]),
            ("*/", &["d/", "e/"]),
            ("*/.", &["d/.", "e/."]),
            ("e/*/y", &["e/sub/y"]),
            ("e/x[1].txt", &["e/x[1].txt"]),
            ("*.gif", &["no name matches"]),
            ("none/*", &["no name matches"]),
            ("../*", &["no name matches"]),
            ("up/*", &["no name matches"]),
            ("*/secret.jpg", &["no name matches"]),
        ] {
            assert_eq!(found(&root, pattern), expected, "{pattern}");
        }
    }

    #[test]
    fn circle_of_links_ends() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a", "b"] {
            symlink(".", folder.path().join(name)).unwrap();
        }
        let root = Root::confined(folder.path(), Permission::ReadOnly).unwrap();
        let text = found(&root, &"*/".repeat(30));
        assert!(text[0].contains("more than 65536"), "{text:?}");
    }
}
