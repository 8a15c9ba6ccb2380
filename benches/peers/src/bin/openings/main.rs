//! Time from a request to the last byte of its answer over an emulated path: on new and on kept
//! connections of rdt, quinn, s2n-quic, TCP with TLS 1.3 and TCP. Prints a Markdown table.
//!
//! This program starts itself twice through `rdt-emu run`, as the server and as the client, so that
//! kernel TCP and UDP pass the same path. Rows alternate request by request. Memory and handshakes
//! a second are measured without a path, by `--handshakes`.

mod handshakes;
mod quic;
mod rdt;
mod tcp;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Parser;

/// Measures requests on new and kept connections
#[derive(Parser)]
struct Args {
    /// Delay, rate, queue and loss, as options of `rdt-emu run`
    #[arg(
        long,
        allow_hyphen_values = true,
        default_value = "--rtt 50ms --rate 100mbit --queue 1bdp --loss 1%"
    )]
    path: String,
    /// Requests of each row
    #[arg(long, default_value_t = 200)]
    count: usize,
    /// Bytes of an answer; a request has 1000
    #[arg(long, value_delimiter = ',', default_value = "1000,100000")]
    bytes: Vec<usize>,
    /// Only rows whose name contains this
    #[arg(long, default_value = "")]
    only: String,
    /// Measures handshakes for this long, and the memory of idle connections, over loopback
    #[arg(long, value_name = "SECONDS")]
    handshakes: Option<u64>,
    /// Rounds of --handshakes
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Directory of rdt-emu
    #[arg(long, value_name = "DIR", default_value = "../../target/release")]
    rdt: PathBuf,
    /// Serves or requests; the directory has certificate and key
    #[arg(long, hide = true, num_args = 2, value_names = ["ROLE", "DIR"])]
    role: Option<Vec<String>>,
}

/// Bytes of a request; the first eight are the length of its answer.
const REQUEST: usize = 1000;

const ROWS: [(&str, Kind); 12] = [
    ("rdt, first contact", Kind::RdtFirst),
    ("rdt, new in an association", Kind::RdtNew),
    ("quinn, new", Kind::Quinn { kept: false, early: false }),
    ("quinn, new, 0-RTT", Kind::Quinn { kept: false, early: true }),
    ("s2n-quic, new", Kind::S2n { kept: false }),
    ("TCP with TLS 1.3, new", Kind::Tls { kept: false }),
    ("TCP, new", Kind::Tcp { kept: false }),
    ("rdt, kept", Kind::RdtKept),
    ("quinn, kept", Kind::Quinn { kept: true, early: false }),
    ("s2n-quic, kept", Kind::S2n { kept: true }),
    ("TCP with TLS 1.3, kept", Kind::Tls { kept: true }),
    ("TCP, kept", Kind::Tcp { kept: true }),
];

#[derive(Clone, Copy)]
enum Kind {
    RdtFirst,
    RdtOther,
    RdtNew,
    RdtKept,
    Quinn { kept: bool, early: bool },
    S2n { kept: bool },
    Tls { kept: bool },
    Tcp { kept: bool },
}

/// Client of a row, with its kept connection.
enum Client {
    Rdt(rdt::Client),
    Quinn(quic::QuinnClient),
    S2n(Box<quic::S2nClient>),
    Tcp(tcp::Client),
}

impl Client {
    async fn new(kind: Kind, host: &str, directory: &Path) -> Result<Self> {
        Ok(match kind {
            Kind::RdtFirst => Self::Rdt(rdt::Client::new(host, rdt::Opens::WithoutAssociation)?),
            Kind::RdtOther => Self::Rdt(rdt::Client::new(host, rdt::Opens::AtOtherAddress)?),
            Kind::RdtNew => Self::Rdt(rdt::Client::new(host, rdt::Opens::InAssociation)?),
            Kind::RdtKept => Self::Rdt(rdt::Client::new(host, rdt::Opens::Once)?),
            Kind::Quinn { kept, early } => Self::Quinn(quic::QuinnClient::new(host, directory, kept, early)?),
            Kind::S2n { kept } => Self::S2n(Box::new(quic::S2nClient::new(host, directory, kept)?)),
            Kind::Tls { kept } => Self::Tcp(tcp::Client::new(host, Some(directory), kept)?),
            Kind::Tcp { kept } => Self::Tcp(tcp::Client::new(host, None, kept)?),
        })
    }

