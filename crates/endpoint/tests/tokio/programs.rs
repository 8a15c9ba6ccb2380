//! Unmodified libraries over streams: HTTP by hyper, TLS by rustls.

use std::sync::Arc;

use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rdt_endpoint::Connect;
use rdt_endpoint::tokio::{Endpoint, Stream};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::support::{Pair, key, pattern};

const REQUESTS: usize = 10_000;
const AT_ONCE: usize = 64;
const PATH: &str = "rtt 20ms rate 1gbit loss 1%";

/// Answers a request with its path and its body.
async fn echo(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await?.to_bytes();
    Ok(Response::new(Full::from([path.as_bytes(), &body].concat())))
}

fn request(number: usize) -> (Request<Full<Bytes>>, Vec<u8>) {
    let body = pattern(number * 7 % 3000);
    let path = format!("/{number}");
    let expected = [path.as_bytes(), &body].concat();
    let request = Request::builder().uri(path).header("host", "rdt").body(Full::from(body)).unwrap();
    (request, expected)
}

async fn check(response: Response<Incoming>, expected: &[u8]) {
    assert!(response.status().is_success());
    assert!(response.into_body().collect().await.unwrap().to_bytes() == expected);
}

/// Serves the next `count` streams by `serve`. The task ends after all of them.
fn accept_all<F>(
    pair: Pair,
    count: usize,
    serve: impl Fn(Stream) -> F + Send + 'static,
) -> (Endpoint, JoinHandle<()>)
where
    F: Future<Output = ()> + Send + 'static,
{
    let client = pair.client.clone();
    let served = tokio::spawn(async move {
        let mut sessions = JoinSet::new();
        for _ in 0..count {
            let stream = pair.listener.accept().await.unwrap();
            sessions.spawn(serve(stream));
        }
        sessions.join_all().await;
    });
    (client, served)
}

#[tokio::test(start_paused = true)]
async fn hyper_http1_requests_survive_loss() {
    let pair = Pair::new(PATH);
    let address = pair.listener.local_addr();
    let (client, served) = accept_all(pair, AT_ONCE, async |stream| {
        let served = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(stream), service_fn(echo))
            .await;
        served.unwrap();
    });
    let mut workers = JoinSet::new();
    for worker in 0..AT_ONCE {
        let client = client.clone();
        workers.spawn(async move {
            let stream = client.connect(address, Connect::to(key())).await.unwrap();
            let (mut sender, connection) =
                hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
            let connection = tokio::spawn(connection);
            for number in (worker..REQUESTS).step_by(AT_ONCE) {
                let (request, expected) = request(number);
                sender.ready().await.unwrap();
                check(sender.send_request(request).await.unwrap(), &expected).await;
            }
            drop(sender);
            connection.await.unwrap().unwrap();
        });
    }
    workers.join_all().await;
    served.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn hyper_http2_streams_survive_loss() {
    let pair = Pair::new(PATH);
    let address = pair.listener.local_addr();
    let (client, served) = accept_all(pair, 1, async |stream| {
        let served = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
            .serve_connection(TokioIo::new(stream), service_fn(echo))
            .await;
        served.unwrap();
    });
    let stream = client.connect(address, Connect::to(key())).await.unwrap();
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    let connection = tokio::spawn(connection);
    let mut workers = JoinSet::new();
    for worker in 0..AT_ONCE {
        let mut sender = sender.clone();
        workers.spawn(async move {
            for number in (worker..REQUESTS).step_by(AT_ONCE) {
                let (request, expected) = request(number);
                sender.ready().await.unwrap();
                check(sender.send_request(request).await.unwrap(), &expected).await;
            }
        });
    }
    workers.join_all().await;
    drop(sender);
    connection.await.unwrap().unwrap();
    served.await.unwrap();
}

fn tls() -> (TlsAcceptor, TlsConnector) {
    let made = rcgen::generate_simple_self_signed(vec!["rdt.test".to_owned()]).unwrap();
    let private = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let certificate = made.cert.der().clone();
    let server = ServerConfig::builder().with_no_client_auth();
    let server = server.with_single_cert(vec![certificate.clone()], private).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let client = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    (TlsAcceptor::from(Arc::new(server)), TlsConnector::from(Arc::new(client)))
}

#[tokio::test(start_paused = true)]
async fn rustls_session_runs_inside_stream() {
    let pair = Pair::new("rtt 20ms rate 50mbit loss 1%");
    let (client, server) = pair.connect().await;
    let (acceptor, connector) = tls();
    let server = async {
        let mut tls = acceptor.accept(server).await.unwrap();
        let mut got = Vec::new();
        tls.read_to_end(&mut got).await.unwrap();
        tls.write_all(&got).await.unwrap();
        tls.shutdown().await.unwrap();
    };
    let client = async {
        let name = ServerName::try_from("rdt.test").unwrap();
        let mut tls = connector.connect(name, client).await.unwrap();
        tls.write_all(&pattern(300_000)).await.unwrap();
        tls.shutdown().await.unwrap();
        let mut got = Vec::new();
        tls.read_to_end(&mut got).await.unwrap();
        assert!(got == pattern(300_000));
    };
    tokio::join!(server, client);
}
