//! TUN device: a network device whose packets this program reads and writes
//! (Documentation/networking/tuntap.rst).

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rdt_emulator::{Delivery, Packet};
use rdt_program::Printer;
use rdt_udp::clock;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::{ecn, resolver};
use crate::capture::frame::{Carried, Frame};
use crate::destinations::{By, Table};
use crate::port::{Buffers, Port, Sent, Take};

pub(crate) const CLONE_DEVICE: &str = "/dev/net/tun";
/// Longest IP packet, bytes.
const MAX_PACKET: usize = 65_535;

pub(crate) fn open() -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(CLONE_DEVICE, OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?)
}

/// Creates a TUN device with this name in the network namespace of the calling thread, and attaches
/// the descriptor. The kernel removes the device when the descriptor is closed.
pub(crate) fn attach(tun: &OwnedFd, name: &str) -> io::Result<()> {
    /// `TUNSETIFF`: _IOW('T', 202, int), although its argument is a struct ifreq.
    const SET_INTERFACE: rustix::ioctl::Opcode = rustix::ioctl::opcode::write::<libc::c_int>(b'T', 202);
    #[expect(clippy::cast_possible_truncation, reason = "the constants are declared wider than their field")]
    let mut request =
        IfReq { name: [0; libc::IFNAMSIZ], flags: (libc::IFF_TUN | libc::IFF_NO_PI) as i16, rest: [0; 22] };
    // The last byte of the name must be 0.
    for (to, from) in request.name[..libc::IFNAMSIZ - 1].iter_mut().zip(name.bytes()) {
        *to = from;
    }
    // SAFETY: the kernel reads and writes one struct ifreq, and `IfReq` is as long as that.
    #[expect(unsafe_code, reason = "no library wraps this request")]
    unsafe {
        rustix::ioctl::ioctl(tun, rustix::ioctl::Updater::<SET_INTERFACE, IfReq>::new(&mut request))?;
    }
    Ok(())
}

/// As struct ifreq of netdevice(7).
#[repr(C)]
struct IfReq {
    name: [u8; libc::IFNAMSIZ],
    flags: i16,
    /// Rest of the union, whose longest member is a struct ifmap: 24 bytes with 64-bit pointers.
    rest: [u8; 22],
}

const _: () = assert!(size_of::<IfReq>() >= size_of::<libc::ifreq>());

/// Port on a TUN device. Receives the packets that the kernel sends through the device.
pub(crate) struct TunPort {
    tun: Arc<OwnedFd>,
    /// Buffer for one packet, because its length is known only after the read.
    scratch: Box<[u8]>,
    /// Output of the warning about a refused lookup; `None` at the far end, and once it is printed.
    lookups: Option<Printer>,
    /// Paths of destinations, and the address that chooses one.
    table: Option<(Table, By)>,
}

impl TunPort {
    /// Creates a port that warns once about refused lookups in the packets that it sends, and that
    /// tags the packets that it receives with the numbers of their paths in `table`.
    pub(crate) fn new(tun: Arc<OwnedFd>, lookups: Option<Printer>, table: Option<(Table, By)>) -> Self {
        Self { tun, scratch: vec![0; MAX_PACKET].into(), lookups, table }
    }
}

impl Port for TunPort {
    fn receive(&mut self, budget: usize, buffers: &mut Buffers, take: Take<'_>) -> io::Result<usize> {
        for read in 0..budget {
            let len = match rustix::io::read(self.tun.as_fd(), &mut *self.scratch) {
                Ok(len) => len,
                Err(Errno::AGAIN) => return Ok(read),
                Err(Errno::INTR) => 0,
                Err(error) => return Err(error.into()),
            };
            if len == 0 {
                continue;
            }
            let bytes = &self.scratch[..len];
            let mut buffer = buffers.take(len);
            buffer.extend_from_slice(bytes);
            let tag = self.table.as_mut().map_or(0, |(table, by)| table.path(bytes, *by));
            let packet = Packet::from(buffer).with_ecn(ecn::read(bytes)).with_tag(tag);
            take(buffers, clock::now(), packet);
        }
        Ok(budget)
    }

    fn send(&mut self, delivery: &mut Delivery) -> io::Result<Sent> {
        if let Some(warnings) = self.lookups.take_if(|_| resolver::refuses_lookup(&delivery.packet)) {
            warnings.print(resolver::NO_NAME_SERVER);
        }
        // A flipped bit may have changed the codepoint in the packet, so read it there.
        if delivery.ecn == rdt_emulator::Ecn::Ce && ecn::read(&delivery.packet) != delivery.ecn {
            ecn::write(&mut delivery.packet, delivery.ecn);
        }
        // The device rejects bytes that are not an IP packet, and all packets while it is disabled.
        let taken = rustix::io::write(self.tun.as_fd(), &delivery.packet).is_ok();
        Ok(if taken { Sent::Taken } else { Sent::Refused })
    }
}

/// Frame format of the devices' packets, which are IP packets already.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IpPackets;

impl Frame for IpPackets {
    fn write(&self, packet: Carried<'_>, out: &mut Vec<u8>) -> bool {
        let start = out.len();
        out.extend_from_slice(packet.bytes);
        let bytes = &mut out[start..];
        // Sets CE in the capture, as `TunPort::send` does later in the packet.
        let is_marked = packet.ecn == rdt_emulator::Ecn::Ce && ecn::read(bytes) != packet.ecn;
        if is_marked {
            ecn::write(bytes, packet.ecn);
        }
        is_marked
    }
}
