//! Streams of rdt, with everything as it is by default.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, Result};
use rdt_crypto::{Entropy, StaticKey};
use rdt_endpoint::tokio::{Endpoint, Stream};
use rdt_endpoint::{Connect, EndpointConfig, Listen};

use super::tcp::{answer, ask};

const PORT: u16 = 4000;

pub(super) fn identity() -> Arc<StaticKey> {
    Arc::new(StaticKey::generate(&mut Entropy::from_seed([9; 32])))
}

pub(super) async fn serve(host: &str) -> Result<()> {
    let endpoint = Endpoint::bind(format!("{host}:{PORT}"), EndpointConfig::default())?;
    let listener = endpoint.listen(Listen::new(identity()))?;
    loop {
        let stream = listener.accept().await?;
        stream.set_nodelay(true);
        tokio::spawn(answer(stream));
    }
}

/// Which requests have a connection of their own.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Opens {
    /// Each one, from an endpoint of its own.
    WithoutAssociation,
    /// Each one, from the same endpoint to another loopback address of a server that listens at
    /// all of them: an association is for one address.
    AtOtherAddress,
    /// Each one, from the same endpoint.
    InAssociation,
    /// The first one.
    Once,
}

pub(super) struct Client {
    address: SocketAddr,
    opens: Opens,
    endpoint: Endpoint,
    kept: Option<Stream>,
}

fn endpoint(peer: SocketAddr) -> Result<Endpoint> {
    let any = if peer.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    Ok(Endpoint::bind(any, EndpointConfig::default())?)
}

impl Client {
    pub(super) fn new(host: &str, opens: Opens) -> Result<Self> {
        let address = format!("{host}:{PORT}");
        Ok(Self { address, opens, endpoint: endpoint(address)?, kept: None })
    }

    pub(super) async fn exchange(&mut self, bytes: usize) -> Result<()> {
        if self.opens == Opens::Once {
            if self.kept.is_none() {
                self.kept = Some(self.connect().await?);
            }
            return ask(self.kept.as_mut().context("opened above")?, bytes).await;
        }
        if self.opens == Opens::WithoutAssociation {
            self.endpoint = endpoint(self.address)?;
        }
        ask(&mut self.connect().await?, bytes).await
    }

    async fn connect(&self) -> Result<Stream> {
        let mut address = self.address;
        if self.opens == Opens::AtOtherAddress {
            static NEXT: AtomicU32 = AtomicU32::new(u32::from_be_bytes([127, 0, 0, 2]));
            address.set_ip(Ipv4Addr::from_bits(NEXT.fetch_add(1, Ordering::Relaxed)).into());
        }
        let stream = self.endpoint.connect(address, Connect::to(identity().public())).await?;
        stream.set_nodelay(true);
        Ok(stream)
    }
}
