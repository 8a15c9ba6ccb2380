//! gRPC by tonic over encrypted streams: a server and a client in one process, over an emulated
//! path with 5 % loss. The server knows its clients by their keys.
//!
//! `cargo run --features tonic,emulator --example tonic`

#[path = "tonic/greeter.rs"]
mod greeter;

use std::error::Error;

use greeter::{GREET, Greeter, Text};
use hyper_util::rt::TokioIo;
use rdt::tokio::Endpoint;
use rdt::{Connect, ConnectError, Listen, Network, generate_key};
use tonic::codegen::http::Uri;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Request, client, transport};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let network = Network::new("rtt 50ms rate 10mbit loss 5%", 7)?;
    let (identity, server) = (generate_key()?, Endpoint::on_network(&network)?);
    let (address, key) = (server.local_addr(), identity.public());
    let listener = server.listen(Listen::new(identity))?;
    tokio::spawn(transport::Server::builder().add_service(Greeter).serve_with_incoming(listener));

    let (client, me) = (Endpoint::on_network(&network)?, generate_key()?);
    let dial = tower::service_fn(move |_: Uri| {
        let (client, connect) = (client.clone(), Connect::to(key).identity(me.clone()));
        async move { Ok::<_, ConnectError>(TokioIo::new(client.connect(address, connect).await?)) }
    });
    let channel = transport::Endpoint::from_static("http://rdt").connect_with_connector(dial).await?;
    let mut greeter = client::Grpc::new(channel);
    for name in ["anna", "bert", "cleo"] {
        greeter.ready().await?;
        let path = PathAndQuery::from_static(GREET);
        let answer = greeter.unary(Request::new(name.to_owned()), path, Text).await?;
        println!("{}", answer.into_inner());
    }
    Ok(())
}
