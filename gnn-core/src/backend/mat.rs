//! Matrices that live where their backend does, and the buffers they are made of.

use super::hollow::Claim;
use super::shelf::Shelf;
use crate::record::Meter;
use kernels::cuda::Buf;
use kernels::spmm_bf16::bf16;
use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// A dense row-major matrix `[rows, columns]` of `f32` on some device; features may be stored in 16
/// bits ([`crate::backend::Backend::upload_rounded`]).
///
/// Only a backend looks inside; [`Mat::host`] is for the CPU backend and for tests.
pub struct Mat {
    rows: usize,
    cols: usize,
    at: Storage,
    /// What a meter was told of it.
    told: Option<Told>,
}

/// Bytes that a meter counts for as long as this lives.
struct Told {
    bytes: u64,
    meter: Rc<Meter>,
}

impl Drop for Told {
    fn drop(&mut self) {
        self.meter.freed(self.bytes);
    }
}

/// Where the elements are.
enum Storage {
    /// In this process's memory; a buffer of a pool goes back to it.
    Host {
        data: kernels::Mat,
        pool: Option<Rc<Pool>>,
    },
    /// In this process's memory, where other threads read it too.
    Shared(Arc<kernels::Mat>),
    /// In this process's memory, in 16 bits.
    Rounded(Vec<bf16>),
    /// In a device's memory.
    Device(Buf<f32>),
    /// Nowhere: only what it would take is known.
    Hollow(Claim),
}

impl Mat {
    /// A matrix in this process's memory.
    pub fn from_host(data: kernels::Mat) -> Mat {
        Mat::on_host(data, None)
    }

    fn on_host(data: kernels::Mat, pool: Option<Rc<Pool>>) -> Mat {
        let (rows, cols) = data.dim();
        let at = Storage::Host { data, pool };
        let told = None;
        Mat {
            rows,
            cols,
            at,
            told,
        }
    }

    /// A matrix in this process's memory that other threads read as well; it is changed only while none does.
    pub(crate) fn shared(data: Arc<kernels::Mat>) -> Mat {
        let (rows, cols) = data.dim();
        Mat {
            rows,
            cols,
            at: Storage::Shared(data),
            told: None,
        }
    }

    /// The elements, for another thread to read, where that is possible.
    pub(crate) fn shared_elements(&self) -> Option<&Arc<kernels::Mat>> {
        match &self.at {
            Storage::Shared(data) => Some(data),
            _ => None,
        }
    }

    /// Gives the elements away for a time, for another thread to write, where they are in this process's
    /// memory; the matrix counts as before, and may only be dropped until [`Mat::have_back`].
    pub(crate) fn lend(&mut self) -> Option<kernels::Mat> {
        match &mut self.at {
            Storage::Host { data, .. } => Some(std::mem::take(data)),
            _ => None,
        }
    }

    /// Has them back.
    ///
    /// # Panics
    /// When they were not lent, or have another shape.
    pub(crate) fn have_back(&mut self, elements: kernels::Mat) {
        assert_eq!(self.dim(), elements.dim(), "{self:?} has its elements back");
        match &mut self.at {
            Storage::Host { data, .. } => *data = elements,
            _ => panic!("{self:?}: nothing was lent"),
        }
    }

    /// A matrix `[rows, cols]` in this process's memory whose elements are stored in 16 bits.
    pub(super) fn rounded(rows: usize, cols: usize, data: Vec<bf16>) -> Mat {
        assert_eq!(rows * cols, data.len(), "a matrix [{rows}, {cols}]");
        Mat {
            rows,
            cols,
            at: Storage::Rounded(data),
            told: None,
        }
    }

    /// The elements, for a matrix whose elements are stored in 16 bits.
    pub(super) fn as_rounded(&self) -> Option<&[bf16]> {
        match &self.at {
            Storage::Rounded(data) => Some(data),
            _ => None,
        }
    }

