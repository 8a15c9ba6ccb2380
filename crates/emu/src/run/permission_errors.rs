//! Error messages for missing permissions: failed step, probable reason, and remedy.

use std::fs;
use std::io;

use super::tun;
use crate::Failure;

/// Steps of `run` that need permissions, in the order of execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Joining the network of the enclosing run.
    Join,
    Again,
    /// Creating a user namespace as a user other than root.
    UserNamespace,
    /// Creating a user namespace as root.
    UserNamespaceOfRoot,
    /// Becoming root in the user namespace.
    Root,
    Processes,
    Network,
    OpenTun,
    MakeTun,
    /// Setting addresses, routes and MTU.
    Configure,
}

impl Step {
    /// Returns a function for `map_err` that describes a failure of this step.
    pub(crate) fn forbidden(self) -> impl Fn(io::Error) -> Failure {
        move |error| Failure::unavailable(self.sentences(&error, &Host::look()))
    }

    fn sentences(self, error: &io::Error, host: &Host) -> String {
        let what = match self {
            Self::Join => "this run is inside another, whose network cannot be joined",
            Self::Again => "this program cannot be started again",
            Self::UserNamespace | Self::UserNamespaceOfRoot => {
                "this host does not let you create a user namespace"
            }
            Self::Root => "this host does not let you become root in a user namespace",
            Self::Processes => "this host does not let you create process and mount namespaces",
            Self::Network => "this host does not let you create a network namespace",
            Self::OpenTun => "/dev/net/tun cannot be opened",
            Self::MakeTun => "a TUN device cannot be created",
            Self::Configure => "the network inside cannot be set up",
        };
        let why = open_files(error).map_or_else(|| self.reason(error, host), String::from);
        format!("{what} ({error}): {why}. `rdt-emu proxy` needs none of this")
    }

    fn reason(self, error: &io::Error, host: &Host) -> String {
        match self {
            Self::Again => again_reason(error).into(),
            Self::OpenTun => Self::tun_reason(error),
            Self::Join | Self::MakeTun | Self::Configure => self.network_reason(error).into(),
            Self::UserNamespaceOfRoot => {
                format!("{}; or add --no-user-namespace", host.reason(self, error))
            }
            _ => host.reason(self, error),
        }
    }

    fn network_reason(self, error: &io::Error) -> &'static str {
        match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) if self == Self::Join => {
                "this process lacks the permission; start it as the user who started the enclosing run"
            }
            Some(libc::EPERM | libc::EACCES) => "this process lacks the permission",
            // The kernel lacks the address family or its settings. The family must be IPv6, because
            // a kernel with TUN devices has IPv4.
            Some(libc::EOPNOTSUPP | libc::EAFNOSUPPORT | libc::ENOENT) if self != Self::MakeTun => {
                "the kernel has no IPv6, or it is switched off; try without --ipv6"
            }
            Some(libc::ENOMEM | libc::ENOBUFS) => "the kernel is out of memory",
            Some(libc::EBUSY | libc::EEXIST) => "it exists already",
            _ => "the kernel gives no other reason, and more permissions would not help",
        }
    }

    fn tun_reason(error: &io::Error) -> String {
        let path = tun::CLONE_DEVICE;
        match error.kind() {
            io::ErrorKind::NotFound => format!(
                "it does not exist; as root run `modprobe tun`, or pass it into the container (docker: \
                 --device {path})"
            ),
            io::ErrorKind::PermissionDenied => format!(
                "its permissions are narrower than usual; as root run `chmod 666 {path}`: a program that opens \
                 it still needs permissions on the network"
            ),
            _ => "a container must allow it as a device (docker: --device /dev/net/tun), and the kernel \
                  needs CONFIG_TUN"
                .into(),
        }
    }
}

/// Returns the reason if a limit on open files caused the error; else `None`.
fn open_files(error: &io::Error) -> Option<&'static str> {
    match error.raw_os_error() {
        Some(libc::EMFILE) => Some("this process may open no more files; see `ulimit -n`"),
        Some(libc::ENFILE) => {
            Some("all processes together have too many files open; see `sysctl fs.file-max`")
        }
        _ => None,
    }
}

fn again_reason(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => {
            "/proc, which has its path, is not mounted; as root run `mount -t proc proc /proc`"
        }
        io::ErrorKind::WouldBlock => "this user may have no more processes; see `ulimit -u`",
        _ => "the kernel gives no other reason",
    }
}

/// Setting of the host that forbids namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Obstacle {
    NoUsers,
    NoNetworks,
    /// Debian's switch for user namespaces is off.
    SwitchedOff,
    /// `AppArmor` removes capabilities in user namespaces.
    AppArmor,
    Filter,
}

struct Host(Vec<Obstacle>);

