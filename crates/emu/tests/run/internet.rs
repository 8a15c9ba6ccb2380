//! `--internet`: programs inside reach servers of these tests, which listen on the loopback device
//! of the host. Skipped for a NAT program that is not installed.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;
use std::{env, fs, thread};

use rdt_udp::clock;
use rustix::process::Signal;

use super::helpers::{answer_names, helper, program, said};
use super::running::{PROGRAM, code, host_allows, kill, run, run_with, stdout};

const TOOLS: [(&str, &str); 2] = [("pasta", "passt"), ("slirp4netns", "slirp4netns")];
/// Environment variable with the NAT programs whose tests may not be skipped, separated by spaces.
/// `.ci/run` sets it to those that it found or installed.
const REQUIRED: &str = "RDT_NAT";

/// Returns the NAT programs that are installed; prints which are not.
fn tools() -> Vec<&'static str> {
    let there = |(tool, package): &(&str, &str)| {
        let is_there = Command::new(tool).arg("--version").output().is_ok();
        if !is_there {
            let required = env::var(REQUIRED).unwrap_or_default();
            assert!(!required.split_whitespace().any(|it| it == *tool), "{REQUIRED} requires {tool}");
            rdt_testing::skipped(format!("no {tool} (apt-get install {package})"));
        }
        is_there && (*tool != "pasta" || !is_confined(tool))
    };
    if !host_allows() {
        return Vec::new();
    }
    TOOLS.iter().filter(|tool| there(tool)).map(|(tool, _)| *tool).collect()
}

/// Returns true if the host forbids the program to open the namespace of a run, as the `AppArmor`
/// profile of some distributions does. All other failures are those of the tests.
fn is_confined(tool: &str) -> bool {
    let output = run(&format!("-q --internet={tool}"), &["true"]).output();
    let told = String::from_utf8_lossy(&output.stderr);
    let is_confined =
        ["Couldn't open network namespace", "Permission denied"].iter().any(|it| told.contains(it));
    if is_confined {
        rdt_testing::skipped(told);
    }
    is_confined
}

/// Starts servers that echo TCP streams and datagrams. Returns their port.
fn echo_servers() -> u16 {
    echo_servers_at("127.0.0.1", 0)
}

fn echo_servers_at(address: &str, port: u16) -> u16 {
    let tcp = TcpListener::bind((address, port)).unwrap();
    let port = tcp.local_addr().unwrap().port();
    let udp = UdpSocket::bind((address, port)).unwrap();
    thread::spawn(move || {
        for mut stream in tcp.incoming().flatten() {
            let mut bytes = [0; 6];
            let _ = stream.read_exact(&mut bytes).and_then(|()| stream.write_all(&bytes));
        }
    });
    thread::spawn(move || {
        let mut bytes = [0; 64];
        while let Ok((length, from)) = udp.recv_from(&mut bytes) {
            let _ = udp.send_to(&bytes[..length], from);
        }
    });
    port
}

