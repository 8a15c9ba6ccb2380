//! Standard streams that may be closed. The runtime of Rust opens `/dev/null` in place of each
//! standard descriptor that is closed when a program starts, so a closed input would be an empty
//! one, and output would get lost without an error. Afterwards nothing tells such a descriptor from
//! the `/dev/null` of a service manager or of Python's `DEVNULL`, which are open for reading and
//! writing, too. So the descriptors are looked at before that, when the loader initializes the
//! program.

use std::io::{self, Write};

/// Standard output. Writes fail if it was closed when the program started.
#[derive(Debug)]
pub struct Stdout(io::Stdout);

/// Returns the standard output.
pub fn stdout() -> Stdout {
    Stdout(io::stdout())
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        check_stdout()?;
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Fails if the standard input was closed when the program started.
pub fn check_stdin() -> io::Result<()> {
    check(0)
}

/// Fails if the standard output was closed when the program started.
pub fn check_stdout() -> io::Result<()> {
    check(1)
}

fn check(descriptor: u8) -> io::Result<()> {
    #[cfg(unix)]
    if at_start::is_closed(descriptor) {
        return Err(io::Error::other("it is closed"));
    }
    let _ = descriptor;
    Ok(())
}

/// Lets the reader of the standard output see its end. Nothing must be written to it afterwards.
pub fn end_stdout() -> io::Result<()> {
    io::stdout().flush()?;
    #[cfg(unix)]
    {
        let null = std::fs::File::options().write(true).open("/dev/null")?;
        #[expect(unsafe_code, reason = "the standard library cannot replace a descriptor")]
        // SAFETY: both descriptors are open, and no type owns the standard output.
        let replaced = unsafe { libc::dup2(std::os::fd::AsRawFd::as_raw_fd(&null), 1) };
        if replaced < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

#[cfg(unix)]
mod at_start {
    use std::sync::atomic::{AtomicU8, Ordering};

    /// Bit n: descriptor n was closed.
    static CLOSED: AtomicU8 = AtomicU8::new(0);

    #[expect(unsafe_code, reason = "the loader calls functions in this section before main")]
    #[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__mod_init_func"))]
    #[cfg_attr(not(target_vendor = "apple"), unsafe(link_section = ".init_array"))]
    #[used]
    static NOTE: extern "C" fn() = note;

    extern "C" fn note() {
        for descriptor in 0..2 {
            #[expect(unsafe_code, reason = "no library call takes a descriptor that may be closed")]
            // SAFETY: the call only reads flags, and fails if the descriptor is closed.
            let flags = unsafe { libc::fcntl(descriptor, libc::F_GETFD) };
            if flags == -1 {
                CLOSED.fetch_or(1 << descriptor, Ordering::Relaxed);
            }
        }
    }

    pub(super) fn is_closed(descriptor: u8) -> bool {
        CLOSED.load(Ordering::Relaxed) >> descriptor & 1 == 1
    }
}
