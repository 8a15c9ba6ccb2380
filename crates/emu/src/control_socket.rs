//! Changes of the path while packets pass: the socket of `--control`, the command `set`, and the
//! queue from one to the relay.
//!
//! ```text
//! rdt-emu set SOCKET --rate 2mbit  --JSON-->  thread of the socket  --PathConfig-->  relay
//! ```
//!
//! A request is one line of JSON: the settings under the keys of the flags, and the folder in which
//! trace files are looked up. The answer is one line: the path that is in force, or an error.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path as FilePath, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use rdt_emulator::spec::{Key, Scope};
use rdt_emulator::{Path, PathConfig};
use rdt_program::Printer;
use rdt_program::exit::NO_INPUT;
use rdt_udp::clock;
use serde_json::{Value, json};

use crate::Failure;
use crate::calibration::{CalibrationArgs, Mode};
#[cfg(target_os = "linux")]
use crate::destinations::Destination;
use crate::destinations::{self, OTHER, Selector};
use crate::path::{Described, PathArgs};
use crate::paths::{Change, Changes};
use crate::talk;

/// Size limit of a request, bytes. The settings of a command line have some hundred.
const MAX_REQUEST: u64 = 1 << 16;
/// Size limit of an answer, bytes. It has the whole description, of up to 1 MiB in a file, and more
/// bytes for the same settings in JSON.
const MAX_ANSWER: u64 = 1 << 24;
/// Length of the line about a change, characters.
const MAX_LOGGED: usize = 400;
/// Time for a peer to send its request or take the answer. A request waits for the one before it.
const PEER_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) const AFTER_SET: &str = "\
Examples:
  rdt-emu run --control link.sock --rate 10mbit --rtt 50ms --server 'iperf3 -s' -- sh -c 'iperf3 -t 60 -c $RDT_PEER'
  rdt-emu set link.sock --rate 2mbit --loss 1%       in another terminal
  rdt-emu set link.sock                              prints the path in force

Exit codes: 0 the path is changed, and
   64  wrong arguments, or a setting that cannot change    66  no program listens at SOCKET
   71  system error    78  the path has a rate that failed in the calibration of this host";

/// Arguments of `set`.
#[derive(Debug, clap::Args)]
pub(crate) struct SetArgs {
    /// File that `run` or `proxy` was started with as --control
    socket: PathBuf,
    /// Name of the path, of a run with --to NAME=DESTINATION [default: that of all other
    /// destinations]
    #[arg(long, value_name = "NAME")]
    to: Option<String>,
    #[command(flatten)]
    path: PathArgs,
}

/// Socket of `--control`. Its file is removed when this is dropped.
pub(crate) struct ControlSocket {
    file: PathBuf,
    /// Device and inode of the file. Another program may have replaced it.
    identity: Option<(u64, u64)>,
    listener: UnixListener,
}

fn identity(file: &FilePath) -> Option<(u64, u64)> {
    fs::symlink_metadata(file).ok().map(|found| (found.dev(), found.ino()))
}

impl ControlSocket {
    /// Creates the socket with mode 0600. Replaces one that no program listens at.
    pub(crate) fn bind(file: &FilePath) -> Result<Self, Failure> {
        let cannot = |error| Failure::create(file, &error);
        if let Ok(found) = fs::symlink_metadata(file) {
            if !found.file_type().is_socket() {
                return Err(cannot(io::Error::other("it exists already, and is no socket")));
            }
            match UnixStream::connect(file) {
                Ok(_) => return Err(cannot(io::Error::other("a program listens at it"))),
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(error) => return Err(cannot(error)),
            }
            fs::remove_file(file).map_err(cannot)?;
        }
        let listener = UnixListener::bind(file).map_err(cannot)?;
        let socket = Self { file: file.to_owned(), identity: identity(file), listener };
        fs::set_permissions(file, fs::Permissions::from_mode(0o600)).map_err(cannot)?;
        Ok(socket)
    }