    /// A matrix `[rows, cols]` in a device's memory.
    pub(super) fn on_device(rows: usize, cols: usize, data: Buf<f32>) -> Mat {
        assert_eq!(rows * cols, data.len(), "a matrix [{rows}, {cols}]");
        let at = Storage::Device(data);
        let told = None;
        Mat {
            rows,
            cols,
            at,
            told,
        }
    }

    /// A matrix `[rows, cols]` without elements.
    pub(super) fn hollow(rows: usize, cols: usize, claim: Claim) -> Mat {
        Mat {
            rows,
            cols,
            at: Storage::Hollow(claim),
            told: None,
        }
    }

    /// What a matrix without elements would take.
    ///
    /// # Panics
    /// When it has elements.
    pub(super) fn into_claim(mut self) -> Claim {
        match std::mem::replace(&mut self.at, Storage::Rounded(Vec::new())) {
            Storage::Hollow(claim) => claim,
            _ => panic!("{self:?}: expected a matrix without elements"),
        }
    }

    /// Bytes of an element.
    pub(super) fn element(&self) -> u64 {
        match &self.at {
            Storage::Rounded(_) => 2,
            Storage::Hollow(claim) => claim.element,
            _ => 4,
        }
    }

    /// The same matrix, its bytes told to `meter` until it is gone.
    pub(super) fn told(mut self, meter: &Rc<Meter>) -> Mat {
        let bytes = self.element() * self.len() as u64;
        meter.made(bytes);
        self.told = Some(Told {
            bytes,
            meter: Rc::clone(meter),
        });
        self
    }

    /// The elements, for a matrix in a device's memory.
    ///
    /// # Panics
    /// When it is in this process's memory.
    pub(super) fn buf(&self) -> &Buf<f32> {
        match &self.at {
            Storage::Device(data) => data,
            _ => panic!("{self:?}: expected a matrix on the device"),
        }
    }

    /// The elements, to be changed; panics like [`Mat::buf`].
    pub(crate) fn buf_mut(&mut self) -> &mut Buf<f32> {
        let shape = self.dim();
        match &mut self.at {
            Storage::Device(data) if data.is_mapped() => {
                panic!("Mat {shape:?}: the host's rows are only read")
            }
            Storage::Device(data) => data,
            _ => panic!("Mat {shape:?}: expected a matrix on the device"),
        }
    }

    /// Whether a device reads the elements in the host's memory.
    pub(crate) fn is_mapped(&self) -> bool {
        matches!(&self.at, Storage::Device(data) if data.is_mapped())
    }

    /// Whether the elements are in a device's memory.
    pub(crate) fn on_device_at(&self) -> bool {
        matches!(self.at, Storage::Device(_))
    }

    /// The elements themselves; panics like [`Mat::buf`].
    pub(crate) fn into_buf(mut self) -> Buf<f32> {
        let shape = self.dim();
        match std::mem::replace(&mut self.at, Storage::Rounded(Vec::new())) {
            Storage::Device(data) => data,
            _ => panic!("Mat {shape:?}: expected a matrix on the device"),
        }
    }

    /// A matrix `[rows, cols]` of what came to the device, its bytes told to `meter`.
    pub(crate) fn of_message(
        rows: usize,
        cols: usize,
        floats: Arc<Buf<f32>>,
        meter: &Rc<Meter>,
    ) -> Mat {
        let data = Arc::try_unwrap(floats).unwrap_or_else(|shared| {
            let mut own = shared.device().fresh(shared.len());
            own.copy_from(0, &shared, 0, shared.len());
            own
        });
        Mat::on_device(rows, cols, data).told(meter)
    }

    /// Number of rows.
    pub fn nrows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn ncols(&self) -> usize {
        self.cols
    }