/// Asks the echo servers of the host; prints what they answer, and after how many milliseconds.
/// `HOST` names the environment variable with their address, by default `RDT_HOST`.
#[test]
#[ignore = "a program for other tests"]
fn ask_host() {
    let name = env::var("HOST").unwrap_or_else(|_| "RDT_HOST".into());
    let host: IpAddr = env::var(name).unwrap().parse().unwrap();
    let port: u16 = env::var("ECHO_PORT").unwrap().parse().unwrap();
    let begin = clock::now();
    let mut stream = TcpStream::connect((host, port)).unwrap();
    println!("\nconnected_ms {}", (clock::now() - begin).as_millis());
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(b"stream").unwrap();
    let mut bytes = [0; 6];
    stream.read_exact(&mut bytes).unwrap();
    println!("tcp {}", std::str::from_utf8(&bytes).unwrap());
    if env::var_os("TCP_ALONE").is_some() {
        return;
    }
    let socket = UdpSocket::bind(if host.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    socket.connect((host, port)).unwrap();
    socket.send(b"datagram").unwrap();
    let mut bytes = [0; 64];
    let length = socket.recv(&mut bytes).unwrap();
    println!("udp {}", std::str::from_utf8(&bytes[..length]).unwrap());
}

#[test]
fn outside_traffic_crosses_path_both_ways() {
    for tool in tools() {
        let port = echo_servers();
        let script = format!("ECHO_PORT={port} {}", program("internet::ask_host").join(" "));
        let internet = format!("--internet={tool}");
        let run = run_with(&[&internet, "--rtt=200ms", "--json", "-q"], &["sh", "-c", &script]);
        let output = stdout(&run.output());
        assert_eq!((said(&output, "tcp "), said(&output, "udp ")), ("stream", "datagram"), "{tool}");
        let connected: u64 = said(&output, "connected_ms").parse().unwrap();
        assert!(connected >= 200, "{tool}: {output}");
        let end: serde_json::Value = serde_json::from_str(output.lines().last().unwrap()).unwrap();
        for direction in ["forward", "reverse"] {
            assert!(end[direction]["delivered"].as_u64().unwrap() >= 5, "{tool}: {end}");
        }
    }
}

#[test]
fn ipv6_traffic_crosses_path_to_host() {
    for tool in tools() {
        // The NAT passes packets for its router on to the loopback device of the host.
        let Ok(probe) = TcpListener::bind("[::1]:0") else {
            rdt_testing::skipped("this host has no [::1]");
            return;
        };
        drop(probe);
        let port = echo_servers_at("::1", 0);
        // pasta (2023-03-09) answers UDP from [::1] by an address of the link.
        let alone = if tool == "pasta" { "TCP_ALONE=1" } else { "" };
        let script = format!(
            "[ -n \"$RDT_HOST6\" ] || exit 9; HOST=RDT_HOST6 ECHO_PORT={port} {alone} {}",
            program("internet::ask_host").join(" ")
        );
        let internet = format!("--internet={tool}");
        let run = run_with(&[&internet, "--ipv6", "--rtt=200ms", "--json", "-q"], &["sh", "-c", &script]);
        let output = run.output();
        if code(&output) == 9 {
            let told = String::from_utf8(output.stderr).unwrap();
            assert!(told.contains("the host has no IPv6 route, so pasta passes only IPv4 on"), "{told}");
            rdt_testing::skipped(told);
            continue;
        }
        let output = stdout(&output);
        assert_eq!(said(&output, "tcp "), "stream", "{tool}");
        assert!(!alone.is_empty() || said(&output, "udp ") == "datagram", "{tool}: {output}");
        let connected: u64 = said(&output, "connected_ms").parse().unwrap();
        assert!(connected >= 200, "{tool}: {output}");
        // The NAT learns the address of CMD without packets on the path.
        let end: serde_json::Value = serde_json::from_str(output.lines().last().unwrap()).unwrap();
        assert!(end["reverse"]["arrived"].as_u64().unwrap() < 10, "{tool}: {end}");
    }
}

/// Sends datagrams to a server of the host.
#[test]
#[ignore = "a program for other tests"]
fn flood_host() {
    let host: Ipv4Addr = env::var("RDT_HOST").unwrap().parse().unwrap();
    let port: u16 = env::var("ECHO_PORT").unwrap().parse().unwrap();
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    for _ in 0..FLOOD {
        socket.send_to(&[0; 1000], (host, port)).unwrap();
    }
}

/// Number of datagrams that [`flood_host`] sends.
const FLOOD: u64 = 50;

#[test]
fn loss_and_rate_limit_outside_traffic() {
    for tool in tools() {
        // A packet takes 8 s, so few of them leave before the sender ends.
        let slow = ["--rate-forward=1kbit", "--queue=3p"];
        for (path, cause) in [(&["--loss-forward=100%"][..], "loss"), (&slow[..], "queue")] {
            let server = UdpSocket::bind("127.0.0.1:0").unwrap();
            let port = server.local_addr().unwrap().port();
            let script = format!("ECHO_PORT={port} {}", program("internet::flood_host").join(" "));
            let internet = format!("--internet={tool}");
            let options = [&[internet.as_str(), "--json", "-q"], path].concat();
            let output = stdout(&run_with(&options, &["sh", "-c", &script]).output());
            let end: serde_json::Value = serde_json::from_str(output.lines().last().unwrap()).unwrap();
            let forward = &end["forward"];
            let dropped = forward["dropped"][cause].as_u64().unwrap();
            assert_eq!(forward["arrived"].as_u64(), Some(FLOOD), "{tool}: {end}");
            assert!(dropped >= if cause == "loss" { FLOOD } else { FLOOD - 10 }, "{tool}: {end}");
            server.set_nonblocking(true).unwrap();
            let came = (0..FLOOD).take_while(|_| server.recv(&mut [0; 1000]).is_ok()).count() as u64;
            assert!(came <= FLOOD - dropped, "{tool}: {came} of {end}");
        }
    }
}

/// Addresses of a host outside; the first one looks like one of a run.
const OUTSIDE: &str = "10.1.2.3";
const OUTSIDE6: &str = "2001:db8::3";

/// Asks the echo servers outside.
#[test]
#[ignore = "a program for other tests"]
fn ask_outside() {
    let to = env::var("ASK").unwrap_or_else(|_| OUTSIDE.into());
    let mut stream = TcpStream::connect((to.as_str(), 4242)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream.write_all(b"stream").unwrap();
    let mut bytes = [0; 6];
    stream.read_exact(&mut bytes).unwrap();
    println!("\noutside {} from {}", std::str::from_utf8(&bytes).unwrap(), env::var("RDT_LOCAL").unwrap());
}

/// Echo servers at [`OUTSIDE`], and the command of `INSIDE` while they listen.
#[test]
#[ignore = "a program for other tests"]
fn with_servers_outside() {
    echo_servers_at(OUTSIDE, 4242);
    echo_servers_at(OUTSIDE6, 4242);
    let status = Command::new("sh").args(["-c", &env::var("INSIDE").unwrap()]).status().unwrap();
    println!("\nstatus {status}");
}

/// Runs a command in a network that has a host at [`OUTSIDE`]; returns its output, or `None` if the
/// network cannot be made.
fn with_host_outside(command: &str) -> Option<String> {
    let device = "ip tuntap add mode tap name host0 && ip link set lo up && ip link set host0 up";
    let ipv6 = format!(
        "ip address add {OUTSIDE6}/64 dev host0 nodad && ip address add fe80::1/64 dev host0 nodad && ip -6 route add default via 2001:db8::1 dev host0"
    );
    let servers = program("internet::with_servers_outside").join(" ");
    let script = format!(
        "{{ {device} && ip address add {OUTSIDE}/24 dev host0 && ip route add default dev host0 && {ipv6}; }} || exit 99; {servers}"
    );
    let mut unshare = Command::new("unshare");
    unshare.args(["-Urn", "sh", "-c", &script]).env("INSIDE", command);
    let output = unshare.output().ok().filter(|output| code(output) != 99);
    if output.is_none() {
        rdt_testing::skipped("no network can be made by `unshare` and `ip`");
    }
    output.map(|output| {
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(told.contains("status exit status: 0"), "{told}{}", String::from_utf8_lossy(&output.stderr));
        told
    })
}

#[test]
fn outside_hosts_may_have_addresses_of_runs() {
    let ask = program("internet::ask_outside").join(" ");
    for tool in tools() {
        let run = format!("{PROGRAM} run -q --json --internet={tool} --to lan=10.1.0.0/16 loss=0% -- {ask}");
        let Some(output) = with_host_outside(&run) else { return };
        assert_eq!(said(&output, "outside "), "stream from 10.0.0.2", "{tool}");
        // Both directions took the path of the destination.
        let end = output.lines().find(|line| line.contains("\"end\"")).unwrap();
        let end: serde_json::Value = serde_json::from_str(end).unwrap();
        for direction in ["forward", "reverse"] {
            let counts =
                [0, 1].map(|path| end["destinations"][path][direction]["delivered"].as_u64().unwrap());
            assert!(counts[0] == 0 && counts[1] >= 3, "{tool}: {end}");
        }
    }
}

#[test]
fn nested_run_reaches_outside_and_far_end() {
    let (ask, server) = (program("internet::ask_outside").join(" "), helper("echo").join(" "));
    let inner = format!("{ask} && {}", helper("ask").join(" "));
    for tool in tools() {
        let nested = format!("{PROGRAM} run -q -- sh -c '{inner}'");
        let run = format!("{PROGRAM} run -q --internet={tool} --server '{server}' -- {nested}");
        let Some(output) = with_host_outside(&run) else { return };
        assert_eq!(said(&output, "outside "), "stream from 10.16.0.2", "{tool}");
        assert_eq!(said(&output, "echo "), "hello", "{tool}");
    }
}

#[test]
fn ipv6_hosts_outside_are_reached_from_nested_run() {
    let ask = program("internet::ask_outside").join(" ");
    let ask = format!("env ASK={OUTSIDE6} {ask}");
    for tool in tools() {
        for inner in [ask.clone(), format!("{PROGRAM} run -q --ipv6 -- {ask}")] {
            let run = format!("{PROGRAM} run -q --ipv6 --internet={tool} -- {inner}");
            let Some(output) = with_host_outside(&run) else { return };
            assert!(said(&output, "outside ").starts_with("stream from 10."), "{tool}: {output}");
        }
    }
}

#[test]
fn far_end_server_and_host_are_both_reached() {
    for tool in tools() {
        let port = echo_servers();
        let ask_host = format!("ECHO_PORT={port} {}", program("internet::ask_host").join(" "));
        let script = format!("{}; {ask_host}", helper("ask").join(" "));
        let server = helper("echo").join(" ");
        let options = ["-q", &format!("--internet={tool}"), "--server", &server];
        let output = stdout(&run_with(&options, &["sh", "-c", &script]).output());
        assert_eq!((said(&output, "echo"), said(&output, "tcp ")), ("hello", "stream"), "{tool}");
    }
}

#[test]
fn names_are_looked_up_by_host() {
    let tools = tools();
    // As systemd-resolved: only a program in the network of the host can ask it.
    let Ok(socket) = UdpSocket::bind("127.0.0.53:53") else {
        rdt_testing::skipped("port 53 of 127.0.0.53 cannot be had");
        return;
    };
    thread::spawn(move || answer_names(&socket));
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let file = folder.path().join("resolv.conf");
    fs::write(&file, "nameserver 127.0.0.53\n").unwrap();
    let look_up = program("helpers::look_up").join(" ");
    for tool in tools {
        let script = format!(
            "mount --bind {} /etc/resolv.conf || exit 99; exec {PROGRAM} run -q --internet={tool} --rtt 20ms -- {look_up}",
            file.display()
        );
        let Ok(output) = Command::new("unshare").args(["-m", "sh", "-c", &script]).output() else {
            rdt_testing::skipped("there is no `unshare`");
            return;
        };
        if code(&output) == 99 {
            rdt_testing::skipped(String::from_utf8_lossy(&output.stderr));
            return;
        }
        assert_eq!(said(&stdout(&output), "found "), "Some(192.0.2.7:1)", "{tool}: {output:?}");
    }
}

#[test]
fn nat_ends_with_killed_run() {
    for tool in tools() {
        let internet = format!("-q --internet={tool}");
        let running = run(&internet, &["sh", "-c", "echo up; exec sleep 1000"]).start();
        assert_eq!(running.line, "up");
        // The mark of the test is in its environment too.
        running.process("tap0");
        kill(running.child.id(), Signal::KILL);
        assert_eq!(running.end().0, 137, "{tool}");
    }
}

#[test]
fn end_of_nat_is_reported_and_command_continues() {
    for tool in tools() {
        let internet = format!("-q --internet={tool}");
        let running = run(&internet, &["sh", "-c", "echo up; sleep 1; exit 3"]).start();
        kill(running.process("tap0"), Signal::KILL);
        let (code, told) = running.end();
        assert_eq!((code, told.as_str()), (3, "rdt-emu: the program of --internet ended with code 137\n"));
    }
}

#[test]
fn internet_without_program_names_package() {
    if !host_allows() {
        return;
    }
    for (option, package) in [
        ("--internet", "slirp4netns or passt"),
        ("--internet=pasta", "passt"),
        ("--internet=slirp4netns", "slirp4netns"),
    ] {
        let mut command = Command::new(PROGRAM);
        command.args(["run", option, "--", "true"]).env("PATH", "/no/such/folder");
        let output = command.output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(69), "{told}");
        assert!(told.ends_with(&format!("install the package {package}\n")), "{told}");
    }
}

/// Writes a shell script that stands for pasta. Returns its folder, and the PATH with it.
fn instead_of_pasta(script: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pasta");
    fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.path().display(), env::var("PATH").unwrap());
    (folder, path)
}

