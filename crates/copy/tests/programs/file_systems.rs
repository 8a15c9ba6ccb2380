//! Copies on a file system of a disk: whole seconds alone, and another device number after a boot.
//! Folders that users share.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rdt_program_testing::programs::{Program, pause};

use super::home::{Home, PROGRAM, args, names, noise};
use super::killed::partial_bytes;
use super::tree;

const LARGE_BYTES: usize = 24 << 20;

/// File system in an image, mounted over a loop device.
struct Disk {
    image: String,
    folder: PathBuf,
    loops: Vec<String>,
}

impl Disk {
    /// Makes a file system whose times have whole seconds. `None` without the permission.
    fn new(home: &Home, folder: &str) -> Option<Self> {
        let image = home.show("image");
        let file = fs::File::create(&image).unwrap();
        file.set_len(128 << 20).unwrap();
        let mut disk = Self { image, folder: home.folder(folder), loops: vec![] };
        // 128 bytes of an inode have no room for nanoseconds.
        let is_made = run("mkfs.ext4", &["-q", "-I", "128", &disk.image]).is_some();
        if is_made && disk.mount() {
            return Some(disk);
        }
        rdt_testing::skipped("no ext4 image can be made and mounted");
        None
    }

    /// Mounts the file system over a loop device that it has not had.
    fn mount(&mut self) -> bool {
        // Another process may take the device that was found free.
        let mut attempts = (0..10).map(|_| run("losetup", &["--find", "--show", &self.image]));
        let Some(device) = attempts.find_map(|device| device) else { return false };
        let is_mounted = run("mount", &[&device, &self.folder.display().to_string()]).is_some();
        self.loops.push(device);
        is_mounted
    }

    fn unmount(&self) {
        let _ = run("umount", &[&self.folder.display().to_string()]);
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.unmount();
        for device in &self.loops {
            let _ = run("losetup", &["--detach", device]);
        }
    }
}

/// Runs a program, and returns its output if it succeeds.
fn run(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Runs an ignored test in a mount namespace of its own. A namespace that another test makes would
/// copy the mount of the disk, and keep the file system in use after it is unmounted here.
fn run_with_own_mounts(name: &str) {
    if run("unshare", &["--mount", "true"]).is_none() {
        rdt_testing::skipped("no mount namespace can be made");
        return;
    }
    let tests = std::env::current_exe().unwrap();
    let name = format!("file_systems::{name}");
    let output =
        Command::new("unshare").arg("--mount").arg(tests).args(["--exact", "--ignored", &name]).output();
    let output = output.unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
fn whole_seconds_of_disk_are_no_difference() {
    run_with_own_mounts("disk_with_whole_seconds");
}

#[test]
#[ignore = "run by another test"]
fn disk_with_whole_seconds() {
    let home = Home::new();
    let Some(_disk) = Disk::new(&home, "store") else { return };
    tree::make(&home.folder("tree"));
    let serve = home.serve("store", &[]);
    let first = home.copy(&["tree", &serve.tickets[0]]);
    for option in [&["--keep-both"][..], &[]] {
        let again = home.copy(&[option, &["tree", &serve.tickets[0]]].concat());
        let all = first["files"].as_u64().unwrap() + first["links"].as_u64().unwrap();
        assert_eq!((&again["files"], &again["skipped"]), (&0.into(), &all.into()), "{again}");
    }
    home.write("tree/plain", "x");
    let ended = home.run(&["tree", &serve.tickets[0]]);
    assert_eq!(ended.code, Some(23), "a later time is a difference: {ended:?}");
}

#[test]
fn other_device_number_goes_on() {
    run_with_own_mounts("disk_with_other_number");
}

#[test]
#[ignore = "run by another test"]
fn disk_with_other_number() {
    let home = Home::new();
    let Some(mut disk) = Disk::new(&home, "disk") else { return };
    home.write("disk/tree/large", noise(5, LARGE_BYTES));
    let by_ssh = home.by_ssh();
    let command = [&args(&by_ssh)[..], &["disk/tree", "host:disk/new"]].concat();
    let mut program = home.start("anna", &[&command[..], &["--json", "--max-rate", "160mbit"]].concat());
    program.event("connected");
    while partial_bytes(&home.path("disk/new")) < LARGE_BYTES as u64 / 2 && !program.has_ended() {
        pause();
    }
    program.signal("INT");
    assert_eq!(program.ended().code, Some(130));
    disk.unmount();
    assert!(disk.mount(), "the disk has another device number now");
    let summary = home.copy(&command);
    assert!(summary["resumed_bytes"].as_u64().unwrap() > 0, "{summary}");
    assert_eq!(names(&home.path("disk/new")), ["large"]);
}

/// Returns a copy of `user`, who has this id on the system.
fn copy_of(home: &Home, (user, id): (&str, u32), args: &[&str]) -> Program {
    let mut command = home.command(user, args.iter().copied());
    Program::start(command.uid(id).gid(id))
}

#[test]
fn users_of_shared_folder_have_own_parts() {
    let home = Home::new();
    let (anna, bob) = (("anna", 10_001), ("bob", 10_002));
    let mut other_user = Command::new(PROGRAM);
    other_user.arg("--version").stdout(Stdio::null()).uid(anna.1).gid(anna.1);
    if !other_user.status().is_ok_and(|status| status.success()) {
        rdt_testing::skipped("no program can be run as another user");
        return;
    }
    home.write("large", noise(1, LARGE_BYTES));
    fs::set_permissions(home.path(""), Permissions::from_mode(0o755)).unwrap();
    for folder in ["store", "anna", "bob"] {
        fs::set_permissions(home.folder(folder), Permissions::from_mode(0o777)).unwrap();
    }
    let serve = home.serve(".", &["--tickets", "2"]);
    let [of_anna, of_bob] = [0, 1].map(|number| format!("{}:large", serve.tickets[number]));
    let mut first = copy_of(&home, anna, &["--max-rate", "8mbit", &of_anna, "store/"]);
    while partial_bytes(&home.path("store")) == 0 {
        assert!(!first.has_ended(), "{:?}", first.ended());
        pause();
    }
    first.signal("KILL");
    let ended = copy_of(&home, bob, &[&of_bob, "store/"]).ended();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(names(&home.path("store")).len(), 3, "the file, and part and journal of the first user");
    let ended = copy_of(&home, anna, &[&of_anna, "store/"]).ended();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(names(&home.path("store")), ["large"]);
}
