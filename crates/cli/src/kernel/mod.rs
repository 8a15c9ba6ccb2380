//! Transfers that are measured and not stored: `--wire tcp` and `--wire udp`, over TCP of the
//! kernel and UDP at a constant rate, and `rdt-send --reverse` over encrypted connections to
//! `rdt-recv --measure`. Linux only, because the figures are those of `TCP_INFO`.
//!
//! | noun | file | owns |
//! |---|---|---|
//! | message | `message.rs` | request, answer and report beside the data |
//! | sending program | `send.rs`, `options.rs` | options, last lines, transfers at once |
//! | course | `course.rs` | status lines and counts of one transfer |
//! | summary | `summary.rs` | last lines, last object of `--json` |
//! | limits | `limits.rs` | what a sender over TCP waited for, when it gives up |
//! | TCP client, UDP client | `tcp_client.rs`, `udp_client.rs` | a transfer of `rdt-send` |
//! | receiving program | `recv.rs`, `places.rs` | options, log, limits on peers |
//! | TCP server, UDP server | `tcp_server.rs`, `udp_server.rs` | peers of `rdt-recv` |
//! | UDP sender | `udp_sender.rs` | reverse transfer over UDP, proofs of the peer |
//! | native client, native server | `native_client.rs`, `native_server.rs` | over rdt |
//! | connection | `connection.rs` | streams of TCP and of encrypted connections |
//! | stream, datagram | `stream.rs`, `datagram.rs` | reads and writes of TCP; packets of UDP |
//! | arrivals | `arrivals.rs` | lost, reordered and duplicated datagrams, jitter |

#[cfg(target_os = "linux")]
mod arrivals;
#[cfg(target_os = "linux")]
mod connection;
#[cfg(target_os = "linux")]
mod course;
#[cfg(target_os = "linux")]
mod datagram;
#[cfg(target_os = "linux")]
mod limits;
#[cfg(target_os = "linux")]
mod message;
#[cfg(target_os = "linux")]
mod native_client;
#[cfg(target_os = "linux")]
mod native_server;
#[cfg(target_os = "linux")]
mod options;
#[cfg(target_os = "linux")]
mod places;
#[cfg(target_os = "linux")]
pub(crate) mod recv;
#[cfg(target_os = "linux")]
pub(crate) mod send;
#[cfg(target_os = "linux")]
mod stream;
#[cfg(target_os = "linux")]
mod summary;
#[cfg(target_os = "linux")]
mod tcp_client;
#[cfg(target_os = "linux")]
mod tcp_server;
#[cfg(target_os = "linux")]
mod udp_client;
#[cfg(target_os = "linux")]
mod udp_sender;
#[cfg(target_os = "linux")]
mod udp_server;

/// Transport of a transfer that is measured and not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    /// TCP of the kernel.
    Tcp,
    /// UDP of the kernel, at a constant rate.
    Udp,
    /// Encrypted connection of rdt, whose responder sends.
    Native,
}

impl Wire {
    /// Returns the name in options and in JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Native => "native 2",
        }
    }
}

/// Refusal of `--wire tcp` and `--wire udp` on systems other than Linux.
#[cfg(not(target_os = "linux"))]
pub(crate) mod send {
    pub(crate) fn command(_: &crate::args::SendArgs, wire: super::Wire) -> Result<(), crate::Failure> {
        super::refuse(wire)
    }
}

/// See [`send`].
#[cfg(not(target_os = "linux"))]
pub(crate) mod recv {
    pub(crate) fn command(_: &crate::args::RecvArgs, wire: super::Wire) -> Result<(), crate::Failure> {
        super::refuse(wire)
    }
}

#[cfg(not(target_os = "linux"))]
fn refuse(wire: Wire) -> Result<(), crate::Failure> {
    Err(crate::Failure::Usage(format!(
        "measuring over {} needs Linux, whose kernel tells what limits a connection",
        wire.name()
    )))
}
