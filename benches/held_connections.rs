//! Many connections held by one endpoint over tokio: `cargo bench --features tokio --bench
//! held_connections` (`-- --connections N --seconds N --bytes N`: 10000, 600, 1000000).
//!
//! A server and a client, one process and one endpoint each, over loopback. The client opens all
//! connections, then holds them for the given time. In this time each connection sends its bytes
//! once, at an instant of its own, and reads their number and CRC-32, as the server counted them.
//! Memory is that of the server's process (`/proc/self/statm`, so Linux only), against the moment
//! when it had served and closed a few connections. Targets: no error, 8 KiB an idle connection.

use std::env;
use std::error::Error;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rdt::tokio::{Endpoint, Listener, Stream};
use rdt::{Connect, EndpointConfig, Listen, generate_key};
use rdt_udp::clock;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

type Failure = Box<dyn Error + Send + Sync>;

/// Handshakes at the same time.
const OPENING: usize = 64;
/// Connections before the first measurement, so that buffers and tables have their size.
const WARM_UP: u32 = 64;
/// Target for the memory of an idle connection, bytes.
const TARGET: i64 = 8 * 1024;

fn main() -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if let Ok(server) = env::var("HELD_CONNECTIONS_SERVER") {
        return runtime.block_on(client(&server));
    }
    runtime.block_on(server())
}

/// Runs the server, starts the client's process, and prints memory at each of its steps.
async fn server() -> Result<(), Failure> {
    let identity = generate_key()?;
    let endpoint = Endpoint::bind((Ipv4Addr::LOCALHOST, 0), EndpointConfig::default())?;
    let address = endpoint.local_addr();
    let key = identity.public().to_string();
    let listener = endpoint.listen(Listen::new(identity))?;
    let errors = Arc::new(AtomicUsize::new(0));
    let served = tokio::spawn(serve(listener, errors.clone()));

    let mut child = spawn_client(address, &key)?;
    let lines = BufReader::new(child.stdout.take().ok_or("the client has no output")?).lines();
    let (steps, mut next) = tokio::sync::mpsc::unbounded_channel();
    let reader = std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            let _ = steps.send(line);
        }
    });
    let started = clock::now();
    let connections = i64::try_from(argument("--connections", 10_000))?;
    let mut before = resident()?;
    println!("| s | step | server's memory, MB | bytes for each connection |\n|---|---|---|---|");
    while let Some(step) = next.recv().await {
        let now = resident()?;
        if step == "warm" {
            before = now;
        }
        println!(
            "| {} | {step} | {}.{} | {} |",
            (clock::now() - started).as_secs(),
            now / 1_000_000,
            now / 100_000 % 10,
            (now - before) / connections
        );
    }
    let _ = reader.join();
    served.abort();
    let failed = errors.load(Ordering::Relaxed);
    println!("\n{failed} errors of the server; target {TARGET} bytes for an idle connection");
    if !child.wait()?.success() || failed > 0 {
        return Err("connections failed".into());
    }
    Ok(())
}

fn spawn_client(address: SocketAddr, key: &str) -> Result<Child, Failure> {
    Ok(Command::new(env::current_exe()?)
        .args(env::args().skip(1))
        .env("HELD_CONNECTIONS_SERVER", format!("{address} {key}"))
        .stdout(Stdio::piped())
        .spawn()?)
}

async fn serve(listener: Listener, errors: Arc<AtomicUsize>) {
    while let Ok(stream) = listener.accept().await {
        let errors = errors.clone();
        tokio::spawn(async move {
            if let Err(error) = answer(stream).await {
                errors.fetch_add(1, Ordering::Relaxed);
                eprintln!("server: {error}");
            }
        });
    }
}

/// Reads the client's bytes, answers with their number and CRC-32, and waits for the client's end.
async fn answer(mut stream: Stream) -> Result<(), Failure> {
    // The buffer lives only as long as bytes arrive: an idle connection has none.
    let mut first = [0];
    if stream.read(&mut first).await? == 0 {
        return Ok(());
    }
    let (length, crc) = receive(&mut stream, first).await?;
    stream.write_u64(length).await?;
    stream.write_u32(crc).await?;
    stream.read_u8().await.map_or(Ok(()), |_| Err("bytes after the end"))?;
    stream.shutdown().await?;
    Ok(())
}

async fn receive(stream: &mut Stream, first: [u8; 1]) -> Result<(u64, u32), Failure> {
    let expected = argument("--bytes", 1_000_000);
    let mut buffer = vec![0; 16 * 1024];
    let mut crc = crc32fast::Hasher::new();
    crc.update(&first);
    let mut length = 1;
    while length < expected {
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            return Err(format!("the stream ended after {length} bytes").into());
        }
        crc.update(&buffer[..read]);
        length += read as u64;
    }
    Ok((length, crc.finalize()))
}

