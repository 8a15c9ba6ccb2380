//! A web application by axum over encrypted streams: a server and a client in one process, over an
//! emulated path with 5 % loss. The server knows its clients by their keys.
//!
//! `cargo run --features axum,emulator --example axum`

use std::error::Error;

use axum::Router;
use axum::extract::{ConnectInfo, Path};
use axum::routing::get;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Bytes;
use hyper::{Request, client};
use hyper_util::rt::TokioIo;
use rdt::tokio::{Endpoint, Peer};
use rdt::{Connect, Listen, Network, generate_key};

async fn greet(ConnectInfo(peer): ConnectInfo<Peer>, Path(name): Path<String>) -> String {
    let key = peer.identity.map_or_else(|| "no key".to_owned(), |key| key.fingerprint());
    format!("hello {name}, with {key}\n")
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let network = Network::new("rtt 50ms rate 10mbit loss 5%", 7)?;
    let (identity, server) = (generate_key()?, Endpoint::on_network(&network)?);
    let (address, key) = (server.local_addr(), identity.public());
    let listener = server.listen(Listen::new(identity))?;
    let router = Router::new().route("/hello/{name}", get(greet));
    tokio::spawn(async { axum::serve(listener, router.into_make_service_with_connect_info::<Peer>()).await });

    let client = Endpoint::on_network(&network)?;
    let stream = client.connect(address, Connect::to(key).identity(generate_key()?)).await?;
    let (mut requests, connection) = client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    for name in ["anna", "bert", "cleo"] {
        let request = Request::builder().uri(format!("/hello/{name}")).header("host", "rdt");
        requests.ready().await?;
        let response = requests.send_request(request.body(Empty::<Bytes>::new())?).await?;
        let body = response.into_body().collect().await?.to_bytes();
        print!("{}", String::from_utf8_lossy(&body));
    }
    Ok(())
}