#[test]
fn failed_nat_is_described() {
    if !host_allows() {
        return;
    }
    let (_folder, path) = instead_of_pasta("echo first; echo 'no route to anywhere' >&2; exit 1");
    let output = run("--internet=pasta", &["true"]).with_path(&path).output();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(code(&output), 69, "{told}");
    assert!(told.contains("pasta does not connect the far end: no route to anywhere\n"), "{told}");
}

#[test]
fn slow_nat_is_not_blamed_by_its_output() {
    if !host_allows() {
        return;
    }
    let (_folder, path) = instead_of_pasta("echo 'WARNING: something ordinary'; exec sleep 1000");
    let output = run("--internet=pasta", &["true"]).with_path(&path).output();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((code(&output), told.as_str()), (69, "rdt-emu: --internet: pasta was not ready within 5 s\n"));
}

#[test]
fn signal_while_nat_starts_ends_run() {
    if !host_allows() {
        return;
    }
    let (_folder, path) = instead_of_pasta("echo 'WARNING: something ordinary'; exec sleep 1000");
    // The first process inside has the signal of the terminal, the outer one also those of `kill`.
    for process in ["run", "--stage=init"] {
        let running = run("--internet=pasta", &["true"]).with_path(&path).spawn();
        running.process("1000");
        kill(running.process(process), Signal::TERM);
        let (code, told) = running.end();
        assert_eq!((code, told.as_str()), (143, "rdt-emu: signal 15 came before CMD was started\n"));
    }
}

