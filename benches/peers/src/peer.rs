//! Transports, and how each is prepared and run.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use rdt_crypto::Aead;

use crate::foreign::{self, Library};
use crate::limit::{self, Work};
use crate::locked;
use crate::rdt::{self, Wire};
use crate::rdt_here::{self, Waiting};
use crate::sealed;
use crate::streams::{self, Load};
use crate::tcp::{self, Variant};
use crate::transfer::{self, Run};

/// One transport with one set of options.
pub(crate) struct Peer {
    /// Name on the command line.
    pub(crate) id: &'static str,
    pub(crate) name: &'static str,
    pub(crate) tuned: &'static str,
    ways: Ways,
}

/// How the two ends of a transfer are run.
enum Ways {
    /// The two programs of rdt.
    Programs(Wire),
    /// A program that uses a C++ library.
    Foreign(&'static Library),
    /// Children of this program.
    Children {
        version: fn() -> Result<String>,
        receive: fn(u64) -> Result<()>,
        send: fn(u64, u32) -> Result<()>,
    },
}

/// All peers that this program was built with, in the order of their runs.
pub(crate) const PEERS: &[Peer] = &[
    Peer { id: "rdt", name: "rdt", tuned: rdt::TUNED, ways: Ways::Programs(Wire::Classic) },
    Peer {
        id: "rdt-native",
        name: "rdt, native, no cipher",
        tuned: rdt::TUNED_NATIVE,
        ways: Ways::Programs(Wire::Native),
    },
    Peer {
        id: "limit",
        name: "limit, CRC-32",
        tuned: limit::TUNED,
        ways: Ways::Children {
            version: linux,
            receive: |bytes| limit::receive(bytes, Work::Checksum, true),
            send: |bytes, _| limit::send(bytes, Work::Checksum, true),
        },
    },
    Peer {
        id: "limit-aes128",
        name: "limit, AES-128-GCM",
        tuned: limit::TUNED_SEALED,
        ways: Ways::Children {
            version: linux,
            receive: |bytes| limit::receive(bytes, Work::Seal(Aead::Aes128Gcm), true),
            send: |bytes, _| limit::send(bytes, Work::Seal(Aead::Aes128Gcm), true),
        },
    },
    Peer {
        id: "limit-aes128-plain",
        name: "limit, AES-128-GCM, no offload",
        tuned: limit::TUNED_PLAIN,
        ways: Ways::Children {
            version: linux,
            receive: |bytes| limit::receive(bytes, Work::Seal(Aead::Aes128Gcm), false),
            send: |bytes, _| limit::send(bytes, Work::Seal(Aead::Aes128Gcm), false),
        },
    },
    Peer {
        id: "limit-aes256",
        name: "limit, AES-256-GCM",
        tuned: limit::TUNED_SEALED,
        ways: Ways::Children {
            version: linux,
            receive: |bytes| limit::receive(bytes, Work::Seal(Aead::Aes256Gcm), true),
            send: |bytes, _| limit::send(bytes, Work::Seal(Aead::Aes256Gcm), true),
        },
    },
    Peer {
        id: "limit-chacha20",
        name: "limit, ChaCha20-Poly1305",
        tuned: limit::TUNED_SEALED,
        ways: Ways::Children {
            version: linux,
            receive: |bytes| limit::receive(bytes, Work::Seal(Aead::ChaCha20Poly1305), true),
            send: |bytes, _| limit::send(bytes, Work::Seal(Aead::ChaCha20Poly1305), true),
        },
    },
    Peer {
        id: "rdt-thread",
        name: "rdt, a thread",
        tuned: rdt_here::TUNED,
        ways: Ways::Children {
            version: || Ok("the same".to_owned()),
            receive: |bytes| rdt_here::receive(bytes, Waiting::Thread),
            send: |bytes, window| rdt_here::send(bytes, window, Waiting::Thread),
        },
    },
    Peer {
        id: "rdt-tokio",
        name: "rdt over tokio",
        tuned: rdt_here::TUNED_TOKIO,
        ways: Ways::Children {
            version: tokio,
            receive: |bytes| rdt_here::receive(bytes, Waiting::Tokio),
            send: |bytes, window| rdt_here::send(bytes, window, Waiting::Tokio),
        },
    },
    Peer {
        id: "rdt-tokio-looks",
        name: "rdt over tokio that looks",
        tuned: rdt_here::TUNED_LOOKING,
        ways: Ways::Children {
            version: tokio,
            receive: |bytes| rdt_here::receive(bytes, Waiting::TokioLooking),
            send: |bytes, window| rdt_here::send(bytes, window, Waiting::TokioLooking),
        },
    },
    Peer {
        id: "sealed-thread",
        name: "rdt, encrypted, a thread",
        tuned: sealed::TUNED,
        ways: Ways::Children {
            version: || Ok("the same".to_owned()),
            receive: |bytes| sealed::receive(bytes, sealed::DROPPING),
            send: |bytes, window| sealed::send(bytes, window, sealed::DROPPING),
        },
    },
    Peer {
        id: "none-thread",
        name: "rdt, no cipher, a thread",
        tuned: sealed::TUNED_NONE,
        ways: Ways::Children {
            version: || Ok("the same".to_owned()),
            receive: |bytes| sealed::receive(bytes, sealed::Load { encrypted: false, ..sealed::DROPPING }),
            send: |bytes, window| {
                sealed::send(bytes, window, sealed::Load { encrypted: false, ..sealed::DROPPING })
            },
        },
    },
    Peer {
        id: "sealed-thread-reads",
        name: "rdt, encrypted, a thread that reads",
        tuned: sealed::TUNED_READING,
        ways: Ways::Children {
            version: || Ok("the same".to_owned()),
            receive: |bytes| sealed::receive(bytes, sealed::READING),
            send: |bytes, window| sealed::send(bytes, window, sealed::READING),
        },
    },
    Peer {
        id: "sealed-thread-plain",
        name: "rdt, encrypted, a thread, no offload",
        tuned: sealed::TUNED_PLAIN,
        ways: Ways::Children {
            version: || Ok("the same".to_owned()),
            receive: |bytes| sealed::receive(bytes, sealed::Load { offload: false, ..sealed::DROPPING }),
            send: |bytes, window| {
                sealed::send(bytes, window, sealed::Load { offload: false, ..sealed::DROPPING })
            },
        },
    },
    Peer {
        id: "sealed-thread-8",
        name: "rdt, encrypted, a thread, 8 connections",
        tuned: sealed::TUNED_MANY,
        ways: Ways::Children {
            version: || Ok("the same".to_owned()),
            receive: |bytes| sealed::receive(bytes, sealed::Load { connections: 8, ..sealed::READING }),
            send: |bytes, window| {
                sealed::send(bytes, window, sealed::Load { connections: 8, ..sealed::READING })
            },
        },
    },
    Peer {
        id: "sealed-thread-64",
        name: "rdt, encrypted, a thread, 64 connections",
        tuned: sealed::TUNED_MANY,
        ways: Ways::Children {
            version: || Ok("the same".to_owned()),
            receive: |bytes| sealed::receive(bytes, sealed::Load { connections: 64, ..sealed::READING }),
            send: |bytes, window| {
                sealed::send(bytes, window, sealed::Load { connections: 64, ..sealed::READING })
            },
        },
    },
    Peer {
        id: "sealed-thread-512",
        name: "rdt, encrypted, a thread, 512 connections",
        tuned: sealed::TUNED_MANY,
        ways: Ways::Children {
            version: || Ok("the same".to_owned()),
            receive: |bytes| sealed::receive(bytes, sealed::Load { connections: 512, ..sealed::READING }),
            send: |bytes, window| {
                sealed::send(bytes, window, sealed::Load { connections: 512, ..sealed::READING })
            },
        },
    },
    Peer {
        id: "sealed-tokio",
        name: "rdt, encrypted, tokio",
        tuned: streams::TUNED,
        ways: Ways::Children {
            version: tokio,
            receive: |bytes| streams::receive(bytes, streams::PLAIN),
            send: |bytes, window| streams::send(bytes, window, streams::PLAIN),
        },
    },
    Peer {
        id: "sealed-tokio-default",
        name: "rdt, encrypted, tokio, nothing tuned",
        tuned: streams::TUNED_DEFAULTS,
        ways: Ways::Children {
            version: tokio,
            receive: |bytes| streams::receive(bytes, Load { is_default: true, ..streams::PLAIN }),
            send: |bytes, window| streams::send(bytes, window, Load { is_default: true, ..streams::PLAIN }),
        },
    },
    Peer {
        id: "sealed-duplex",
        name: "rdt, encrypted, tokio, both ways",
        tuned: streams::TUNED_DUPLEX,
        ways: Ways::Children {
            version: tokio,
            receive: |bytes| streams::receive(bytes, Load { is_duplex: true, ..streams::PLAIN }),
            send: |bytes, window| streams::send(bytes, window, Load { is_duplex: true, ..streams::PLAIN }),
        },
    },
    Peer {
        id: "sealed-8",
        name: "rdt, encrypted, tokio, 8 connections",
        tuned: streams::TUNED_MANY,
        ways: Ways::Children {
            version: tokio,
            receive: |bytes| streams::receive(bytes, Load { connections: 8, ..streams::PLAIN }),
            send: |bytes, window| streams::send(bytes, window, Load { connections: 8, ..streams::PLAIN }),
        },
    },
    Peer {
        id: "sealed-64",
        name: "rdt, encrypted, tokio, 64 connections",
        tuned: streams::TUNED_MANY,
        ways: Ways::Children {
            version: tokio,
            receive: |bytes| streams::receive(bytes, Load { connections: 64, ..streams::PLAIN }),
            send: |bytes, window| streams::send(bytes, window, Load { connections: 64, ..streams::PLAIN }),
        },
    },
    Peer {
        id: "sealed-512",
        name: "rdt, encrypted, tokio, 512 connections",
        tuned: streams::TUNED_MANY,
        ways: Ways::Children {
            version: tokio,
            receive: |bytes| streams::receive(bytes, Load { connections: 512, ..streams::PLAIN }),
            send: |bytes, window| streams::send(bytes, window, Load { connections: 512, ..streams::PLAIN }),
        },
    },
    Peer {
        id: "sealed-idle-512",
        name: "rdt, encrypted, tokio, beside 512 idle connections",
        tuned: streams::TUNED_IDLE,
        ways: Ways::Children {
            version: tokio,
            receive: |bytes| streams::receive(bytes, Load { idle: 512, ..streams::PLAIN }),
            send: |bytes, window| streams::send(bytes, window, Load { idle: 512, ..streams::PLAIN }),
        },
    },
    Peer {
        id: "sealed-blocking",
        name: "rdt, encrypted, blocking",
        tuned: streams::TUNED_BLOCKING,
        ways: Ways::Children {
            version: || Ok("the same".to_owned()),
            receive: streams::receive_blocking,
            send: streams::send_blocking,
        },
    },
    Peer {
        id: "tcp",
        name: "TCP",
        tuned: tcp::TUNED,
        ways: Ways::Children {
            version: linux,
            receive: |bytes| tcp::receive(bytes, Variant { small: false, checked: false }),
            send: |bytes, _| tcp::send(bytes, Variant { small: false, checked: false }),
        },
    },
    Peer {
        id: "tcp-crc",
        name: "TCP, CRC-32 at both ends",
        tuned: tcp::TUNED_CRC,
        ways: Ways::Children {
            version: linux,
            receive: |bytes| tcp::receive(bytes, Variant { small: false, checked: true }),
            send: |bytes, _| tcp::send(bytes, Variant { small: false, checked: true }),
        },
    },
    Peer {
        id: "tcp-mss",
        name: "TCP, 1448-byte segments",
        tuned: tcp::TUNED_MSS,
        ways: Ways::Children {
            version: linux,
            receive: |bytes| tcp::receive(bytes, Variant { small: true, checked: false }),
            send: |bytes, _| tcp::send(bytes, Variant { small: true, checked: false }),
        },
    },
    Peer {
        id: "tcp-mss-crc",
        name: "TCP, 1448-byte segments, CRC-32 at both ends",
        tuned: tcp::TUNED_MSS_CRC,
        ways: Ways::Children {
            version: linux,
            receive: |bytes| tcp::receive(bytes, Variant { small: true, checked: true }),
            send: |bytes, _| tcp::send(bytes, Variant { small: true, checked: true }),
        },
    },
    #[cfg(feature = "tls")]
    Peer {
        id: "tls",
        name: "TCP with TLS",
        tuned: crate::tls::TUNED,
        ways: Ways::Children {
            version: || locked::version("rustls"),
            receive: |bytes| crate::tls::receive(bytes, 1),
            send: |bytes, _| crate::tls::send(bytes, 1),
        },
    },
    #[cfg(feature = "tls")]
    Peer {
        id: "tls-8",
        name: "TCP with TLS, 8 connections",
        tuned: crate::tls::TUNED,
        ways: Ways::Children {
            version: || locked::version("rustls"),
            receive: |bytes| crate::tls::receive(bytes, 8),
            send: |bytes, _| crate::tls::send(bytes, 8),
        },
    },
    #[cfg(feature = "tls")]
    Peer {
        id: "tls-64",
        name: "TCP with TLS, 64 connections",
        tuned: crate::tls::TUNED,
        ways: Ways::Children {
            version: || locked::version("rustls"),
            receive: |bytes| crate::tls::receive(bytes, 64),
            send: |bytes, _| crate::tls::send(bytes, 64),
        },
    },
    #[cfg(feature = "tls")]
    Peer {
        id: "tls-512",
        name: "TCP with TLS, 512 connections",
        tuned: crate::tls::TUNED,
        ways: Ways::Children {
            version: || locked::version("rustls"),
            receive: |bytes| crate::tls::receive(bytes, 512),
            send: |bytes, _| crate::tls::send(bytes, 512),
        },
    },
    #[cfg(feature = "quinn")]
    Peer {
        id: "quinn",
        name: "quinn",
        tuned: crate::quinn::TUNED,
        ways: Ways::Children {
            version: || locked::version("quinn"),
            receive: |bytes| crate::quinn::receive(bytes, crate::quinn::Control::Cubic),
            send: |bytes, _| crate::quinn::send(bytes, crate::quinn::Control::Cubic),
        },
    },
    #[cfg(feature = "quinn")]
    Peer {
        id: "quinn-bbr",
        name: "quinn, BBR",
        tuned: crate::quinn::TUNED_BBR,
        ways: Ways::Children {
            version: || locked::version("quinn"),
            receive: |bytes| crate::quinn::receive(bytes, crate::quinn::Control::Bbr),
            send: |bytes, _| crate::quinn::send(bytes, crate::quinn::Control::Bbr),
        },
    },
    #[cfg(feature = "s2n")]
    Peer {
        id: "s2n",
        name: "s2n-quic",
        tuned: crate::s2n::TUNED,
        ways: Ways::Children {
            version: || locked::version("s2n-quic"),
            receive: crate::s2n::receive,
            send: |bytes, _| crate::s2n::send(bytes),
        },
    },
    #[cfg(feature = "quiche")]
    Peer {
        id: "quiche",
        name: "quiche",
        tuned: crate::quiche::TUNED,
        ways: Ways::Children {
            version: || locked::version("quiche"),
            receive: crate::quiche::receive,
            send: |bytes, _| crate::quiche::send(bytes),
        },
    },
    #[cfg(feature = "msquic")]
    Peer {
        id: "msquic",
        name: "MsQuic",
        tuned: crate::msquic::TUNED,
        ways: Ways::Children {
            version: || locked::version("msquic"),
            receive: crate::msquic::receive,
            send: |bytes, _| crate::msquic::send(bytes),
        },
    },
    #[cfg(feature = "kcp")]
    Peer {
        id: "kcp",
        name: "KCP (tokio_kcp)",
        tuned: crate::kcp::TUNED,
        ways: Ways::Children {
            version: || locked::version("tokio_kcp"),
            receive: crate::kcp::receive,
            send: |bytes, _| crate::kcp::send(bytes),
        },
    },
    Peer { id: "udt", name: "UDT", tuned: foreign::UDT.tuned, ways: Ways::Foreign(&foreign::UDT) },
    Peer { id: "srt", name: "SRT, file mode", tuned: foreign::SRT.tuned, ways: Ways::Foreign(&foreign::SRT) },
];

/// Cargo features that peers depend on, and whether this program was built with them.
const FEATURES: [(&str, bool); 6] = [
    ("quinn", cfg!(feature = "quinn")),
    ("s2n", cfg!(feature = "s2n")),
    ("quiche", cfg!(feature = "quiche")),
    ("msquic", cfg!(feature = "msquic")),
    ("kcp", cfg!(feature = "kcp")),
    ("tls", cfg!(feature = "tls")),
];

/// Returns the features that this program was built without.
pub(crate) fn left_out() -> impl Iterator<Item = &'static str> {
    FEATURES.into_iter().filter(|(_, built)| !built).map(|(feature, _)| feature)
}

