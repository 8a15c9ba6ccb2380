//! KCP: a reliable ARQ over UDP, as implemented by `tokio_kcp`.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_kcp::{KcpConfig, KcpListener, KcpNoDelayConfig, KcpStream};

use crate::meter::{self, Hello, Meter};

pub(crate) const TUNED: &str = "nodelay 1, 10, 2, 1 (no congestion control), windows of 2048 packets, 1472-byte \
    packets, stream mode, flushed with every write and every input";

const WRITE: usize = 64 << 10;

/// Time before the process ends: several updates of the session, which has one every 10 ms.
const LINGER: Duration = Duration::from_millis(50);

fn config() -> KcpConfig {
    KcpConfig {
        mtu: 1472,
        nodelay: KcpNoDelayConfig::fastest(),
        wnd_size: (2048, 2048),
        flush_write: true,
        flush_acks_input: true,
        stream: true,
        ..KcpConfig::default()
    }
}

pub(crate) fn receive(bytes: u64) -> Result<()> {
    meter::runtime()?.block_on(async {
        let mut listener = KcpListener::bind(config(), SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
        meter::print_hello(listener.local_addr()?, None);
        let (mut stream, _) = listener.accept().await?;
        let mut buffer = vec![0; 1 << 20];
        let mut meter = Meter::new(bytes);
        while !meter.full() {
            let length = stream.read(&mut buffer).await?;
            ensure!(length > 0, "the stream ended");
            meter.count(length);
        }
        let seconds = meter.seconds();
        // KCP has no end of stream, so one byte back confirms that everything arrived.
        stream.write_all(&[1]).await?;
        stream.flush().await?;
        tokio::time::sleep(LINGER).await;
        meter.print(seconds, None)
    })
}

pub(crate) fn send(bytes: u64) -> Result<()> {
    let address = Hello::read()?.address()?;
    meter::runtime()?.block_on(async {
        let mut stream = KcpStream::connect(&config(), address).await?;
        let source = meter::source();
        for block in meter::blocks(bytes, WRITE) {
            stream.write_all(&source[block]).await?;
        }
        stream.flush().await?;
        stream.read_exact(&mut [0]).await?;
        meter::print_sent(None)
    })
}
