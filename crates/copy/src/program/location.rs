//! Arguments SRC and DEST: paths of this host, and paths of another one in three forms.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use rdt_program::Failure;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Location {
    Local(PathBuf),
    Far(Far, PathBuf),
}

/// The other side of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Far {
    /// Host for ssh, as typed: `HOST` or `USER@HOST`.
    Ssh(String),
    /// Ticket, or `@FILE` with one.
    Ticket(String),
    /// Host and port of a `--serve` whose key is known or new, by `HOST::PATH`.
    Host(String),
}

/// What to copy in which direction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    /// True: from this host to the other one.
    pub(crate) is_push: bool,
    pub(crate) far: Far,
    pub(crate) sources: Vec<PathBuf>,
    pub(crate) destination: PathBuf,
}

impl Plan {
    pub(crate) fn parse(paths: &[OsString]) -> Result<Self, Failure> {
        let Some((destination, sources)) = paths.split_last().filter(|(_, sources)| !sources.is_empty())
        else {
            return Err(Failure::usage("a source or the destination is missing: write SRC... DEST"));
        };
        let sources = sources.iter().map(|text| Location::parse(text)).collect::<Result<Vec<_>, _>>()?;
        match Location::parse(destination)? {
            Location::Far(far, destination) => {
                let local = |location| match location {
                    Location::Local(path) => Ok(path),
                    Location::Far(..) => {
                        let why = "SRC and DEST are on other hosts: one side must be on this host. A local name with a colon is ./NAME";
                        Err(Failure::usage(why))
                    }
                };
                let sources = sources.into_iter().map(local).collect::<Result<_, _>>()?;
                Ok(Self { is_push: true, far, sources, destination })
            }
            Location::Local(destination) => Self::pull(sources, destination),
        }
    }

    fn pull(locations: Vec<Location>, destination: PathBuf) -> Result<Self, Failure> {
        let (mut peer, mut sources) = (None, Vec::new());
        for location in locations {
            match location {
                Location::Local(_) => {
                    let why =
                        "no host in SRC or DEST: write HOST:PATH, or a ticket. Within this host use cp -a";
                    return Err(Failure::usage(why));
                }
                Location::Far(far, path) if peer.get_or_insert_with(|| far.clone()) == &far => {
                    sources.push(path);
                }
                Location::Far(..) => {
                    return Err(Failure::usage(
                        "the sources are on different hosts: copy from one at a time",
                    ));
                }
            }
        }
        let far = peer.ok_or_else(|| Failure::usage("a source is missing"))?;
        Ok(Self { is_push: false, far, sources, destination })
    }
}

/// Returns a sentence for a pattern to exclude that begins with the path of a source, as those of
/// other programs do: here it begins inside of the source.
pub(crate) fn doubt(pattern: &str, sources: &[PathBuf]) -> Option<String> {
    let path = pattern.trim_start_matches(['!', '/']);
    sources.iter().find_map(|source| {
        let text = source.to_str()?;
        let text = text.strip_prefix("./").unwrap_or(text).trim_end_matches('/');
        let name = source.file_name()?.to_str()?;
        let absolute = std::path::absolute(source).ok()?;
        let begins = [text, name, absolute.to_str()?];
        let within = |begin: &str| path.strip_prefix(begin.trim_start_matches('/'))?.strip_prefix('/');
        let rest = begins.into_iter().filter(|begin| !begin.is_empty()).find_map(within)?;
        let rest = rest.trim_end_matches('/');
        (!rest.is_empty()).then(|| {
            format!(
                "--exclude '{pattern}' begins inside of {}: to leave out {text}/{rest} write '/{rest}'",
                source.display()
            )
        })
    })
}

