//! TCP through a tunnel: half-close, resets, many connections, programs that are killed.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

use rdt_program_testing::contract::check_named;
use rdt_program_testing::{names, scrape_until, value};

use super::process::{Home, PROGRAM, Program, WAIT_LIMIT, check_events};

/// Bytes that each of many clients sends and gets back.
const ECHO_BYTES: usize = 64 << 10;

/// Starts a server on a thread, which calls `handle` for each connection on a thread of its own.
pub(crate) fn server(handle: impl Fn(TcpStream) + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, handle) = (stream.unwrap(), handle.clone());
            stream.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
            thread::spawn(move || handle(stream));
        }
    });
    address
}

pub(crate) fn client(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(WAIT_LIMIT)).unwrap();
    stream
}

/// Reads all, then answers with the number of bytes and the sum of all bytes.
pub(crate) fn count(mut stream: TcpStream) {
    let mut buffer = vec![0; 1 << 16];
    let (mut bytes, mut sum) = (0_u64, 0_u64);
    while let Ok(read @ 1..) = stream.read(&mut buffer) {
        bytes += read as u64;
        sum += buffer[..read].iter().map(|&byte| u64::from(byte)).sum::<u64>();
    }
    write!(stream, "{bytes} {sum}").unwrap();
}

fn kind_of_end(stream: &mut TcpStream) -> Result<usize, ErrorKind> {
    stream.read_to_end(&mut Vec::new()).map_err(|error| error.kind())
}

#[test]
fn answer_follows_half_close() {
    let home = Home::new();
    let serve = home.serve(server(count), "");
    let connect = home.connect("anna", &serve.tickets[0], "");
    let mut stream = client(connect.address);
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|i| (i % 251).to_le_bytes()[0]).collect();
    stream.write_all(&bytes).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let sum: u64 = bytes.iter().map(|&byte| u64::from(byte)).sum();
    assert_eq!(answer, format!("{} {sum}", bytes.len()));
    let closed = connect.program.event("closed");
    assert_eq!((&closed["end"], &closed["sent_bytes"]), (&"finished".into(), &bytes.len().into()));
    assert!(closed["srtt_ns"].is_u64(), "{closed}");
    connect.program.signal("INT");
    let ended = connect.program.ended();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.summary()["finished"], 1);
    check_events(&ended);
    serve.program.event("closed");
    serve.program.signal("INT");
    check_events(&serve.program.ended());
}

#[test]
fn metrics_count_bytes_of_open_connections() {
    let home = Home::new();
    let serve = home.serve(server(count), "--metrics 0");
    let connect = home.connect("anna", &serve.tickets[0], "--metrics 0");
    let mut stream = client(connect.address);
    stream.write_all(&[7; 5000]).unwrap();
    let address = connect.metrics.unwrap();
    let metrics = scrape_until(address, "rdt_tunnel_sent_bytes_total", 5000.0);
    assert_eq!(
        (value(&metrics, "rdt_tunnel_open_connections"), value(&metrics, "rdt_tunnel_connections_total")),
        (1.0, 1.0)
    );
    check_named("docs/PROGRAMS.md", "## Metrics", &names(&metrics));
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "5000 35000");
    let metrics = scrape_until(address, "rdt_tunnel_finished_connections_total", 1.0);
    assert_eq!(
        (value(&metrics, "rdt_tunnel_sent_bytes_total"), value(&metrics, "rdt_tunnel_received_bytes_total")),
        (5000.0, 10.0)
    );
    scrape_until(serve.metrics.unwrap(), "rdt_tunnel_received_bytes_total", 5000.0);
}

#[test]
fn reset_arrives_as_reset_on_both_sides() {
    let home = Home::new();
    // The server resets after the first byte: unread data at the close does that.
    let resetting = server(|stream| {
        stream.peek(&mut [0]).unwrap();
    });
    let serve = home.serve(resetting, "");
    let connect = home.connect("anna", &serve.tickets[0], "");
    let mut stream = client(connect.address);
    stream.write_all(b"x").unwrap();
    assert_eq!(kind_of_end(&mut stream), Err(ErrorKind::ConnectionReset));
    assert_eq!(serve.program.event("closed")["end"], "reset");
    assert_eq!(connect.program.event("closed")["end"], "reset_by_peer");

    // The other way: the client resets, and the server sees it.
    let (tell, told) = channel();
    let watching = server(move |mut stream| {
        stream.write_all(b"x").unwrap();
        tell.send(kind_of_end(&mut stream)).unwrap();
    });
    let serve = home.serve(watching, "");
    let connect = home.connect("anna", &serve.tickets[0], "");
    let stream = client(connect.address);
    stream.peek(&mut [0]).unwrap();
    drop(stream);
    assert_eq!(told.recv_timeout(WAIT_LIMIT).unwrap(), Err(ErrorKind::ConnectionReset));
}

