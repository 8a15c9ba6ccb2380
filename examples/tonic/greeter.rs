//! Server and messages of a service with one call. `tonic-prost-build` makes such a file from a
//! .proto file, except for what the call does; the messages are texts here, without a schema.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll};

use bytes::{Buf as _, BufMut as _};
use rdt::tokio::Peer;
use tonic::body::Body;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::{Request, Response, Status};

/// Path of the call.
pub(crate) const GREET: &str = "/rdt.Greeter/Greet";

#[derive(Debug, Clone, Copy)]
pub(crate) struct Text;

impl Codec for Text {
    type Encode = String;
    type Decode = String;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Text {
    type Item = String;
    type Error = Status;

    fn encode(&mut self, text: String, buf: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buf.put_slice(text.as_bytes());
        Ok(())
    }
}

impl Decoder for Text {
    type Item = String;
    type Error = Status;

    fn decode(&mut self, buf: &mut DecodeBuf<'_>) -> Result<Option<String>, Status> {
        let bytes = buf.copy_to_bytes(buf.remaining());
        String::from_utf8(bytes.into()).map(Some).map_err(|error| Status::invalid_argument(error.to_string()))
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Greeter;

impl UnaryService<String> for Greeter {
    type Response = String;
    type Future = Ready<Result<Response<String>, Status>>;

    fn call(&mut self, request: Request<String>) -> Self::Future {
        let key = request.extensions().get::<Peer>().and_then(|peer| peer.identity);
        let key = key.map_or_else(|| "no key".to_owned(), |key| key.fingerprint());
        ready(Ok(Response::new(format!("hello {}, with {key}", request.into_inner()))))
    }
}

impl NamedService for Greeter {
    const NAME: &'static str = "rdt.Greeter";
}

impl Service<http::Request<Body>> for Greeter {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(async { Ok(Grpc::new(Text).unary(Greeter, request).await) })
    }
}
