//! Large pages for large buffers.
//!
//! Rows gathered at random touch a page each; with pages of 4 KiB the processor's table of
//! translations is too small for them. The advice is only advice: without it everything is the
//! same, slower.
//!
//! Unsafe: `madvise` takes a pointer.
#![allow(unsafe_code)]

/// Bytes of a large page.
const PAGE: usize = 2 << 20;

/// Asks the system to back `buffer` with large pages, where it has them.
pub(crate) fn prefer_huge(buffer: &mut [f32]) {
    #[cfg(target_os = "linux")]
    {
        let bytes = std::mem::size_of_val(buffer);
        let start = (buffer.as_mut_ptr() as usize).next_multiple_of(PAGE);
        let end = (buffer.as_ptr() as usize + bytes) & !(PAGE - 1);
        if end > start {
            // SAFETY: `start..end` lies within `buffer`, which is borrowed mutably; MADV_HUGEPAGE
            // changes how the range is backed, not what it holds. A refusal is no error.
            unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_HUGEPAGE) };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (buffer, PAGE);
}
