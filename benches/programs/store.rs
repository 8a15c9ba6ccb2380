//! Cost of storing a transfer: without output, to a file in memory, to a file on disk and to a
//! pipe, compared with one thread that only writes as many bytes to the same place: `cargo bench
//! --bench store` (`-- --rounds N --bytes N`: 3, 4000000000).
//!
//! The time is that of `rdt-send`, which exits when the receiver has confirmed the transfer. The
//! disk is that of cargo's target directory.

mod common;

use std::fs::{self, File};
use std::io::{copy, pipe, sink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use common::{
    CONFIG, Program, RECV, Surroundings, argument, assert_arrived, cpu_per_gb, median, number, rounds, table,
};
use rdt_udp::clock;
use serde_json::Value;

/// Directory on a disk of this host, and directory in memory, which may not exist.
const DISK: &str = env!("CARGO_TARGET_TMPDIR");
const MEMORY: &str = "/dev/shm";
/// Bytes per write of the plain writer.
const PIECE: usize = 1 << 20;
/// Formats, with the arguments of the sender.
const FORMATS: [(&str, &str); 3] =
    [("native, AES-128-GCM", ""), ("native, cipher none", "--insecure"), ("classic", "8192 0 0 10000")];

/// Destination of the bytes.
#[derive(Debug, Clone, Copy)]
enum Place {
    Nowhere,
    /// A file in this directory; with `sync` it is on the disk before the transfer is confirmed.
    File {
        directory: &'static str,
        sync: bool,
    },
    Pipe,
}

fn main() {
    let surroundings = Surroundings::now();
    let (rounds, bytes) = (rounds(3), argument("--bytes", 4_000_000_000));
    println!(
        "rdt-recv --no-link; medians of {rounds} interleaved rounds of {bytes} bytes. CPU: both sides.\n"
    );
    let formats = FORMATS.map(|(name, _)| format!("{name}, Gbit/s"));
    let columns = formats.iter().flat_map(|name| [name, "CPU s/GB"]);
    table(&["to", "plain writer Gbit/s"].into_iter().chain(columns).collect::<Vec<_>>());
    let file = |directory, sync| Place::File { directory, sync };
    let mut places = vec![("nowhere", Place::Nowhere, Runs::default())];
    if Path::new(MEMORY).is_dir() {
        places.push(("a file in memory (tmpfs)", file(MEMORY, false), Runs::default()));
    }
    places.push(("a file on a disk", file(DISK, false), Runs::default()));
    places.push(("the same, --sync", file(DISK, true), Runs::default()));
    places.push(("a pipe", Place::Pipe, Runs::default()));
    for _ in 0..rounds {
        for (_, place, runs) in &mut places {
            runs.plain.extend(plain(*place, bytes));
            for (runs, (_, format)) in runs.formats.iter_mut().zip(FORMATS) {
                runs.push(transfer(*place, format, bytes));
            }
        }
    }
    for (name, _, runs) in &places {
        println!("| {name} | {} |", runs.cells(bytes));
    }
    surroundings.report();
}

/// Total time, and the processor time of both programs in seconds per GB.
type Run = (Duration, f64);

#[derive(Default)]
struct Runs {
    plain: Vec<Duration>,
    formats: [Vec<Run>; 3],
}

impl Runs {
    fn cells(&self, bytes: u64) -> String {
        #[expect(clippy::cast_precision_loss, reason = "printed with two decimals")]
        let gbps = |time: &Duration| bytes as f64 * 8e-9 / time.as_secs_f64();
        let plain: Vec<_> = self.plain.iter().map(gbps).collect();
        let mut cells = vec![if plain.is_empty() { "-".into() } else { format!("{:.1}", median(&plain)) }];
        for runs in &self.formats {
            cells.push(format!("{:.1}", median(&runs.iter().map(|run| gbps(&run.0)).collect::<Vec<_>>())));
            let cpu = median(&runs.iter().map(|run| run.1).collect::<Vec<_>>());
            cells.push(if cpu.is_finite() { format!("{cpu:.3}") } else { "-".into() });
        }
        cells.join(" | ")
    }
}

/// Writes `bytes` to the destination with one thread.
fn plain(place: Place, bytes: u64) -> Option<Duration> {
    let piece = vec![7; PIECE];
    let began = clock::now();
    match place {
        Place::Nowhere => return None,
        Place::File { directory, sync } => {
            let kept = Kept(Path::new(directory).join("rdt-bench-plain"));
            let mut file = File::create(&kept.0).expect("a file can be made");
            write(&mut file, &piece, bytes);
            if sync {
                file.sync_all().expect("the disk works");
            }
            let took = began.elapsed();
            drop(kept);
            return Some(took);
        }
        Place::Pipe => {
            let (mut reader, mut writer) = pipe().expect("a pipe can be made");
            let reading = thread::spawn(move || copy(&mut reader, &mut sink()));
            write(&mut writer, &piece, bytes);
            drop(writer);
            let got = reading.join().expect("reading works").expect("reading works");
            assert_eq!(got, bytes);
        }
    }
    Some(began.elapsed())
}

fn write(to: &mut impl std::io::Write, piece: &[u8], bytes: u64) {
    let mut left = bytes;
    while left > 0 {
        let n = usize::try_from(left).map_or(piece.len(), |left| left.min(piece.len()));
        to.write_all(&piece[..n]).expect("there is room");
        left -= n as u64;
    }
}

fn transfer(place: Place, format: &str, bytes: u64) -> Run {
    let send = |address: &str| {
        let began = clock::now();
        let sent = Program::sender(&format!("{address} {format} --bytes {bytes} --quiet")).last_line();
        assert_arrived(&sent);
        (sent, began.elapsed())
    };
    let mut args = "--no-link --ack-every batch --insecure --once".to_string();
    let kept = match place {
        Place::Pipe => return through_pipe(&args, bytes, send),
        Place::Nowhere => None,
        Place::File { directory, sync } => {
            let kept = Kept(Path::new(directory).join("rdt-bench-kept"));
            args = format!("{args} --output {}{}", kept.0.display(), if sync { " --sync" } else { "" });
            Some(kept)
        }
    };
    let (mut receiver, address) = Program::receiver(&args);
    let (sent, took) = send(&address);
    let received = receiver.last_line();
    if let Some(kept) = &kept {
        assert_eq!(fs::metadata(&kept.0).map(|kept| kept.len()).ok(), Some(bytes));
    }
    (took, cpu_per_gb(&sent, &received))
}

/// Measures a transfer to a pipe. The receiver prints no processor time if its standard output
/// carries the transfer.
fn through_pipe(args: &str, bytes: u64, send: impl Fn(&str) -> (Value, Duration)) -> Run {
    let address = std::net::UdpSocket::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
    let address = address.expect("a free port").to_string();
    let mut receiver = Command::new(RECV)
        .args(args.split_whitespace())
        .args(["--output", "-", "--bind", &address])
        .env(CONFIG.0, CONFIG.1)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("rdt-recv was built with this bench");
    let mut output = receiver.stdout.take().expect("its output is piped");
    let reader = thread::spawn(move || copy(&mut output, &mut sink()).expect("rdt-recv writes"));
    let (sent, took) = send(&address);
    assert_eq!(reader.join().expect("reading works"), bytes);
    let ended = receiver.wait().expect("rdt-recv ends");
    assert!(ended.success(), "{ended}");
    assert!(number(&sent, "bytes") > 0.0);
    (took, f64::NAN)
}

/// A file that is removed on drop.
struct Kept(PathBuf);

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