#[test]
fn internet_is_for_outermost_run() {
    let Some(tool) = tools().first().copied() else { return };
    let internet = format!("-q --internet={tool}");
    let output = run(&internet, &[PROGRAM, "run", "-q", "--internet", "--", "true"]).output();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(code(&output) == 64 && told.contains("outermost of nested runs"), "{told}");
    // The far end of an inner run is that of the outer one, and so is what lies beyond it.
    let port = echo_servers();
    let script = format!(
        "ECHO_PORT={port} exec {PROGRAM} run -q --rtt 50ms -- {}",
        program("internet::ask_host").join(" ")
    );
    let output = stdout(&run(&internet, &["sh", "-c", &script]).output());
    assert_eq!(said(&output, "tcp "), "stream");
}

#[test]
fn interrupted_start_leaves_no_file() {
    if !host_allows() {
        return;
    }
    let (_folder, path) = instead_of_pasta("exec sleep 1000");
    let temporary = tempfile::tempdir().unwrap();
    let run = run("-q --internet=pasta", &["true"]).with_path(&path);
    let running = run.with_env("TMPDIR", temporary.path().to_str().unwrap()).spawn();
    running.process("1000");
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 1, "the name of the far network");
    kill(running.child.id(), Signal::INT);
    assert_eq!(running.end().0, 130);
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0);
}
