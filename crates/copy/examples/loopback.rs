//! Copies a file or directory over an encrypted connection on the loopback interface, with both
//! sides in this process, and prints the time, the rate and the peak of memory.
//!
//! usage: cargo run --release -p rdt-copy --example loopback -- SOURCE DESTINATION

use std::error::Error;
use std::sync::Arc;

use rdt_copy::{Existing, Request, Root, push, serve};
use rdt_endpoint::tokio::Endpoint;
use rdt_endpoint::{Connect, EndpointConfig, Listen, generate_key};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut paths = std::env::args_os().skip(1);
    let (Some(source), Some(dest)) = (paths.next(), paths.next()) else {
        return Err("usage: loopback SOURCE DESTINATION".into());
    };
    let identity = generate_key()?;
    let server = Endpoint::bind("127.0.0.1:0", EndpointConfig::default())?;
    let listener = server.listen(Listen::new(identity.clone()))?;
    let client = Endpoint::bind("127.0.0.1:0", EndpointConfig::default())?;
    let connecting = client.connect(server.local_addr(), Connect::to(identity.public()));
    let (near, far) = tokio::join!(connecting, listener.accept());
    let (near, far) = (near?, far?);

    let mut request = Request { sources: vec![source.into()], dest: dest.into(), ..Request::default() };
    request.destination.existing = Existing::Overwrite;
    let pushing = tokio::spawn(push(near, request, Arc::new(())));
    let serving = tokio::spawn(serve(far, Root::whole()?, Arc::new(())));
    let summary = pushing.await??;
    serving.await??;
    for failure in &summary.failed {
        eprintln!("{}: {}", failure.path.display(), failure.text);
    }
    let seconds = summary.elapsed.as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "printed with three digits")]
    let rate = summary.bytes as f64 * 8e-9 / seconds;
    let peak = std::fs::read_to_string("/proc/self/status")
        .ok()
        .and_then(|status| status.lines().find(|line| line.starts_with("VmHWM")).map(String::from))
        .unwrap_or_default();
    println!("{} files, {} bytes in {seconds:.3} s: {rate:.3} Gbit/s; {peak}", summary.files, summary.bytes);
    Ok(())
}
