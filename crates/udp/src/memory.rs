//! Memory that may not be there: where a socket is bound its buffers are asked for in a way that can fail, so that a
//! program which is short of memory can say so, and does not end when a datagram arrives.

use std::alloc::{self, Layout};
use std::io;

/// So many bytes, all zero, which take no memory before they are written; `len` is not 0.
///
/// # Errors
/// [`io::ErrorKind::OutOfMemory`].
#[expect(unsafe_code, reason = "the standard library has no way to ask for zeroed memory that may fail")]
pub(crate) fn zeroed(len: usize) -> io::Result<Box<[u8]>> {
    assert!(len > 0, "memory has a size");
    let layout = Layout::array::<u8>(len).map_err(|_| out_of_memory(len))?;
    // SAFETY: the layout's size is not 0.
    let memory = unsafe { alloc::alloc_zeroed(layout) };
    if memory.is_null() {
        return Err(out_of_memory(len));
    }
    // SAFETY: the memory comes from the global allocator with the layout of a slice of `len` bytes, which is how the
    // box will give it back; all of it is initialized, and nobody else has it.
    Ok(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(memory, len)) })
}

fn out_of_memory(len: usize) -> io::Error {
    io::Error::new(io::ErrorKind::OutOfMemory, format!("no memory for a buffer of {len} bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_told_and_what_is_there_is_zero() {
        let mut memory = zeroed(100_000).unwrap();
        assert!(memory.iter().all(|byte| *byte == 0));
        memory.fill(7);
        drop(memory);
        for more_than_any_host_has in [usize::MAX, usize::MAX / 2] {
            let error = zeroed(more_than_any_host_has).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::OutOfMemory);
        }
    }
}
