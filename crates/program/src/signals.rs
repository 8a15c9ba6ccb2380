//! Signals that ask a program to end, and the limit on file sizes.

/// Calls `handler` on a thread of its own each time that Ctrl-C, a closed terminal or another
/// process asks this process to end.
///
/// # Errors
/// A handler is set already, or the system refuses.
pub fn on_interrupt(handler: impl FnMut() + Send + 'static) -> Result<(), ctrlc::Error> {
    ctrlc::set_handler(handler)
}

/// Does the same, and on Linux for Ctrl-\\ (SIGQUIT) too.
///
/// # Errors
/// As [`on_interrupt`].
pub fn on_interrupt_or_quit(handler: impl FnMut() + Send + 'static) -> Result<(), ctrlc::Error> {
    on_interrupt(handler)?;
    #[cfg(target_os = "linux")]
    copy_interrupt_to_quit().map_err(ctrlc::Error::System)?;
    Ok(())
}

/// Gives SIGQUIT the handler of SIGINT.
#[cfg(target_os = "linux")]
fn copy_interrupt_to_quit() -> std::io::Result<()> {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: the first call fills the structure or fails, and the second one reads it. The handler
    // does not depend on the number of its signal.
    #[expect(unsafe_code, reason = "no library copies a signal's action")]
    let copied = unsafe {
        libc::sigaction(libc::SIGINT, std::ptr::null(), action.as_mut_ptr()) == 0
            && libc::sigaction(libc::SIGQUIT, action.as_ptr(), std::ptr::null_mut()) == 0
    };
    if copied { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Makes a write beyond the file size limit (`ulimit -f`) fail like one to a full disk, instead of
/// ending the program. Must be called before any thread is started: threads inherit the signal
/// mask.
pub fn survive_file_size_limit() {
    #[cfg(unix)]
    // SAFETY: the first two calls fill the set that the third one reads; no pointer outlives its
    // call. If a call fails, the limit ends the program as usual.
    #[expect(unsafe_code, reason = "the standard library has no signal mask")]
    unsafe {
        let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        if libc::sigemptyset(set.as_mut_ptr()) == 0 && libc::sigaddset(set.as_mut_ptr(), libc::SIGXFSZ) == 0 {
            libc::pthread_sigmask(libc::SIG_BLOCK, set.as_ptr(), std::ptr::null_mut());
        }
    }
}