/// Opens all connections, lets each send once during the time, and closes them.
async fn client(server: &str) -> Result<(), Failure> {
    let (address, key) = server.split_once(' ').ok_or("no address of the server")?;
    let (address, key) = (address.parse::<SocketAddr>()?, key.parse::<rdt_crypto::PublicKey>()?);
    let connections = u32::try_from(argument("--connections", 10_000))?;
    let held = Duration::from_secs(argument("--seconds", 600));
    let endpoint = Arc::new(Endpoint::bind((Ipv4Addr::LOCALHOST, 0), EndpointConfig::default())?);
    let payload: Arc<[u8]> =
        (0..argument("--bytes", 1_000_000)).map(|i| ((i * 31) >> 3).to_le_bytes()[0]).collect();
    let crc = crc32fast::hash(&payload);

    for stream in open_all(&endpoint, address, key, WARM_UP).await? {
        talk(stream, &payload, crc).await?.shutdown().await?;
    }
    report("warm");
    let streams = open_all(&endpoint, address, key, connections).await?;
    report("open, no byte sent");

    let mut tasks = JoinSet::new();
    for (i, stream) in (0..).zip(streams) {
        let payload = payload.clone();
        let wait = held * i / connections;
        tasks.spawn(async move {
            tokio::time::sleep(wait).await;
            talk(stream, &payload, crc).await
        });
    }
    let (mut streams, mut failed) = (Vec::new(), 0);
    while let Some(result) = tasks.join_next().await {
        match result? {
            Ok(stream) => streams.push(stream),
            Err(error) => {
                failed += 1;
                eprintln!("client: {error}");
            }
        }
        if streams.len().is_multiple_of(connections as usize / 4) {
            report(&format!("{} have sent", streams.len()));
        }
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    report(&format!("all idle, {failed} errors of the client"));

    let mut tasks = JoinSet::new();
    for mut stream in streams {
        tasks.spawn(async move {
            stream.shutdown().await?;
            stream.read_u8().await.map_or(Ok(()), |_| Err("bytes after the end"))?;
            Ok::<_, Failure>(())
        });
    }
    while let Some(result) = tasks.join_next().await {
        if let Err(error) = result? {
            failed += 1;
            eprintln!("client: {error}");
        }
    }
    let _ = tokio::time::timeout(Duration::from_secs(60), endpoint.wait_idle()).await;
    report("closed");
    tokio::time::sleep(Duration::from_secs(60)).await;
    report("a minute later");
    drop(open_all(&endpoint, address, key, connections).await?);
    report("as many opened again");
    if failed > 0 { Err(format!("{failed} connections failed").into()) } else { Ok(()) }
}

async fn open_all(
    endpoint: &Arc<Endpoint>,
    address: SocketAddr,
    key: rdt_crypto::PublicKey,
    connections: u32,
) -> Result<Vec<Stream>, Failure> {
    let permits = Arc::new(Semaphore::new(OPENING));
    let mut tasks = JoinSet::new();
    for _ in 0..connections {
        let (endpoint, permits) = (endpoint.clone(), permits.clone());
        tasks.spawn(async move {
            let _permit = permits.acquire().await?;
            Ok::<_, Failure>(endpoint.connect(address, Connect::to(key)).await?)
        });
    }
    tasks.join_all().await.into_iter().collect()
}

/// Sends the payload, and compares what the server counted.
async fn talk(mut stream: Stream, payload: &[u8], crc: u32) -> Result<Stream, Failure> {
    stream.write_all(payload).await?;
    let answer = (stream.read_u64().await?, stream.read_u32().await?);
    if answer != (payload.len() as u64, crc) {
        return Err(format!("the server counted {answer:?}").into());
    }
    Ok(stream)
}

fn report(step: &str) {
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{step}").and_then(|()| out.flush());
}

/// Returns the resident memory of this process, bytes.
fn resident() -> Result<i64, Failure> {
    let mut text = String::new();
    fs::File::open("/proc/self/statm")?.read_to_string(&mut text)?;
    let pages: i64 = text.split_whitespace().nth(1).ok_or("no resident memory")?.parse()?;
    Ok(pages * 4096)
}

/// Returns the value after `name`, or the default.
fn argument(name: &str, default: u64) -> u64 {
    let mut arguments = env::args().skip_while(|argument| argument != name).skip(1);
    arguments.next().map_or(default, |value| value.parse().expect("a number after the option"))
}
