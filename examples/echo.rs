//! Echo of an encrypted stream over tokio: a server, and a client that sends its standard input.
//!
//! `cargo run --features tokio,emulator --example echo -- serve 127.0.0.1:7300` prints the key for
//! the other side: `... --example echo -- 127.0.0.1:7300 KEY`. Without arguments both sides
//! run in this process, over an emulated path with 5 % loss.

use std::error::Error;

use rdt::tokio::{Endpoint, Listener, Stream};
use rdt::{Connect, EndpointConfig, Listen, Network, generate_key};
use tokio::io::{copy, stdin, stdout};

async fn serve(listener: Listener) -> Result<(), Box<dyn Error>> {
    loop {
        let (mut read, mut write) = listener.accept().await?.into_split();
        tokio::spawn(async move {
            let bytes = copy(&mut read, &mut write).await;
            eprintln!("echoed {bytes:?} bytes to {:?}", read.peer_addr());
        });
    }
}

/// Sends `input` and prints the echo.
async fn talk(
    stream: Stream,
    mut input: impl tokio::io::AsyncRead + Unpin + Send + 'static,
) -> Result<(), Box<dyn Error>> {
    let (mut read, mut write) = stream.into_split();
    // The dropped half ends the stream, as `shutdown` does.
    tokio::spawn(async move { copy(&mut input, &mut write).await });
    copy(&mut read, &mut stdout()).await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", address] => {
            let identity = generate_key()?;
            let endpoint = Endpoint::bind(address, EndpointConfig::default())?;
            println!("{} {}", endpoint.local_addr(), identity.public());
            serve(endpoint.listen(Listen::new(identity))?).await
        }
        [address, key] => talk(rdt::tokio::connect(address, Connect::to(key.parse()?)).await?, stdin()).await,
        [] => {
            let network = Network::new("rtt 20ms loss 5%", 7)?;
            let (identity, server) = (generate_key()?, Endpoint::on_network(&network)?);
            let (to, connect) = (server.local_addr(), Connect::to(identity.public()));
            let listener = server.listen(Listen::new(identity))?;
            tokio::spawn(async { serve(listener).await.map_err(|error| eprintln!("{error}")) });
            let client = Endpoint::on_network(&network)?;
            talk(client.connect(to, connect).await?, &b"hello over a lossy path\n"[..]).await
        }
        _ => Err("usage: [serve ADDRESS | ADDRESS KEY]".into()),
    }
}