impl Location {
    fn parse(text: &OsStr) -> Result<Self, Failure> {
        let local = || match text.as_encoded_bytes() {
            b"" => Err(Failure::usage("an argument is empty, and names nothing: the folder here is .")),
            b"-" => Err(Failure::usage(
                "- has no name and no size: store it in a file, or send it by 'rdt-send TICKET -'. A file of this name is ./-",
            )),
            _ => Ok(Self::Local(text.into())),
        };
        let bytes = text.as_encoded_bytes();
        if bytes.first() == Some(&b'@') || is_ticket(text) {
            let (ticket, path) = split(text, b':').unwrap_or_else(|| (text.to_owned(), OsString::new()));
            return Ok(Self::Far(Far::Ticket(utf8(ticket)?), path.into()));
        }
        // As scp: a name before the colon has no slash.
        let Some((host, path)) = split_host(text) else { return local() };
        if is_drive(&host) {
            return local();
        }
        let host = utf8(host)?;
        if host.is_empty() {
            return Err(Failure::usage(format_args!(
                "'{}' has no host before its colon; a local path: ./:",
                text.display()
            )));
        }
        // ssh would read it as an option.
        // scp's brackets are not for ssh.
        let ssh_host = host.replace(['[', ']'], "");
        if host.starts_with('-') || ssh_host.starts_with('-') {
            return Err(Failure::usage(format_args!("'{host}' is no host")));
        }
        match path.as_encoded_bytes().first() {
            Some(b':') => {
                let (_, path) = split(&path, b':').unwrap_or_default();
                Ok(Self::Far(Far::Host(host), path.into()))
            }
            _ => Ok(Self::Far(Far::Ssh(ssh_host), from_home(path).into())),
        }
    }
}

/// Returns a path of a far host without the `~/` of a shell: the far side begins at home.
fn from_home(path: OsString) -> OsString {
    match split(&path, b'/') {
        Some((home, rest)) if home == "~" => rest,
        _ if path == "~" => OsString::new(),
        _ => path,
    }
}

/// True for a ticket, whole or damaged. A name with a slash is a local path, as in scp.
fn is_ticket(text: &OsStr) -> bool {
    let text = text.to_string_lossy();
    rdt_trust::is_ticket(&text) && !text.split(':').next().is_some_and(|word| word.contains('/'))
}

/// Splits `HOST:PATH`, `[V6]:PATH` or `USER@[V6]:PATH`. `None` for a local path.
fn split_host(text: &OsStr) -> Option<(OsString, OsString)> {
    let bytes = text.as_encoded_bytes();
    let start = match bytes.iter().position(|&byte| byte == b'[') {
        Some(at) if at == 0 || bytes[at - 1] == b'@' => bytes.iter().position(|&byte| byte == b']')?,
        _ => 0,
    };
    let colon = start + bytes[start..].iter().position(|&byte| byte == b':')?;
    if bytes[..colon].contains(&b'/') { None } else { Some(split_at(text, colon)) }
}

/// True for the letter of a drive of Windows.
fn is_drive(host: &OsStr) -> bool {
    cfg!(windows) && host.len() == 1 && host.as_encoded_bytes()[0].is_ascii_alphabetic()
}

/// Splits at the first such character, which belongs to no part.
fn split(text: &OsStr, at: u8) -> Option<(OsString, OsString)> {
    let index = text.as_encoded_bytes().iter().position(|&byte| byte == at)?;
    Some(split_at(text, index))
}

#[cfg(unix)]
fn split_at(text: &OsStr, index: usize) -> (OsString, OsString) {
    use std::os::unix::ffi::OsStrExt as _;
    let bytes = text.as_bytes();
    (OsStr::from_bytes(&bytes[..index]).to_owned(), OsStr::from_bytes(&bytes[index + 1..]).to_owned())
}

#[cfg(not(unix))]
fn split_at(text: &OsStr, index: usize) -> (OsString, OsString) {
    let text = text.to_string_lossy();
    let (before, after) = text.split_at_checked(index).unwrap_or((&text, ""));
    (before.into(), after.get(1..).unwrap_or_default().into())
}

