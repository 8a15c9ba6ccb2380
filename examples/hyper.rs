//! HTTP/1.1 by hyper over encrypted streams: a server and a client in one process, over an emulated
//! path of 50 ms, 10 Mbit/s and 5 % loss. Each request has a connection of its own.
//!
//! `cargo run --features tokio,emulator --example hyper`

use std::convert::Infallible;
use std::error::Error;

use http_body_util::{BodyExt as _, Empty, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, client, server};
use hyper_util::rt::TokioIo;
use rdt::tokio::{Endpoint, Listener};
use rdt::{Connect, Listen, Network, generate_key};

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from(format!("you asked for {}\n", request.uri()))))
}

async fn serve(listener: Listener) {
    while let Ok(stream) = listener.accept().await {
        let connection = server::conn::http1::Builder::new();
        tokio::spawn(connection.serve_connection(TokioIo::new(stream), service_fn(answer)));
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let network = Network::new("rtt 50ms rate 10mbit loss 5%", 7)?;
    let (identity, endpoint) = (generate_key()?, Endpoint::on_network(&network)?);
    let (address, key) = (endpoint.local_addr(), identity.public());
    tokio::spawn(serve(endpoint.listen(Listen::new(identity))?));

    let client = Endpoint::on_network(&network)?;
    for number in 1..=10 {
        // Without a handshake but for the first one: each opens with its request.
        let stream = client.connect(address, Connect::to(key)).await?;
        let (mut requests, connection) = client::conn::http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let request = Request::builder().uri(format!("/{number}")).header("host", "rdt");
        requests.ready().await?;
        let response = requests.send_request(request.body(Empty::<Bytes>::new())?).await?;
        let body = response.into_body().collect().await?.to_bytes();
        print!("{}", String::from_utf8_lossy(&body));
    }
    let ledger = network.ledger();
    println!("{} packets, {} of them lost", ledger.sent, ledger.dropped_loss);
    Ok(())
}
