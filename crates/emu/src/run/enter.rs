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

use super::permission_errors::Step;
use crate::args::InsideArgs;
use crate::failure::Failure;

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

pub(crate) fn enter(args: &InsideArgs) -> Result<(), Failure> {
    namespaces()?;
    // Entering a user namespace may reset the parent-death signal, so set it afterwards.
    end_with_parent().map_err(Failure::system("cannot follow the parent"))?;
    let init = InsideArgs { stage: super::Stage::Init, ..args.clone() };
    let status = inside(&init).status().map_err(Failure::system("cannot start the first process inside"))?;
    tracing::debug!(%status, "the first process inside ended");
    Ok(())
}

/// Creates process and mount namespaces. A user other than root, or root without the capability,
/// needs a user namespace first.
fn namespaces() -> Result<(), Failure> {
    let both = CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWNS;
    if geteuid().is_root() && nix::sched::unshare(both).is_ok() {
        return Ok(());
    }
    let (user, group) = (geteuid(), getegid());
    nix::sched::unshare(CloneFlags::CLONE_NEWUSER)
        .map_err(|errno| Step::UserNamespace.forbidden()(errno.into()))?;
    let become_root = || {
        // Without this, only root may map a group: user_namespaces(7).
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("0 {} 1", user.as_raw()))?;
        fs::write("/proc/self/gid_map", format!("0 {} 1", group.as_raw()))
    };
    become_root().map_err(Step::Root.forbidden())?;
    nix::sched::unshare(both).map_err(|errno| Step::Processes.forbidden()(errno.into()))
}
