//! Unconnected UDP sockets that answer from the address to which a peer sent, and that never
//! fragment: for measurements (Linux).

#[cfg(linux_api)]
pub use crate::socket_options::forbid_fragments;
#[cfg(linux_api)]
pub use kernel::{AddressedReads, send_from};
#[cfg(not(linux_api))]
pub use portable::{AddressedReads, forbid_fragments, send_from};

#[cfg(linux_api)]
mod kernel {
    use std::io;
    use std::net::UdpSocket;

    use quinn_udp::RecvMeta;
    use rdt_datagram::Ecn;

    use crate::Remote;
    use crate::recvmmsg::MessageHeaders;
    use crate::send_batch::Datagrams;
    use crate::sendmmsg::sendmmsg;
    use crate::socket_options;

    /// Reads of an unconnected socket, with the local address of each datagram.
    pub struct AddressedReads {
        headers: Box<MessageHeaders>,
    }

    impl std::fmt::Debug for AddressedReads {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.debug_struct("AddressedReads").finish_non_exhaustive()
        }
    }

    impl AddressedReads {
        /// Makes the kernel report the local address of datagrams of `socket`.
        ///
        /// # Errors
        /// The kernel does not have the option.
        pub fn new(socket: &UdpSocket) -> io::Result<Self> {
            socket_options::report_destination(socket)?;
            Ok(Self { headers: MessageHeaders::new() })
        }

        /// Receives a datagram of the socket. Returns its length, peer and local address.
        ///
        /// # Errors
        /// Those of the socket; `WouldBlock` after its read timeout.
        pub fn receive(&mut self, socket: &UdpSocket, buffer: &mut [u8]) -> io::Result<(usize, Remote)> {
            let mut meta = [RecvMeta::default()];
            self.headers.receive(socket, std::iter::once(buffer), &mut meta)?;
            Ok((meta[0].len, Remote { addr: meta[0].addr, local: meta[0].dst_ip }))
        }
    }

    /// Sends a datagram from the local address of `remote`. Returns its length.
    pub fn send_from(socket: &UdpSocket, remote: Remote, bytes: &[u8]) -> io::Result<usize> {
        let datagrams = Datagrams { bytes, size: bytes.len(), ecn: Ecn::NotEct };
        sendmmsg(socket, remote, false, datagrams)?;
        Ok(bytes.len())
    }
}

/// Stand-in (feature `portable`): the system chooses the source of replies, and may fragment.
#[cfg(not(linux_api))]
mod portable {
    use std::io;
    use std::net::UdpSocket;

    use crate::Remote;

    /// Reads of an unconnected socket.
    #[derive(Debug)]
    pub struct AddressedReads;

    impl AddressedReads {
        /// Needs no option of the socket.
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
    pub fn send_from(socket: &UdpSocket, remote: Remote, bytes: &[u8]) -> io::Result<usize> {
        socket.send_to(bytes, remote.addr)
    }

    /// Leaves fragmentation as it is.
    pub fn forbid_fragments(_: &UdpSocket) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
#[cfg(linux_api)]
mod tests {
    use std::net::{Ipv4Addr, UdpSocket};
    use std::time::Duration;

    use super::*;

    #[test]
    fn answer_leaves_from_requested_address() {
        for any in ["0.0.0.0:0", "[::]:0"] {
            let Ok(socket) = UdpSocket::bind(any) else { continue };
            socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            forbid_fragments(&socket).unwrap();
            let mut reads = AddressedReads::new(&socket).unwrap();
            let to = (Ipv4Addr::new(127, 0, 0, 2), socket.local_addr().unwrap().port());
            let client = UdpSocket::bind("127.0.0.1:0").unwrap();
            client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            client.send_to(b"question", to).unwrap();
            let mut buffer = [0; 16];
            let (length, remote) = reads.receive(&socket, &mut buffer).unwrap();
            assert_eq!(&buffer[..length], b"question");
            assert_eq!(send_from(&socket, remote, b"answer").unwrap(), 6);
            assert_eq!(client.recv_from(&mut buffer).unwrap(), (6, to.into()), "{any}");
        }
    }
}
