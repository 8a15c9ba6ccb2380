//! Creation of the namespaces.
//!
//! A process namespace applies only to children, so a child process does the rest of the setup
//! (`init.rs`).

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use nix::sched::CloneFlags;
use rustix::process::{Signal, getegid, geteuid};

use super::control::{Control, Message};
use super::permission_errors::Step;
use super::stage::{InsideArgs, Stage};
use crate::Failure;

/// Path of the running program, valid even if its file was moved or replaced.
const THIS_PROGRAM: &str = "/proc/self/exe";

pub(crate) fn inside(args: &InsideArgs) -> Command {
    let mut command = Command::new(THIS_PROGRAM);
    command.arg0("rdt-emu").arg("inside").args(args.to_arguments());
    command
}

/// Makes the kernel kill this process when its parent process ends.
pub(crate) fn end_with_parent() -> io::Result<()> {
    Ok(rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?)
}

pub(crate) fn enter(args: &InsideArgs, control: &Control) -> Result<(), Failure> {
    if args.user_namespace {
        user_namespace(control)?;
    }
    nix::sched::unshare(CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWNS)
        .map_err(|errno| Step::Processes.forbidden()(errno.into()))?;
    // Entering a user namespace may reset the parent-death signal, so set it afterwards.
    end_with_parent().map_err(Failure::system("cannot follow the parent"))?;
    let init = InsideArgs { stage: Stage::Init, ..args.clone() };
    let status = inside(&init).status().map_err(Failure::system("cannot start the first process inside"))?;
    tracing::debug!(%status, "the first process inside ended");
    Ok(())
}

/// Enters a new user namespace, in which this process is root.
fn user_namespace(control: &Control) -> Result<(), Failure> {
    let (user, group) = (geteuid(), getegid());
    let step = if user.is_root() { Step::UserNamespaceOfRoot } else { Step::UserNamespace };
    nix::sched::unshare(CloneFlags::CLONE_NEWUSER).map_err(|errno| step.forbidden()(errno.into()))?;
    if user.is_root() && are_all_ids_mapped(control).map_err(Failure::system("no control socket"))? {
        return Ok(());
    }
    let become_root = || {
        // Without this, only root may map a group: user_namespaces(7).
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("0 {} 1", user.as_raw()))?;
        fs::write("/proc/self/gid_map", format!("0 {} 1", group.as_raw()))
    };
    become_root().map_err(Step::Root.forbidden())
}

/// Lets the outer process map all IDs, which a process cannot do from inside its own namespace.
fn are_all_ids_mapped(control: &Control) -> io::Result<bool> {
    control.send(&Message::Unmapped, &[])?;
    match control.receive()? {
        Some((Message::Mapped(all), _)) => Ok(all),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Maps all user and group IDs of this process's namespace to themselves in the new user namespace
/// of process `child`, so that files and other users are the same in both.
pub(crate) fn map_all_ids(child: u32) -> io::Result<()> {
    for map in ["uid_map", "gid_map"] {
        let own = fs::read_to_string(format!("/proc/self/{map}"))?;
        fs::write(format!("/proc/{child}/{map}"), identity(&own))?;
    }
    Ok(())
}

/// Returns the map of the IDs of `map` to themselves. Its lines are "INSIDE OUTSIDE COUNT", each a
/// range of IDs.
fn identity(map: &str) -> String {
    let line = |line: &str| {
        let mut words = line.split_whitespace();
        let (first, count) = (words.next()?, words.nth(1)?);
        Some(format!("{first} {first} {count}\n"))
    };
    map.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_mapped_to_themselves() {
        let map = "         0       1000          1\n         1     100000      65536\n";
        assert_eq!(identity(map), "0 0 1\n1 1 65536\n");
    }
}