pub(crate) fn named(id: &str) -> Result<&'static Peer> {
    PEERS.iter().find(|peer| peer.id == id).with_context(|| match left_out().find(|feature| *feature == id) {
        Some(feature) => format!("this program was built without --features {feature}"),
        None => format!(
            "there is no peer {id}: {}",
            PEERS.iter().map(|peer| peer.id).collect::<Vec<_>>().join(", ")
        ),
    })
}

impl Peer {
    /// Returns true for the peer to which all others are compared.
    pub(crate) fn is_ours(&self) -> bool {
        matches!(self.ways, Ways::Programs(Wire::Classic))
    }

    /// Returns true if the peer is skipped when its library is missing.
    pub(crate) fn is_foreign(&self) -> bool {
        matches!(self.ways, Ways::Foreign(_))
    }

    /// Prepares the peer to run, and returns its version.
    pub(crate) fn prepare(&self, rdt: &Path) -> Result<String> {
        match &self.ways {
            Ways::Programs(_) => rdt::version(rdt),
            Ways::Foreign(library) => library.prepare(),
            Ways::Children { version, .. } => version(),
        }
    }

    pub(crate) fn run(&self, bytes: u64, rdt: &Path, window: u32) -> Result<Run> {
        match &self.ways {
            Ways::Programs(wire) => return rdt::run(rdt, bytes, window, *wire),
            Ways::Foreign(library) => return library.run(bytes),
            Ways::Children { .. } => {}
        }
        let program = std::env::current_exe().context("the path of this program")?;
        let (bytes_text, window) = (bytes.to_string(), window.to_string());
        transfer::run_children(
            Command::new(&program).args(["receive", self.id, &bytes_text]),
            Command::new(&program).args(["send", self.id, &bytes_text, &window]),
            bytes,
        )
    }

    pub(crate) fn receive(&self, bytes: u64) -> Result<()> {
        match &self.ways {
            Ways::Children { receive, .. } => receive(bytes),
            _ => bail!("it runs in its own programs"),
        }
    }

    pub(crate) fn send(&self, bytes: u64, window: u32) -> Result<()> {
        match &self.ways {
            Ways::Children { send, .. } => send(bytes, window),
            _ => bail!("it runs in its own programs"),
        }
    }
}

#[expect(clippy::unnecessary_wraps, reason = "as every version is told")]
fn linux() -> Result<String> {
    Ok(format!("Linux {}", rustix::system::uname().release().to_string_lossy()))
}

fn tokio() -> Result<String> {
    Ok(format!("tokio {}", locked::version("tokio")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_found_by_name_only() {
        for peer in PEERS {
            assert_eq!(named(peer.id).unwrap().name, peer.name);
        }
        for feature in left_out() {
            let error = named(feature).err().unwrap().to_string();
            assert_eq!(error, format!("this program was built without --features {feature}"));
        }
        assert!(named("none").err().unwrap().to_string().starts_with("there is no peer none: rdt, "));
        assert_eq!(PEERS.iter().filter(|peer| peer.is_ours()).count(), 1);
    }
}
