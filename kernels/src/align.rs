//! An allocator for programs that compute: large blocks begin at a cache line.
//!
//! The system's allocator hands out large blocks 16 bytes into a line, so that every gathered row
//! of a matrix touches one line more: a quarter of the time of an aggregation 128 wide. A program
//! opts in with `#[global_allocator]`; results are the same without it.
//!
//! The line is found within an ordinary block that is a line larger. Asked for aligned blocks, glibc 2.36
//! cuts them out of larger ones, and does not find room for one in the place of an equal one that was
//! freed: each round of allocations left holes behind.
//!
//! Unsafe: an allocator is.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};

/// Bytes of a cache line.
const LINE: usize = 64;

/// Bytes from which a block begins at a line.
const LARGE: usize = 4096;

/// What the system aligns every block to.
const LEAST: usize = 16;

/// The system's allocator, with large blocks at cache lines.
pub struct LineAligned;

/// Whether blocks of `layout` begin at a line by this allocator's doing; the same for a block's whole
/// life, since it follows from the layout alone.
fn is_ours(layout: Layout) -> bool {
    layout.size() >= LARGE && layout.align() <= LEAST
}

/// What is asked of the system for a block of ours: room for a line more.
fn outer(size: usize) -> Option<Layout> {
    Layout::from_size_align(size.checked_add(LINE)?, LEAST).ok()
}

/// The first line after the system's block `raw`, with the place of `raw` noted before it.
///
/// # Safety
/// `raw` is aligned to [`LEAST`] and has a line more than is used.
unsafe fn begin(raw: *mut u8) -> *mut u8 {
    let skip = LINE - raw as usize % LINE;
    // SAFETY: `skip` is between LEAST and LINE, so the block begins within `raw`'s, and before it is
    // room for a pointer, at a multiple of its size.
    unsafe {
        let block = raw.add(skip);
        block.cast::<*mut u8>().sub(1).write(raw);
        block
    }
}

/// The system's block in which `block` lies.
///
/// # Safety
/// `block` is of [`begin`].
unsafe fn raw_of(block: *mut u8) -> *mut u8 {
    // SAFETY: `begin` has written it there.
    unsafe { block.cast::<*mut u8>().sub(1).read() }
}

// SAFETY: blocks that are not ours are the system's own. Of ours, `outer` gives the layout with which
// the system's block was made, and `begin` and `raw_of` its place.
unsafe impl GlobalAlloc for LineAligned {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !is_ours(layout) {
            // SAFETY: the caller's layout has a size above zero.
            return unsafe { System.alloc(layout) };
        }
        let Some(outer) = outer(layout.size()) else {
            return std::ptr::null_mut();
        };
        // SAFETY: `outer` is larger than zero, and its block has a line more than the caller's.
        unsafe {
            let raw = System.alloc(outer);
            if raw.is_null() { raw } else { begin(raw) }
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !is_ours(layout) {
            // SAFETY: the caller's layout has a size above zero.
            return unsafe { System.alloc_zeroed(layout) };
        }
        let Some(outer) = outer(layout.size()) else {
            return std::ptr::null_mut();
        };
        // SAFETY: as in `alloc`; what `begin` writes lies before the block.
        unsafe {
            let raw = System.alloc_zeroed(outer);
            if raw.is_null() { raw } else { begin(raw) }
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: `block` was made with `layout`, so `outer` was possible where it is ours.
        unsafe {
            match outer(layout.size()) {
                Some(outer) if is_ours(layout) => System.dealloc(raw_of(block), outer),
                _ => System.dealloc(block, layout),
            }
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let Ok(to) = Layout::from_size_align(size, layout.align()) else {
            return std::ptr::null_mut();
        };
        match (is_ours(layout), is_ours(to)) {
            // SAFETY: the system's own block, and a new size that fits into a layout.
            (false, false) => unsafe { System.realloc(block, layout, size) },
            (true, true) => {
                let (Some(from), Some(to)) = (outer(layout.size()), outer(size)) else {
                    return std::ptr::null_mut();
                };
                // SAFETY: the system keeps the content where it was within its block; from there it
                // is moved to where the block begins now, both within the new one.
                unsafe {
                    let raw = raw_of(block);
                    let before = block as usize - raw as usize;
                    let raw = System.realloc(raw, from, to.size());
                    if raw.is_null() {
                        return raw;
                    }
                    let content = raw.add(before);
                    let now = raw.add(LINE - raw as usize % LINE);
                    if now != content {
                        std::ptr::copy(content, now, layout.size().min(size));
                    }
                    begin(raw)
                }
            }
            // SAFETY: both blocks are valid for the smaller of their sizes and do not overlap; the old
            // one is given back only when the new one exists.
            _ => unsafe {
                let new = self.alloc(to);
                if !new.is_null() {
                    std::ptr::copy_nonoverlapping(block, new, layout.size().min(size));
                    self.dealloc(block, layout);
                }
                new
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_blocks_begin_at_a_line_and_keep_their_content() {
        let layout = |size| Layout::from_size_align(size, 4).expect("a small layout");
        // SAFETY: blocks are made, resized and given back with the layouts they have.
        unsafe {
            let mut block = LineAligned.alloc_zeroed(layout(100));
            block.write_bytes(7, 100);
            let mut size = 100;
            for next in [5000, 70_000, 8192, 1 << 20, 64] {
                block = LineAligned.realloc(block, layout(size), next);
                assert!(!block.is_null());
                assert!(next < LARGE || (block as usize).is_multiple_of(LINE));
                let kept = std::slice::from_raw_parts(block, 64);
                assert!(kept.iter().all(|&b| b == 7));
                size = next;
            }
            LineAligned.dealloc(block, layout(size));
        }
    }

    #[test]
    fn zeros_are_zeros_and_other_alignments_are_the_systems() {
        for (size, align) in [(5000, 1), (70_000, 16), (5000, 64), (9000, 4096), (3, 1)] {
            let layout = Layout::from_size_align(size, align).expect("a small layout");
            // SAFETY: a block is made and given back with one layout, and read within its size.
            unsafe {
                let dirty = LineAligned.alloc(layout);
                dirty.write_bytes(9, size);
                LineAligned.dealloc(dirty, layout);
                let block = LineAligned.alloc_zeroed(layout);
                assert!((block as usize).is_multiple_of(align));
                assert!(
                    std::slice::from_raw_parts(block, size)
                        .iter()
                        .all(|&b| b == 0)
                );
                LineAligned.dealloc(block, layout);
            }
        }
    }

    #[test]
    fn a_block_that_cannot_be_is_null() {
        let most = Layout::from_size_align(isize::MAX as usize - 15, 16).expect("a layout");
        // SAFETY: nothing was made that would have to be given back.
        assert!(unsafe { LineAligned.alloc(most) }.is_null());
    }
}
