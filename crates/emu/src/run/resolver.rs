//! DNS inside a run: `/etc/resolv.conf` names the far end, because the name servers of the host
//! cannot be reached. If no server listens there, the first refused lookup prints a warning. With
//! `--internet` the file names the NAT, which asks the name servers of the host.

use std::io::Write as _;
use std::net::IpAddr;

use rustix::mount::mount_bind;

pub(crate) const RESOLV_CONF: &str = "/etc/resolv.conf";
/// UDP port of name servers (RFC 1035, section 4.2.1), on the wire.
const DNS_PORT: [u8; 2] = 53_u16.to_be_bytes();

/// Warning about the first lookup of a name that no name server takes.
pub(crate) const NO_NAME_SERVER: &str = "a program looked up a name, but a run has no network beyond its far end: add --internet, use \
                              addresses such as $RDT_PEER, or start a name server there with --server";

/// Sets the name server of this mount namespace. If the system refuses, programs ask the host's
/// name servers, which do not answer.
pub(crate) fn ask_at(name_server: IpAddr) {
    let mounted = tempfile::NamedTempFile::new().and_then(|mut file| {
        writeln!(file, "# rdt-emu run: at the far end of the path\nnameserver {name_server}")?;
        let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        file.as_file().set_permissions(readable)?;
        // The mount keeps the file after the end of this function has removed its name.
        Ok(mount_bind(file.path(), RESOLV_CONF)?)
    });
    if let Err(error) = mounted {
        tracing::debug!(%error, "name servers stay those of the host");
    }
}

/// True for an ICMP message "destination unreachable" (RFC 792) about a datagram to a name server.
pub(crate) fn refuses_lookup(packet: &[u8]) -> bool {
    const ICMP: u8 = 1;
    const UDP: u8 = 17;
    const DESTINATION_UNREACHABLE: u8 = 3;

    let Some((ICMP, message)) = ipv4_payload(packet) else { return false };
    // 8 bytes of ICMP, then the header of the datagram and the first 8 bytes of its payload.
    if message.first() != Some(&DESTINATION_UNREACHABLE) {
        return false;
    }
    match message.get(8..).and_then(ipv4_payload) {
        Some((UDP, datagram)) => datagram.get(2..4) == Some(&DNS_PORT),
        _ => false,
    }
}

/// Returns protocol and payload of an IPv4 packet, which may be truncated within the payload.
fn ipv4_payload(packet: &[u8]) -> Option<(u8, &[u8])> {
    let first = *packet.first()?;
    let header = usize::from(first & 0x0F) * 4;
    if first >> 4 != 4 || header < 20 {
        return None;
    }
    Some((*packet.get(9)?, packet.get(header..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// IPv4 packet with a header of 20 bytes.
    fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0; 20];
        (packet[0], packet[9]) = (0x45, protocol);
        packet.extend_from_slice(payload);
        packet
    }

    fn unreachable(icmp_type: u8, port: u16) -> Vec<u8> {
        let [high, low] = port.to_be_bytes();
        let datagram = ipv4(17, &[0xC0, 0, high, low, 0, 30, 0, 0]);
        ipv4(1, &[&[icmp_type, 3, 0, 0, 0, 0, 0, 0][..], &datagram].concat())
    }

    #[test]
    fn only_unreachable_name_servers_count() {
        assert!(refuses_lookup(&unreachable(3, 53)));
        assert!(!refuses_lookup(&unreachable(3, 54)));
        assert!(!refuses_lookup(&unreachable(0, 53)), "an echo reply");
        assert!(!refuses_lookup(&ipv4(17, &[0, 53, 0, 53, 0, 8, 0, 0])), "an answer of a name server");
    }

    #[test]
    fn truncated_packets_are_no_lookups() {
        let packet = unreachable(3, 53);
        // The port is in bytes 50 and 51.
        for length in 0..52 {
            assert!(!refuses_lookup(&packet[..length]), "{length} bytes");
        }
        assert!(refuses_lookup(&packet[..52]));
        let mut short_header = packet.clone();
        short_header[0] = 0x44;
        assert!(!refuses_lookup(&short_header));
    }
}
