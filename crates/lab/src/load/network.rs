//! The network namespaces of both ends, which `rdt-emu run` creates, and settings in them.

use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd as _;
use std::path::Path;

use rdt_emu::Netlink;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use socket2::Domain;

use super::LoadError;
use super::request::Request;

/// Device of the emulated path in both namespaces.
const DEVICE: &str = "rdt0";
/// Environment variable with the file of the far end's network namespace in a nested run.
const FAR_NETWORK: &str = "RDT_LAB_FAR";

/// One end of the path: its network namespace, and the addresses of both ends.
#[derive(Debug)]
pub(super) struct End {
    /// `None`: that of this process.
    namespace: Option<File>,
    pub(super) local: IpAddr,
    pub(super) peer: IpAddr,
}

impl End {
    /// Opens the near end, in which this process runs, and the far end. The process there has
    /// written its number to the file `far_process` ([`stay`]).
    pub(super) fn both(far_process: &Path, ipv6: bool) -> Result<[Self; 2], LoadError> {
        let address = |variable: &str| {
            let text = std::env::var(variable).ok();
            text.and_then(|it| it.parse::<IpAddr>().ok()).ok_or(LoadError::NotInside)
        };
        let (near, far) = if ipv6 { ("RDT_LOCAL6", "RDT_PEER6") } else { ("RDT_LOCAL", "RDT_PEER") };
        let (near, far) = (address(near)?, address(far)?);
        // In a nested run the far end has no process number. The engine has opened its namespace.
        let network = if let Ok(opened) = std::env::var(FAR_NETWORK) {
            opened
        } else {
            let process = fs::read_to_string(far_process);
            let process = process.map_err(LoadError::system("the far end did not start"))?;
            format!("/proc/{}/ns/net", process.trim())
        };
        let open =
            |file: &str| File::open(file).map(Some).map_err(LoadError::system("cannot find a network"));
        Ok([
            Self { namespace: open("/proc/thread-self/ns/net")?, local: near, peer: far },
            Self { namespace: open(&network)?, local: far, peer: near },
        ])
    }

    /// Returns both ends of flows without a path, over the loopback device.
    pub(super) fn loopback() -> [Self; 2] {
        let address = IpAddr::from(Ipv4Addr::LOCALHOST);
        [(); 2].map(|()| Self { namespace: None, local: address, peer: address })
    }

    pub(super) fn domain(&self) -> Domain {
        Domain::for_address(SocketAddr::new(self.local, 0))
    }

    /// Runs `work` in a thread in this namespace. Its sockets stay there.
    pub(super) fn run<T: Send>(
        &self,
        work: impl FnOnce() -> Result<T, LoadError> + Send,
    ) -> Result<T, LoadError> {
        let Some(namespace) = &self.namespace else { return work() };
        let inside = || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                .map_err(|errno| LoadError::system("cannot enter the network of an end")(errno.into()))?;
            work()
        };
        std::thread::scope(|scope| scope.spawn(inside).join())
            .unwrap_or_else(|_| Err(LoadError::system("a thread panicked")(io::ErrorKind::Other.into())))
    }

    /// Opens a socket in this namespace. `step` says in errors what failed.
    pub(super) fn open<T: Send>(
        &self,
        step: &'static str,
        open: impl FnOnce() -> io::Result<T> + Send,
    ) -> Result<T, LoadError> {
        self.run(|| open().map_err(LoadError::system(step)))
    }

    /// Sets sysctls and the metrics of the route to the other end.
    pub(super) fn set(&self, request: &Request, metrics: &[(u16, u32)]) -> Result<(), LoadError> {
        self.run(|| {
            for (name, value) in &request.sysctls {
                let file = format!("/proc/sys/{}", name.replace('.', "/"));
                fs::write(file, value)
                    .map_err(|error| LoadError::Sysctl(name.clone(), value.clone(), error))?;
            }
            if metrics.is_empty() {
                return Ok(());
            }
            let route = || {
                let netlink = Netlink::open()?;
                netlink.add_host_route(self.peer, netlink.index(DEVICE)?, metrics)
            };
            route().map_err(LoadError::system("cannot set the metrics of the route"))
        })
    }
}

/// Runs at the far end until it is killed. Its process number, in `file`, leads the load program to
/// the namespace. The port that it binds tells `rdt-emu run` that the server is ready.
pub(super) fn stay(file: &Path) -> Result<(), LoadError> {
    fs::write(file, std::process::id().to_string()).map_err(LoadError::system("cannot write a file"))?;
    let _port = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).map_err(LoadError::system("cannot bind a port"))?;
    loop {
        std::thread::park();
    }
}
