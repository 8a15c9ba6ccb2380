//! Programs that know nothing of the tunnel: ssh, rsync, git, redis.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use rdt_program_testing::programs::{Daemon, SshFiles, free_address, has, output, user};

use super::process::{Home, PROGRAM};

/// A server of ssh with keys of its own, and the option of clients to reach it by a tunnel.
struct Sshd {
    _daemon: Daemon,
    _serve: super::process::Serve,
    /// `ssh` with all options but the host.
    ssh: String,
}

impl Sshd {
    /// Returns `None` if ssh cannot be tested here, and says why.
    fn start(home: &Home) -> Option<Self> {
        let address = free_address();
        let files = SshFiles::new(&home.path(""), address)?;
        let daemon = files.start(address);
        let serve = home.serve(address, "");
        let ticket = home.write("ticket", &serve.tickets[0]);
        let proxy = format!(
            "env XDG_CONFIG_HOME={} {PROGRAM} stdio -q @{}",
            home.path("anna").display(),
            ticket.display()
        );
        let ssh = format!("{} -o 'ProxyCommand={proxy}'", files.ssh());
        Some(Self { _daemon: daemon, _serve: serve, ssh })
    }

    /// Returns a shell command in which `$SSH` reaches the server.
    fn shell(&self, line: &str) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", line]).env("SSH", &self.ssh).env("GIT_SSH_COMMAND", &self.ssh);
        shell
    }
}

fn write_random(path: &Path, bytes: usize) {
    let mut state = 7_u64;
    let random = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56).to_le_bytes()[0]
    });
    fs::write(path, random.take(bytes).collect::<Vec<u8>>()).unwrap();
}

#[test]
fn ssh_runs_command_through_proxy_command() {
    let home = Home::new();
    let Some(sshd) = Sshd::start(&home) else { return };
    let user = user();
    let line = format!("eval \"$SSH {user}@tunnel 'echo here; exit 7'\"");
    let ended = sshd.shell(&line).stdin(Stdio::null()).output().unwrap();
    assert_eq!((ended.status.code(), &*ended.stdout), (Some(7), &b"here\n"[..]), "{ended:?}");
    // A megabyte each way.
    let file = home.path("file");
    write_random(&file, 1 << 20);
    let line = format!("eval \"$SSH {user}@tunnel cat\" < {0} | cmp - {0}", file.display());
    output(&mut sshd.shell(&line));
}

#[test]
fn rsync_copies_tree() {
    let home = Home::new();
    if !has("rsync") {
        return;
    }
    let Some(sshd) = Sshd::start(&home) else { return };
    let tree = home.path("tree");
    fs::create_dir_all(tree.join("deep/er")).unwrap();
    for (name, bytes) in [("big", 3 << 20), ("deep/empty", 0), ("deep/er/small", 100)] {
        write_random(&tree.join(name), bytes);
    }
    let copy = home.path("copy");
    let line = format!(
        "rsync -a -e \"$SSH\" {} {}@tunnel:{}/",
        format_args!("{}/", tree.display()),
        user(),
        copy.display()
    );
    output(&mut sshd.shell(&line));
    output(Command::new("diff").arg("-r").args([&tree, &copy]));
}

#[test]
fn git_clones_over_ssh() {
    let home = Home::new();
    if !has("git") {
        return;
    }
    let Some(sshd) = Sshd::start(&home) else { return };
    let origin = home.path("origin");
    fs::create_dir(&origin).unwrap();
    write_random(&origin.join("file"), 1 << 20);
    let git = |args: &[&str]| {
        let mut git = Command::new("git");
        git.current_dir(&origin).args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(args);
        output(&mut git)
    };
    git(&["init", "-q"]);
    git(&["add", "file"]);
    git(&["commit", "-qm", "file"]);
    let clone = home.path("clone");
    let line = format!("git clone -q {}@tunnel:{} {}", user(), origin.display(), clone.display());
    output(&mut sshd.shell(&line));
    assert!(fs::read(clone.join("file")).unwrap() == fs::read(origin.join("file")).unwrap());
}

#[test]
fn database_answers_through_connect() {
    let home = Home::new();
    if !["redis-server", "redis-cli"].iter().all(|program| has(program)) {
        return;
    }
    let address = free_address();
    let port = address.port().to_string();
    let mut server = Command::new("redis-server");
    server.args(["--bind", "127.0.0.1", "--port", &port, "--save", "", "--appendonly", "no"]);
    let _daemon = Daemon::start(server.current_dir(home.path("")), address);
    let serve = home.serve(address, "");
    let connect = home.connect("anna", &serve.tickets[0], "");
    let port = connect.address.port().to_string();
    let redis = |args: &[&str]| {
        let ended = output(Command::new("redis-cli").args(["-p", &port]).args(args));
        String::from_utf8(ended).unwrap()
    };
    assert_eq!(redis(&["SET", "key", "value"]), "OK\n");
    assert_eq!(redis(&["GET", "key"]), "value\n");
    // 1000 round trips on one connection.
    assert_eq!(redis(&["-r", "1000", "INCR", "n"]).lines().last(), Some("1000"));
}