    /// Rows and columns.
    pub fn dim(&self) -> (usize, usize) {
        (self.rows, self.cols)
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.rows * self.cols
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first `rows` rows, without moving them.
    ///
    /// # Panics
    /// When there are fewer.
    pub fn truncate(mut self, rows: usize) -> Mat {
        assert!(rows <= self.rows, "truncate: {rows} of {} rows", self.rows);
        let (cols, told) = (self.cols, self.told.take());
        let mut cut = match &mut self.at {
            Storage::Host { data, pool } => {
                let mut buffer = std::mem::take(data).into_raw_vec_and_offset().0;
                buffer.truncate(rows * cols);
                let data = kernels::Mat::from_shape_vec((rows, cols), buffer);
                Mat::on_host(data.expect("truncated to this size"), pool.take())
            }
            Storage::Device(_) => {
                let nothing = Storage::Host {
                    data: kernels::Mat::default((0, 0)),
                    pool: None,
                };
                match std::mem::replace(&mut self.at, nothing) {
                    Storage::Device(data) => Mat::on_device(rows, cols, data.truncate(rows * cols)),
                    _ => unreachable!("matched one line above"),
                }
            }
            Storage::Hollow(_) => {
                self.rows = rows;
                self.told = told;
                return self;
            }
            Storage::Shared(_) => panic!("truncate: the matrix is shared"),
            Storage::Rounded(_) => panic!("truncate: elements are stored in 16 bits"),
        };
        // The buffer is as large as before.
        cut.told = told;
        cut
    }

    /// The same elements, row after row, as a matrix of another shape.
    ///
    /// # Panics
    /// When it has another number of elements.
    pub fn reshape(mut self, rows: usize, cols: usize) -> Mat {
        assert_eq!(rows * cols, self.len(), "reshape of {self:?}");
        (self.rows, self.cols) = (rows, cols);
        match &mut self.at {
            Storage::Host { data, .. } => {
                let buffer = std::mem::take(data).into_raw_vec_and_offset().0;
                let shaped = kernels::Mat::from_shape_vec((rows, cols), buffer);
                *data = shaped.expect("as many elements as before");
            }
            Storage::Shared(_) => panic!("reshape: the matrix is shared"),
            Storage::Device(_) | Storage::Rounded(_) | Storage::Hollow(_) => {}
        }
        self
    }

    /// The elements, for a matrix in this process's memory; its buffer leaves the pool.
    pub(crate) fn into_host(mut self) -> kernels::Mat {
        match &mut self.at {
            Storage::Host { data, pool } => {
                let data = std::mem::take(data);
                let Some(pool) = pool.take() else {
                    return data;
                };
                let shape = data.dim();
                let buffer = data.into_raw_vec_and_offset().0;
                pool.lose(buffer.capacity());
                let data = kernels::Mat::from_shape_vec(shape, buffer);
                data.expect("matrices of a pool are in standard layout")
            }
            Storage::Shared(data) => Arc::unwrap_or_clone(std::mem::take(data)),
            _ => panic!("{self:?}: expected `f32` in this process's memory"),
        }
    }

    /// The elements, for a matrix in this process's memory.
    pub fn host(&self) -> &kernels::Mat {
        match &self.at {
            Storage::Host { data, .. } => data,
            Storage::Shared(data) => data,
            _ => panic!("{self:?}: expected `f32` in this process's memory"),
        }
    }

    /// The elements as one row-major slice, if they are `f32` in this process's memory.
    pub(crate) fn host_elements(&self) -> Option<&[f32]> {
        match &self.at {
            Storage::Host { data, .. } => data.as_slice(),
            Storage::Shared(data) => data.as_slice(),
            _ => None,
        }
    }

    /// The elements, to be changed, for a matrix in this process's memory.
    ///
    /// # Panics
    /// When it is elsewhere, or another thread reads it.
    pub fn host_mut(&mut self) -> &mut kernels::Mat {
        let shape = self.dim();
        match &mut self.at {
            Storage::Host { data, .. } => data,
            Storage::Shared(data) => match Arc::get_mut(data) {
                Some(data) => data,
                None => panic!("Mat {shape:?}: another thread reads it"),
            },
            _ => panic!("Mat {shape:?}: expected `f32` in this process's memory"),
        }
    }

    /// The elements as one row-major slice, for a matrix in this process's memory; zeros where it has
    /// none.
    pub fn elements(&self) -> Cow<'_, [f32]> {
        match &self.at {
            Storage::Hollow(_) => Cow::Owned(vec![0.0; self.len()]),
            _ => Cow::Borrowed(self.as_slice()),
        }
    }