    async fn exchange(&mut self, bytes: usize) -> Result<()> {
        match self {
            Self::Rdt(client) => client.exchange(bytes).await,
            Self::Quinn(client) => client.exchange(bytes).await,
            Self::S2n(client) => client.exchange(bytes).await,
            Self::Tcp(client) => client.exchange(bytes).await,
        }
    }
}

fn main() -> Result<()> {
    let args = Args::parse();
    if let Some(seconds) = args.handshakes {
        return handshakes::measure(Duration::from_secs(seconds), args.rounds);
    }
    let Some(role) = &args.role else { return start(&args) };
    let directory = Path::new(&role[1]);
    runtime()?.block_on(async {
        match role[0].as_str() {
            "serve" => serve(directory).await,
            "request" => request(&args, directory).await,
            role => bail!("there is no role {role}"),
        }
    })
}

/// Starts server and client on the two sides of a path.
fn start(args: &Args) -> Result<()> {
    let directory = make_certificate()?;
    let own = std::env::current_exe()?;
    let server = format!("exec '{}' --role serve '{}'", own.display(), directory.path().display());
    let status = Command::new(args.rdt.join("rdt-emu"))
        .arg("run")
        .args(args.path.split_whitespace())
        .args(["--quiet", "--server", &server, "--"])
        .arg(&own)
        .args(std::env::args_os().skip(1))
        .args(["--role", "request"])
        .arg(directory.path())
        .status()
        .context("rdt-emu")?;
    ensure!(status.success(), "rdt-emu run: {status}");
    Ok(())
}

/// Returns a directory with a certificate for "localhost" and its key.
fn make_certificate() -> Result<tempfile::TempDir> {
    let directory = tempfile::tempdir()?;
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    std::fs::write(directory.path().join("certificate.pem"), made.cert.pem())?;
    std::fs::write(directory.path().join("key.pem"), made.signing_key.serialize_pem())?;
    Ok(directory)
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

/// Serves all kinds, each at a port of its own.
async fn serve(directory: &Path) -> Result<()> {
    let host = std::env::var("RDT_LOCAL").context("RDT_LOCAL has the address")?;
    tokio::try_join!(
        rdt::serve(&host),
        quic::serve_quinn(&host, directory),
        quic::serve_s2n(&host, directory),
        tcp::serve(&host, Some(directory)),
        tcp::serve(&host, None),
    )?;
    Ok(())
}

async fn request(args: &Args, directory: &Path) -> Result<()> {
    let host = std::env::var("RDT_PEER").context("RDT_PEER has the address")?;
    // All servers listen by then.
    tokio::time::sleep(Duration::from_secs(1)).await;
    println!("`rdt-emu run {}`, {} requests a row; ms.\n", args.path, args.count);
    println!(
        "| connection | answer, bytes | p50 | p90 | p99 | most | over 1.5 of p50 |\n|---|---|---|---|---|---|---|"
    );
    for &bytes in &args.bytes {
        let mut rows = Vec::new();
        for (name, kind) in ROWS.iter().filter(|(name, _)| name.contains(&args.only)) {
            let mut client = Client::new(*kind, &host, directory).await?;
            // Opens kept connections and associations.
            client.exchange(REQUEST).await.with_context(|| *name)?;
            rows.push((*name, client, Vec::new()));
        }
        for _ in 0..args.count {
            for (name, client, times) in &mut rows {
                let start = Instant::now();
                client.exchange(bytes).await.with_context(|| *name)?;
                times.push(start.elapsed());
            }
        }
        for (name, _, times) in &mut rows {
            times.sort_unstable();
            let at =
                |share: usize| times[(times.len() * share / 100).min(times.len() - 1)].as_secs_f64() * 1e3;
            let slow = times.iter().filter(|time| time.as_secs_f64() * 1e3 > 1.5 * at(50)).count();
            println!(
                "| {name} | {bytes} | {:.1} | {:.1} | {:.1} | {:.1} | {slow} |",
                at(50),
                at(90),
                at(99),
                at(100)
            );
        }
    }
    Ok(())
}

/// Returns a request for an answer of `bytes`.
fn request_for(bytes: usize) -> [u8; REQUEST] {
    let mut request = [7; REQUEST];
    request[..8].copy_from_slice(&(bytes as u64).to_be_bytes());
    request
}

/// Returns the answer to a request.
fn answer_to(request: &[u8; REQUEST]) -> Vec<u8> {
    let bytes = u64::from_be_bytes(request[..8].try_into().expect("eight bytes"));
    vec![9; usize::try_from(bytes).unwrap_or(0).min(1 << 30)]
}