impl Host {
    fn look() -> Self {
        let is = |path: &str, value: &str| fs::read_to_string(path).is_ok_and(|text| text.trim() == value);
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let looks = [
            (Obstacle::NoUsers, is("/proc/sys/user/max_user_namespaces", "0")),
            (Obstacle::NoNetworks, is("/proc/sys/user/max_net_namespaces", "0")),
            (Obstacle::SwitchedOff, is("/proc/sys/kernel/unprivileged_userns_clone", "0")),
            (Obstacle::AppArmor, is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1")),
            (Obstacle::Filter, status.lines().any(|line| line.split_whitespace().eq(["Seccomp:", "2"]))),
        ];
        Self(looks.into_iter().filter_map(|(obstacle, there)| there.then_some(obstacle)).collect())
    }

    fn reason(&self, step: Step, error: &io::Error) -> String {
        let has = |obstacle| self.0.contains(&obstacle);
        let limit = |name| format!("the limit user.{name} is 0; as root run `sysctl user.{name}=10000`");
        match step {
            Step::UserNamespace | Step::UserNamespaceOfRoot if has(Obstacle::NoUsers) => limit("max_user_namespaces"),
            Step::Network if has(Obstacle::NoNetworks) => limit("max_net_namespaces"),
            Step::UserNamespace if has(Obstacle::SwitchedOff) => {
                "they are switched off for all users but root; as root run `sysctl kernel.unprivileged_userns_clone=1`".into()
            }
            _ if has(Obstacle::AppArmor) => "AppArmor restricts user namespaces; as root run `sysctl \
                                   kernel.apparmor_restrict_unprivileged_userns=0`, or run this program"
                .into(),
            _ if has(Obstacle::Filter) => "a seccomp filter applies to this process, as in most containers; \
                                   start the container with more permissions (docker: --cap-add SYS_ADMIN --cap-add \
                                   NET_ADMIN --device /dev/net/tun --security-opt seccomp=unconfined)"
                .into(),
            _ if error.raw_os_error() == Some(libc::ENOSPC) => {
                "a limit is reached; see `sysctl -a | grep '^user.max_'`, or namespaces are nested too deeply".into()
            }
            Step::UserNamespaceOfRoot => "the kernel gives no other reason".into(),
            _ => "this process lacks the permission; try as root".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permission_errors_are_specific_and_offer_proxy() {
        use Obstacle::{AppArmor, Filter, NoNetworks, NoUsers, SwitchedOff};
        let cases = [
            (Step::Join, libc::EPERM, None, "start it as the user who"),
            (Step::Join, libc::EMFILE, None, "ulimit -n"),
            (Step::Again, libc::ENOENT, None, "mount -t proc"),
            (Step::Again, libc::EAGAIN, None, "ulimit -u"),
            (Step::Again, libc::ENOMEM, None, "no other reason"),
            (Step::OpenTun, libc::EMFILE, None, "ulimit -n"),
            (Step::Configure, libc::EMFILE, None, "ulimit -n"),
            (Step::Configure, libc::ENFILE, None, "fs.file-max"),
            (Step::UserNamespace, libc::ENOSPC, Some(NoUsers), "max_user_namespaces is 0"),
            (Step::Network, libc::ENOSPC, Some(NoNetworks), "max_net_namespaces is 0"),
            (Step::UserNamespace, libc::EPERM, Some(SwitchedOff), "unprivileged_userns_clone=1"),
            (Step::Root, libc::EPERM, Some(AppArmor), "AppArmor"),
            (Step::Network, libc::EPERM, Some(AppArmor), "AppArmor"),
            (Step::UserNamespace, libc::EPERM, Some(Filter), "seccomp"),
            (Step::UserNamespaceOfRoot, libc::EPERM, Some(Filter), "seccomp"),
            (Step::UserNamespaceOfRoot, libc::ENOSPC, Some(NoUsers), "namespaces is 0; as root"),
            (Step::UserNamespaceOfRoot, libc::EINVAL, None, "no other reason; or add --no-user-namespace"),
            (Step::Processes, libc::ENOSPC, None, "a limit is reached"),
            (Step::OpenTun, libc::ENOENT, None, "modprobe tun"),
            (Step::OpenTun, libc::EACCES, None, "chmod 666"),
            (Step::OpenTun, libc::ENODEV, None, "CONFIG_TUN"),
            (Step::MakeTun, libc::EPERM, None, "lacks the permission"),
            (Step::MakeTun, libc::EINVAL, None, "more permissions would not help"),
            (Step::Configure, libc::EACCES, None, "lacks the permission"),
            (Step::Configure, libc::EOPNOTSUPP, None, "the kernel has no IPv6"),
            (Step::Configure, libc::ENOBUFS, None, "out of memory"),
        ];
        for (step, errno, obstacle, part) in cases {
            let host = Host(obstacle.into_iter().collect());
            let said = step.sentences(&io::Error::from_raw_os_error(errno), &host);
            assert!(said.contains(part) && said.ends_with("`rdt-emu proxy` needs none of this"), "{said}");
        }
    }
}
