//! Stand-in for `addressed.rs` without direct system calls (feature `portable`): the system chooses
//! the address of replies, and may fragment.

use std::io;
use std::net::UdpSocket;

use crate::Remote;

/// Reads of an unconnected socket.
#[derive(Debug)]
pub struct AddressedReads;

impl AddressedReads {
    /// Needs no option of the socket.
    ///
    /// # Errors
    /// None.
    pub fn new(_: &UdpSocket) -> io::Result<Self> {
        Ok(Self)
    }

    /// Receives a datagram of the socket. Returns its length and peer.
    ///
    /// # Errors
    /// Those of the socket; `WouldBlock` after its read timeout.
    pub fn receive(&mut self, socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<(usize, Remote)> {
        socket.recv_from(buffer).map(|(length, peer)| (length, peer.into()))
    }
}

/// Sends a datagram. Returns its length.
///
/// # Errors
/// Those of the socket.
pub fn send_from(socket: &UdpSocket, remote: Remote, bytes: &[u8]) -> io::Result<usize> {
    socket.send_to(bytes, remote.addr)
}

/// Leaves fragmentation as it is.
///
/// # Errors
/// None.
pub fn forbid_fragments(_: &UdpSocket) -> io::Result<()> {
    Ok(())
}