    /// The elements as one row-major slice, for a matrix in this process's memory.
    pub fn as_slice(&self) -> &[f32] {
        let data = self.host().as_slice();
        data.expect("matrices are made in standard layout")
    }

    /// The elements as one row-major slice to be changed, for a matrix in this process's memory.
    pub fn as_slice_mut(&mut self) -> &mut [f32] {
        let data = self.host_mut().as_slice_mut();
        data.expect("matrices are made in standard layout")
    }
}

impl std::fmt::Debug for Mat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Mat [{}, {}]", self.rows, self.cols)
    }
}

impl Drop for Mat {
    fn drop(&mut self) {
        if let Storage::Host { data, pool } = &mut self.at
            && let Some(pool) = pool.take()
        {
            let data = std::mem::take(data);
            pool.put(data.into_raw_vec_and_offset().0);
        }
    }
}

/// Buffers of this process's memory that are kept from one epoch to the next, since giving large
/// ones back to the system costs page faults each time.
#[derive(Default)]
pub(super) struct Pool {
    shelf: RefCell<Shelf<Vec<f32>>>,
}

impl Pool {
    /// A matrix whose elements are whatever its buffer held before (NaN in unit tests, so that
    /// nobody relies on them).
    pub(super) fn fresh(self: &Rc<Self>, rows: usize, cols: usize) -> Mat {
        let len = rows * cols;
        let mut buffer = self.shelf.borrow_mut().take(len).unwrap_or_default();
        if buffer.capacity() < len {
            let room = self.shelf.borrow_mut().new_room(len);
            // Let go before the new one is made.
            drop(buffer);
            buffer = vec![0.0; room];
            super::pages::prefer_huge(&mut buffer);
        }
        if cfg!(test) {
            buffer.fill(f32::NAN);
            buffer.resize(len, f32::NAN);
        }
        buffer.resize(len, 0.0);
        self.shelf.borrow_mut().lend(buffer.capacity());
        let data = kernels::Mat::from_shape_vec((rows, cols), buffer);
        Mat::on_host(
            data.expect("the buffer has rows · cols elements"),
            Some(Rc::clone(self)),
        )
    }

    /// A matrix made elsewhere, whose buffer comes here when it is gone: messages leave with a buffer of
    /// this rank and bring one of another's.
    pub(super) fn adopt(self: &Rc<Self>, data: kernels::Mat) -> Mat {
        assert!(data.is_standard_layout(), "rows lie behind each other");
        let (shape, len) = (data.dim(), data.len());
        let (mut buffer, start) = data.into_raw_vec_and_offset();
        // What was cut off before the rows, and behind them.
        buffer.drain(..start.unwrap_or(0));
        buffer.truncate(len);
        self.shelf.borrow_mut().lend(buffer.capacity());
        let data = kernels::Mat::from_shape_vec(shape, buffer);
        Mat::on_host(data.expect("it had this shape"), Some(Rc::clone(self)))
    }

    /// All buffers together have so many elements at most.
    pub(super) fn limit(&self, elements: usize) {
        self.shelf.borrow_mut().limit(elements);
    }

    fn put(&self, buffer: Vec<f32>) {
        self.shelf.borrow_mut().put(buffer);
    }

    fn lose(&self, room: usize) {
        self.shelf.borrow_mut().lose(room);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::{Slice, s};

    #[test]
    fn rows_that_were_cut_out_come_to_the_pool_as_they_are() {
        let pool = Rc::new(Pool::default());
        let all = kernels::Mat::from_shape_fn((5, 2), |(r, c)| (2 * r + c) as f32);
        for rows in [0..5, 0..3, 1..4, 2..2] {
            let part = all.clone().slice_move(s![Slice::from(rows.clone()), ..]);
            let held = pool.adopt(part.clone());
            assert_eq!(
                held.as_slice(),
                part.as_slice().expect("whole rows"),
                "{rows:?}"
            );
        }
    }
}