fn utf8(text: OsString) -> Result<String, Failure> {
    text.into_string()
        .map_err(|text| Failure::usage(format_args!("'{}' is no host: it is not UTF-8", text.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICKET: &str = "rdt1abcdefghijklmnopqrstuvwxyz";

    fn plan(line: &str) -> Result<Plan, String> {
        let words: Vec<OsString> = line.split_whitespace().map(Into::into).collect();
        Plan::parse(&words).map_err(|failure| failure.to_string())
    }

    fn location(text: &str) -> Location {
        Location::parse(OsStr::new(text)).unwrap()
    }

    fn far(far: Far, path: &str) -> Location {
        Location::Far(far, path.into())
    }

    #[test]
    fn paths_are_local_as_in_scp() {
        for text in [
            "a",
            "./a:b",
            "/a:b",
            "dir/a:b",
            "rdt1",
            "rdt1-notes.txt",
            "rdt1-notes-of-the-last-summer/a",
            "a@b",
            ".",
        ] {
            assert_eq!(location(text), Location::Local(text.into()), "{text}");
        }
    }

    #[test]
    fn hosts_and_tickets_are_told_apart() {
        let ssh = |host: &str| Far::Ssh(host.into());
        for (text, host, path) in [
            ("host:", "host", ""),
            ("anna@host:a/b:c", "anna@host", "a/b:c"),
            ("[::1]:/tmp", "::1", "/tmp"),
            ("anna@[fe80::1]:x", "anna@fe80::1", "x"),
            ("rdt1:x", "rdt1", "x"),
            ("host:~", "host", ""),
            ("host:~/a~/~", "host", "a~/~"),
            ("host:~anna/a", "host", "~anna/a"),
        ] {
            assert_eq!(location(text), far(ssh(host), path), "{text}");
        }
        let ticket = |text: &str| Far::Ticket(text.into());
        assert_eq!(location(TICKET), far(ticket(TICKET), ""));
        assert_eq!(location(&format!("{TICKET}:a:b")), far(ticket(TICKET), "a:b"));
        // Damaged: ssh would ask a resolver for it, and `ps` would show it.
        for text in [" rdt1abcdefghijklmnopqrstuvwxyz", "rdt1abcdefghijkl-nopqrstuvwxyz"] {
            assert_eq!(location(&format!("{text}:x")), far(ticket(text), "x"));
        }
        assert_eq!(location("@/tmp/ticket"), far(ticket("@/tmp/ticket"), ""));
        assert_eq!(location("@ticket:sub"), far(ticket("@ticket"), "sub"));
        assert_eq!(location("host::a"), far(Far::Host("host".into()), "a"));
        assert_eq!(location("[::1]::"), far(Far::Host("[::1]".into()), ""));
    }

    #[test]
    fn one_side_is_here() {
        for (line, expected) in [("a b host:c", true), ("host:a host:b c", false)] {
            let Plan { is_push, sources, destination, .. } = plan(line).unwrap();
            assert_eq!((is_push, sources), (expected, vec!["a".into(), "b".into()]));
            assert_eq!(destination, PathBuf::from("c"));
        }
        for (line, part) in [
            ("a", "is missing"),
            ("a b", "use cp"),
            ("a host:b c", "use cp"),
            ("host:a other:b", "one side"),
            ("a:b other:", "./NAME"),
            ("host:a other:b c", "different hosts"),
            (":a b", "no host before"),
            ("-oProxyCommand=x:a b", "is no host"),
            ("[-oProxyCommand=x]:a b", "is no host"),
        ] {
            let error = plan(line).unwrap_err();
            assert!(error.contains(part), "{line}: {error}");
        }
    }

    #[test]
    fn arguments_that_name_nothing_are_refused() {
        for (source, dest, part) in [
            ("", "host:", "is empty"),
            ("host:a", "", "is empty"),
            ("-", "host:", "send it by 'rdt-send TICKET -'"),
        ] {
            let error = Plan::parse(&[source.into(), dest.into()]).unwrap_err().to_string();
            assert!(error.contains(part), "{source} {dest}: {error}");
        }
    }

    #[test]
    fn pattern_with_path_of_source_is_doubted() {
        let here = std::env::current_dir().unwrap();
        let absolute = here.join("data/src/target").display().to_string();
        for (pattern, source, expected) in [
            ("src/target", "src", Some("'/target'")),
            ("/src/target/", "./src/", Some("'/target'")),
            ("src/target", "data/src", Some("'/target'")),
            ("data/src/a/b", "data/src", Some("'/a/b'")),
            (absolute.as_str(), "data/src", Some("'/target'")),
            ("target", "src", None),
            ("src", "src", None),
            ("src/", "src", None),
            ("/target", "src", None),
            ("srcs/target", "src", None),
            ("a/b", ".", None),
        ] {
            let doubt = doubt(pattern, &[source.into()]);
            assert_eq!(doubt.is_some(), expected.is_some(), "{pattern} {source}: {doubt:?}");
            assert!(expected.is_none_or(|part| doubt.unwrap().ends_with(part)), "{pattern} {source}");
        }
    }

    #[test]
    #[cfg(unix)]
    fn names_need_not_be_utf8() {
        use std::os::unix::ffi::OsStrExt as _;
        let text = OsStr::from_bytes(b"host:\xff");
        assert_eq!(
            Location::parse(text).unwrap(),
            Location::Far(Far::Ssh("host".into()), OsStr::from_bytes(b"\xff").into())
        );
        assert!(Location::parse(OsStr::from_bytes(b"\xff:a")).is_err());
    }
}