/// Returns a target that reads nothing until a message comes, and then tells how its client ended.
fn paused_target() -> (SocketAddr, Sender<()>, Receiver<Result<usize, ErrorKind>>) {
    let ((resume, resumed), (tell, told)) = (channel(), channel());
    let resumed = Arc::new(Mutex::new(resumed));
    let target = server(move |mut stream| {
        resumed.lock().unwrap().recv_timeout(WAIT_LIMIT).unwrap();
        tell.send(kind_of_end(&mut stream)).unwrap();
    });
    (target, resume, told)
}

/// Writes until the tunnel takes no more.
fn fill(mut stream: &TcpStream) -> u64 {
    stream.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
    let (block, mut written) = (vec![1; 1 << 20], 0);
    while let Ok(bytes @ 1..) = stream.write(&block) {
        written += bytes as u64;
        assert!(written < 1 << 30, "no back-pressure");
    }
    written
}

#[test]
fn reset_of_blocked_client_reaches_target() {
    let home = Home::new();
    let (target, resume, told) = paused_target();
    let serve = home.serve(target, "");
    let connect = home.connect("anna", &serve.tickets[0], "");
    let stream = client(connect.address);
    fill(&stream);
    socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
    drop(stream);
    assert_eq!(connect.program.event("closed")["end"], "reset");
    assert_eq!(serve.program.event("closed")["end"], "reset_by_peer");
    resume.send(()).unwrap();
    assert_eq!(told.recv_timeout(WAIT_LIMIT).unwrap(), Err(ErrorKind::ConnectionReset));
}

#[test]
fn killed_client_program_resets_paused_target() {
    let home = Home::new();
    let (target, resume, told) = paused_target();
    let serve = home.serve(target, "--idle-timeout 2s");
    let mut connect = home.connect("anna", &serve.tickets[0], "");
    let stream = client(connect.address);
    fill(&stream);
    connect.program.kill();
    assert_eq!(serve.program.event("closed")["end"], "lost");
    resume.send(()).unwrap();
    assert_eq!(told.recv_timeout(WAIT_LIMIT).unwrap(), Err(ErrorKind::ConnectionReset));
}

#[test]
fn refused_target_resets_client() {
    let home = Home::new();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let serve = home.serve(closed, "");
    let connect = home.connect("anna", &serve.tickets[0], "");
    let mut stream = client(connect.address);
    assert_eq!(kind_of_end(&mut stream), Err(ErrorKind::ConnectionReset));
    let event = connect.program.event("closed");
    assert_eq!(event["end"], "target");
    assert_eq!(event["text"], "the target refused the connection: no program listens there");
}

#[test]
fn sixty_four_connections_run_at_once() {
    let home = Home::new();
    // Each answers when all are connected.
    let barrier = Arc::new(Barrier::new(64));
    let echo = server(move |mut stream| {
        let mut bytes = vec![0; ECHO_BYTES];
        stream.read_exact(&mut bytes).unwrap();
        barrier.wait();
        stream.write_all(&bytes).unwrap();
    });
    let serve = home.serve(echo, "");
    let connect = home.connect("anna", &serve.tickets[0], "");
    let clients: Vec<_> = (0..64)
        .map(|i| {
            let address = connect.address;
            thread::spawn(move || {
                let mut stream = client(address);
                let sent = vec![i; ECHO_BYTES];
                stream.write_all(&sent).unwrap();
                let mut bytes = Vec::new();
                stream.read_to_end(&mut bytes).unwrap();
                assert!(bytes == sent, "{i}: {} bytes", bytes.len());
            })
        })
        .collect();
    for client in clients {
        client.join().unwrap();
    }
    // A client is finished before the confirmation of its last bytes has arrived.
    for _ in 0..64 {
        connect.program.event("closed");
    }
    connect.program.signal("TERM");
    let summary = connect.program.ended().summary();
    assert_eq!((&summary["connections"], &summary["exit_code"]), (&64.into(), &0.into()));
}

