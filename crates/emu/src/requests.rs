//! Requests to end, heard on a thread of their own.

/// Calls `handler` each time that this process is asked to end: by Ctrl-C, a terminal that goes, or another process; on
/// Linux by Ctrl-\\ (SIGQUIT) too.
///
/// # Errors
/// Somebody hears them already, or the system refuses it.
pub(crate) fn on_request(handler: impl FnMut() + Send + 'static) -> Result<(), ctrlc::Error> {
    ctrlc::set_handler(handler)?;
    #[cfg(target_os = "linux")]
    also_quit().map_err(ctrlc::Error::System)?;
    Ok(())
}

/// What SIGINT does, SIGQUIT does.
#[cfg(target_os = "linux")]
fn also_quit() -> std::io::Result<()> {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: the first call fills the structure in or fails, and the second one reads it. The handler, which came from
    // another library, does not ask which signal it is for.
    #[expect(unsafe_code, reason = "no library copies what a signal does")]
    let copied = unsafe {
        libc::sigaction(libc::SIGINT, std::ptr::null(), action.as_mut_ptr()) == 0
            && libc::sigaction(libc::SIGQUIT, action.as_ptr(), std::ptr::null_mut()) == 0
    };
    if copied { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}
