//! The network that a run is started in, if that is one of another run.

use std::env;
use std::net::{Ipv4Addr, UdpSocket};
use std::str::FromStr;

use super::address::Block;
use super::programs;

/// A network of another run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outer {
    /// How many others it is inside.
    pub(crate) depth: u8,
    pub(crate) block: Block,
    /// The far end of the outermost one.
    pub(crate) peer: Ipv4Addr,
    /// Whether it has IPv6 addresses.
    pub(crate) ipv6: bool,
}

impl Outer {
    /// What the environment says, if it speaks of the network that this process is in.
    pub(crate) fn look() -> Option<Self> {
        let depth = variable(programs::DEPTH)?;
        let local: Ipv4Addr = variable(programs::LOCAL)?;
        UdpSocket::bind((local, 0)).ok()?;
        Some(Self {
            depth,
            block: Block::of_network(depth, local)?,
            peer: variable(programs::PEER)?,
            ipv6: env::var_os(programs::PEER6).is_some(),
        })
    }
}

fn variable<T: FromStr>(name: &str) -> Option<T> {
    env::var(name).ok()?.parse().ok()
}