    /// Starts a thread that answers requests. It ends with the process.
    pub(crate) fn serve(&self, mut in_force: InForce, log: Printer) -> Result<Changes, Failure> {
        let listener = self.listener.try_clone().map_err(Failure::system("no control socket"))?;
        // Unbounded: only the user who may end this program can fill it.
        let (to_relay, changes) = channel();
        thread::spawn(move || {
            for peer in listener.incoming().flatten() {
                if let Err(error) = answer(&peer, &mut in_force, &to_relay, &log) {
                    tracing::debug!(%error, "a request for a change was not answered");
                }
            }
        });
        Ok(changes)
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        // That of another program stays, after a user has removed this one.
        if identity(&self.file) == self.identity {
            let _ = fs::remove_file(&self.file);
        }
    }
}

/// Path in force, and what decides whether it may change.
pub(crate) struct InForce {
    paths: Vec<Settings>,
    calibration: CalibrationArgs,
    mode: Mode,
}

/// Settings of a path that are in force.
struct Settings {
    name: String,
    /// Its packets; `None` for those of no other path.
    selector: Option<Selector>,
    described: Described,
    config: PathConfig,
    /// Path without packets.
    model: Path,
}

impl Settings {
    fn new(name: &str, selector: Option<Selector>, described: Described, config: PathConfig) -> Self {
        let mut model = Path::new(config.clone(), 0);
        model.allow_changes();
        Self { name: name.to_owned(), selector, described, config, model }
    }

    fn to_toml(&self) -> String {
        let path = &self.described.path;
        self.selector.map_or_else(|| path.to_toml(), |it| path.to_toml_for(&self.name, &it.to_string()))
    }
}

impl InForce {
    pub(crate) fn new(
        described: Described,
        config: PathConfig,
        calibration: CalibrationArgs,
        mode: Mode,
    ) -> Self {
        Self { paths: vec![Settings::new(OTHER, None, described, config)], calibration, mode }
    }

    /// Adds the path of a destination.
    #[cfg(target_os = "linux")]
    pub(crate) fn with(mut self, it: &Destination, config: PathConfig) -> Self {
        self.paths.push(Settings::new(&it.name, Some(it.selector), it.described.clone(), config));
        self
    }

    /// Describes all paths, or one of a destination if the request names it.
    fn describe(&self, path: usize, request: &Value) -> String {
        if request["to"].is_string() {
            return self.paths[path].described.path.to_toml();
        }
        self.paths.iter().map(Settings::to_toml).collect()
    }

    /// Applies a request. Returns the description of its path, and the change if there is one.
    fn apply(&mut self, request: &Value) -> Result<(String, Option<Change>), Failure> {
        let names = self.paths.iter().map(|path| path.name.as_str());
        let path = destinations::find(names, request["to"].as_str())?;
        let settings = settings(request).ok_or_else(|| Failure::usage("the request is damaged"))?;
        if settings.is_empty() {
            return Ok((self.describe(path, request), None));
        }
        let folder = request["folder"].as_str().map(PathBuf::from).unwrap_or_default();
        let described = self.paths[path].described.changed(&settings, &folder)?;
        let config = described.config()?;
        let others = self.paths.iter().enumerate().filter(|(number, _)| *number != path);
        let all = others.map(|(_, other)| &other.config).chain([&config]);
        self.calibration.check(all, self.mode)?;
        let at = clock::now();
        let name = (self.paths.len() > 1).then(|| self.paths[path].name.clone());
        let in_force = &mut self.paths[path];
        in_force.model.change(at, config.clone()).map_err(Failure::usage)?;
        in_force.described = described;
        in_force.config = config.clone();
        let description = in_force.described.path.to_toml();
        Ok((self.describe(path, request), Some(Change { path, name, at, config, description })))
    }
}

/// Scopes by their names in requests.
const SCOPES: [(Scope, &str); 3] =
    [(Scope::Both, "both"), (Scope::Forward, "forward"), (Scope::Reverse, "reverse")];

fn settings(request: &Value) -> Option<Vec<(Scope, Key, String)>> {
    let settings = request["settings"].as_array()?;
    settings
        .iter()
        .map(|setting| {
            let text = |index: usize| setting.get(index)?.as_str();
            let (scope, _) = SCOPES.into_iter().find(|(_, name)| Some(*name) == text(0))?;
            Some((scope, Key::all().find(|key| Some(key.name()) == text(1))?, text(2)?.to_owned()))
        })
        .collect()
}

