//! A matrix whose rows lie in blocks.

use super::block::Key;
use super::order::Use;
use super::pages::Pages;
use crate::backend::Mat;
use crate::error::Result;
use std::ops::Range;
use std::rc::Rc;

/// A matrix `[n, d]` in blocks; when it is gone, its elements are zero.
pub(in super::super) struct PagedRows {
    pages: Rc<Pages>,
    matrix: usize,
    n: usize,
    d: usize,
}

impl Drop for PagedRows {
    fn drop(&mut self) {
        self.pages.clear(self.matrix);
    }
}

/// Cuts ranges of rows into blocks of at most so many; a block lies in one range.
pub(in super::super) fn cut(
    ranges: impl Iterator<Item = Range<usize>>,
    most: usize,
) -> Rc<[usize]> {
    let mut starts = vec![0];
    for range in ranges {
        let parts = range.len().div_ceil(most);
        let bound = |k: usize| range.start + range.len() * k / parts;
        starts.extend((1..=parts).map(bound));
    }
    starts.into()
}

impl PagedRows {
    /// The matrix with this key, in blocks that begin at `starts`.
    pub(in super::super) fn new(
        pages: &Rc<Pages>,
        key: Key,
        d: usize,
        starts: &Rc<[usize]>,
    ) -> PagedRows {
        PagedRows {
            pages: Rc::clone(pages),
            matrix: pages.matrix(key, d, starts),
            n: starts.last().copied().unwrap_or(0),
            d,
        }
    }

    /// Number of elements.
    pub(in super::super) fn len(&self) -> usize {
        self.n * self.d
    }

    /// Number of columns.
    pub(in super::super) fn ncols(&self) -> usize {
        self.d
    }

    /// Whether it has elements.
    pub(in super::super) fn is_working(&self) -> bool {
        self.pages.is_working()
    }

    /// Does something with each block that has some of these rows, which ascend: it gets the block, the number
    /// of its first row, and which of `rows` it has.
    ///
    /// # Errors
    /// [`crate::Error::Io`] of what could not be read or written.
    pub(in super::super) fn each(
        &self,
        rows: &[u32],
        how: Use,
        mut f: impl FnMut(&mut Mat, u32, Range<usize>),
    ) -> Result<()> {
        let starts = self.pages.starts(self.matrix);
        let mut first = 0;
        while let Some(&row) = rows.get(first) {
            let k = starts.partition_point(|&start| start <= row as usize) - 1;
            let end = starts[k + 1];
            let has = rows[first..]
                .iter()
                .take_while(|&&row| (row as usize) < end);
            let part = first..first + has.count();
            first = part.end;
            let begin = starts[k] as u32;
            self.pages
                .with((self.matrix, k), how, |block| f(block, begin, part))?;
        }
        Ok(())
    }

    /// The same for rows that follow each other, which are whole blocks: it gets the block and its rows.
    ///
    /// # Errors
    /// As [`PagedRows::each`].
    pub(in super::super) fn each_in(
        &self,
        rows: Range<usize>,
        how: Use,
        mut f: impl FnMut(&mut Mat, Range<usize>),
    ) -> Result<()> {
        let starts = self.pages.starts(self.matrix);
        let mut k = starts.partition_point(|&start| start < rows.start);
        while k + 1 < starts.len() && starts[k] < rows.end {
            let of = starts[k]..starts[k + 1];
            assert!(
                of.start >= rows.start && of.end <= rows.end,
                "blocks {of:?} within rows {rows:?}"
            );
            self.pages
                .with((self.matrix, k), how, |block| f(block, of))?;
            k += 1;
        }
        Ok(())
    }
}