/// Of 40 descriptors, 32 are reserved.
#[test]
fn lack_of_descriptors_refuses_as_busy() {
    let home = Home::new();
    let key = home.run("anna", "key").lines.remove(0);
    let allow = home.write("allow", &key);
    let args = format!("--to {} --listen 127.0.0.1:0 --json --allow {}", server(count), allow.display());
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -n 40; exec {PROGRAM} serve {args}")]);
    command.env("XDG_CONFIG_HOME", home.path("server")).stdout(Stdio::piped()).stderr(Stdio::piped());
    let serve = Program::start(&mut command);
    let address = serve.event("listening")["address"].as_str().unwrap().to_owned();
    let connect = home.connect("anna", &address, "");
    let mut open = Vec::new();
    for _ in 0..8 {
        open.push(client(connect.address));
        serve.event("opened");
    }
    let refused: Vec<_> = (0..52).map(|_| client(connect.address)).collect();
    for mut refused in refused {
        assert_eq!(kind_of_end(&mut refused), Err(ErrorKind::ConnectionReset));
    }
    drop(open);
    connect.program.signal("INT");
    let ended = connect.program.ended();
    let refused =
        ended.errors.lines().filter(|line| line.contains("the peer has too many connections")).count();
    assert_eq!(refused, 52, "{ended:?}");
}

#[test]
fn interrupt_resets_open_connections() {
    let home = Home::new();
    let serve = home.serve(server(count), "");
    let connect = home.connect("anna", &serve.tickets[0], "");
    let mut stream = client(connect.address);
    stream.write_all(b"x").unwrap();
    serve.program.event("opened");
    serve.program.signal("INT");
    assert_eq!(kind_of_end(&mut stream), Err(ErrorKind::ConnectionReset));
    assert_eq!(connect.program.event("closed")["end"], "stopped_by_peer");
    assert_eq!(serve.program.ended().code, Some(130));
}

#[test]
fn killed_server_is_noticed_and_replaced() {
    let home = Home::new();
    let target = server(count);
    let first = home.serve(target, "--open");
    let address = first.address;
    let connect = home.connect("anna", &address.to_string(), "--idle-timeout 2s --connect-give-up 2s");
    let mut stream = client(connect.address);
    stream.write_all(b"x").unwrap();
    first.program.event("opened");
    drop(first);
    assert_eq!(kind_of_end(&mut stream), Err(ErrorKind::ConnectionReset));
    connect.program.event("lost");
    let args = format!("serve --to {target} --listen {address} --open --json");
    let second = Program::start(&mut home.command("server", &args));
    second.event("listening");
    let mut stream = client(connect.address);
    stream.write_all(b"a").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "1 97");
    connect.program.event("restored");
}

#[test]
fn blocked_reader_stops_writer() {
    let home = Home::new();
    let (tell, told) = channel();
    let told = Arc::new(Mutex::new(told));
    // Reads when it is told to.
    let target = server(move |stream| {
        told.lock().unwrap().recv_timeout(WAIT_LIMIT).unwrap();
        count(stream);
    });
    let serve = home.serve(target, "");
    let connect = home.connect("anna", &serve.tickets[0], "");
    let mut stream = client(connect.address);
    let written = fill(&stream);
    tell.send(()).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, format!("{written} {written}"));
}

#[test]
fn connections_beyond_descriptors_wait() {
    let home = Home::new();
    let serve = home.serve(server(count), "");
    let connect = home.connect_limited(40, "anna", &serve.tickets[0]);
    let mut clients: Vec<_> = (0..50).map(|_| client(connect.address)).collect();
    // Those that were accepted first keep the others waiting until they end.
    for mut stream in clients.drain(..) {
        stream.write_all(&[7; 10]).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "10 70");
    }
    connect.program.signal("INT");
    let ended = connect.program.ended();
    assert!(ended.errors.contains("further ones wait"), "{ended:?}");
}