/// Reads a request, passes the change to the relay, and answers.
fn answer(
    peer: &UnixStream,
    in_force: &mut InForce,
    to_relay: &Sender<Change>,
    log: &Printer,
) -> io::Result<()> {
    peer.set_read_timeout(Some(PEER_TIMEOUT))?;
    peer.set_write_timeout(Some(PEER_TIMEOUT))?;
    let request = read_line(peer, MAX_REQUEST)?;
    let request: Value = serde_json::from_str(&request).unwrap_or_default();
    let answer = match in_force.apply(&request) {
        Ok((description, change)) => {
            if let Some(change) = change {
                let of = change.name.as_ref().map_or_else(String::new, |name| format!(" {name}"));
                log.print(&format!("the path{of} is now: {}", one_line(&change.description)));
                // Fails if the relay has ended.
                to_relay.send(change).map_err(|_| io::ErrorKind::BrokenPipe)?;
            }
            json!({ "path": description })
        }
        Err(failure) => json!({ "error": failure.to_string(), "exit_code": failure.code() }),
    };
    write_line(peer, &answer)
}

/// Returns the start of a description in one line.
fn one_line(toml: &str) -> String {
    let mut line = toml.lines().filter(|line| !line.is_empty()).collect::<Vec<_>>().join(", ");
    if let Some((end, _)) = line.char_indices().nth(MAX_LOGGED) {
        line.truncate(end);
        line += "...";
    }
    line
}

fn read_line(peer: &UnixStream, max_bytes: u64) -> io::Result<String> {
    let mut line = String::new();
    BufReader::new(peer.take(max_bytes)).read_line(&mut line)?;
    Ok(line)
}

fn write_line(mut peer: &UnixStream, object: &Value) -> io::Result<()> {
    peer.write_all(format!("{object}\n").as_bytes())
}

/// Runs `set`: sends the settings, and prints the path in force.
pub(crate) fn set(args: &SetArgs) -> Result<u8, Failure> {
    if args.path.file.is_some() {
        return Err(Failure::usage("--path: set takes flags alone"));
    }
    if args.path.settings.iter().any(|(_, key, _)| *key == Key::Seed) {
        return Err(Failure::usage("--seed: the draws of a running path cannot change"));
    }
    let absent = |error: io::Error| {
        let socket = args.socket.display();
        let sentence = format!("no rdt-emu listens at {socket}: {error}; start run or proxy with --control");
        Failure::new(NO_INPUT, sentence)
    };
    let peer = UnixStream::connect(&args.socket).map_err(absent)?;
    // The request may wait for the one before it.
    peer.set_read_timeout(Some(4 * PEER_TIMEOUT)).map_err(absent)?;
    let settings: Vec<_> = args
        .path
        .settings
        .iter()
        .map(|(scope, key, text)| {
            let name = SCOPES.iter().find(|(it, _)| it == scope).map(|(_, name)| name);
            json!([name, key.name(), text])
        })
        .collect();
    let folder = std::env::current_dir().map_err(Failure::system("no current directory"))?;
    write_line(&peer, &json!({ "to": args.to, "settings": settings, "folder": folder.to_string_lossy() }))
        .map_err(absent)?;
    let answer = read_line(&peer, MAX_ANSWER).map_err(absent)?;
    let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
    if let Some(path) = answer["path"].as_str() {
        crate::tell(path.trim())?;
        return Ok(0);
    }
    let Some(error) = answer["error"].as_str() else {
        return Err(absent(io::ErrorKind::UnexpectedEof.into()));
    };
    talk(error);
    let code = answer["exit_code"].as_u64().and_then(|code| u8::try_from(code).ok());
    Ok(code.unwrap_or(rdt_program::exit::OS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socket_of_another_program_stays() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("link");
        let own = ControlSocket::bind(&file).unwrap();
        fs::remove_file(&file).unwrap();
        let other = ControlSocket::bind(&file).unwrap();
        drop(own);
        assert!(UnixStream::connect(&file).is_ok());
        drop(other);
        assert!(!file.exists());
    }
}
