//! Threads of one rank, and how work is split between them.
//!
//! A [`Par`] belongs to one rank and owns its threads; nothing is global. Splits only decide who
//! computes a row, never how it is computed.
//!
//! A rank's own thread is one of them ([`Par::here`]): small work is done before another thread is awake, so
//! it must not wait for one to begin.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Instant;

use rayon::prelude::*;

/// Elements below which starting threads costs more than it saves.
const SMALL: usize = 16 * 1024;

/// A kept buffer may have up to so many times the numbers that are asked for.
const LOOSE: usize = 4;

/// Time that threads spend in jobs, all threads together.
#[derive(Debug, Default)]
pub struct Busy(AtomicU64);

impl Busy {
    /// Nanoseconds so far.
    pub fn ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    fn during<R>(&self, job: impl FnOnce() -> R) -> R {
        let begun = Instant::now();
        let done = job();
        let ns = begun.elapsed().as_nanos() as u64;
        self.0.fetch_add(ns, Ordering::Relaxed);
        done
    }
}

/// The threads of one rank.
pub struct Par {
    threads: usize,
    busy: Option<Arc<Busy>>,
    /// None for one thread.
    pool: Option<Arc<rayon::ThreadPool>>,
    scratch: Mutex<Vec<Vec<f32>>>,
}

thread_local! {
    /// The threads of which this one is the first, as long as anybody has them.
    static HERE: RefCell<Weak<rayon::ThreadPool>> = const { RefCell::new(Weak::new()) };
}

impl Par {
    /// Threads beside the caller's. One thread (or none asked for) runs everything inline on the caller's
    /// thread. When the system refuses more threads, it falls back to one: results are the same.
    pub fn new(threads: usize) -> Par {
        let pool = more_than_one(threads).and_then(|threads| build(threads, |all| all));
        Par::of(threads, pool)
    }

    /// Threads of which the caller's is the first; those that it has already, where they are as many. A thread
    /// whose first ones are gone gets threads beside it, as of [`Par::new`].
    pub fn here(threads: usize) -> Par {
        let Some(threads) = more_than_one(threads) else {
            return Par::new(1);
        };
        let known = HERE.with_borrow(Weak::upgrade);
        if let Some(known) = known.filter(|pool| pool.current_num_threads() == threads) {
            return Par::of(threads, Some(known));
        }
        let Some(pool) = build(threads, |all| all.use_current_thread()) else {
            return Par::new(threads);
        };
        HERE.set(Arc::downgrade(&pool));
        Par::of(threads, Some(pool))
    }

    /// The same, with the time of every job added to `busy`.
    pub fn watched(self, busy: Arc<Busy>) -> Par {
        Par {
            busy: Some(busy),
            ..self
        }
    }

    fn of(threads: usize, pool: Option<Arc<rayon::ThreadPool>>) -> Par {
        Par {
            threads: if pool.is_some() { threads } else { 1 },
            busy: None,
            pool,
            scratch: Mutex::new(Vec::new()),
        }
    }

    /// Number of threads that work at the same time.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Runs `f` on every job, in any order.
    pub fn run<J: Send>(&self, jobs: Vec<J>, f: impl Fn(J) + Sync + Send) {
        let f = |job| self.job(&f, job);
        match &self.pool {
            Some(pool) if jobs.len() > 1 => {
                pool.install(|| jobs.into_par_iter().with_max_len(1).for_each(f));
            }
            _ => jobs.into_iter().for_each(f),
        }
    }

    fn job<J, R>(&self, f: impl Fn(J) -> R, job: J) -> R {
        match &self.busy {
            None => f(job),
            Some(busy) => busy.during(|| f(job)),
        }
    }

    /// Runs `f` on every job and returns the results in the order of the jobs.
    pub fn map<J: Send, R: Send>(&self, jobs: Vec<J>, f: impl Fn(J) -> R + Sync + Send) -> Vec<R> {
        let f = |job| self.job(&f, job);
        match &self.pool {
            Some(pool) if jobs.len() > 1 => {
                pool.install(|| jobs.into_par_iter().with_max_len(1).map(f).collect())
            }
            _ => jobs.into_iter().map(f).collect(),
        }
    }

    /// Calls `f(first_row, rows)` on disjoint runs of whole rows of `data`: `[n, width]`.
    pub fn rows_mut<T: Send>(
        &self,
        data: &mut [T],
        width: usize,
        f: impl Fn(usize, &mut [T]) + Sync + Send,
    ) {
        if data.is_empty() || width == 0 {
            return;
        }
        let n = data.len() / width;
        self.run(
            cut_mut(data, width, &self.row_bounds(n, width)),
            |(first, rows)| f(first, rows),
        );
    }

    /// Bounds of runs of rows for rows of equal cost; one run when the work is small.
    pub fn row_bounds(&self, n: usize, width: usize) -> Vec<usize> {
        let parts = if self.threads == 1 || n * width <= SMALL {
            1
        } else {
            (self.threads * 4).min(n * width / (SMALL / 4)).min(n)
        };
        split_rows(n, parts)
    }

    /// A buffer of `len` zeros that is kept for the next call when handed back with
    /// [`Par::recycle`], so that large buffers are not returned to the system every epoch.
    pub fn scratch(&self, len: usize) -> Vec<f32> {
        let mut buffer = self.kept(len);
        buffer.clear();
        buffer.resize(len, 0.0);
        buffer
    }

    /// [`Par::scratch`] with whatever numbers are in it: nobody has to write zeros first.
    pub fn scratch_of_any(&self, len: usize) -> Vec<f32> {
        let mut buffer = self.kept(len);
        buffer.resize(len, 0.0);
        buffer
    }

    /// The smallest kept buffer with room for `len` that is not far too large, or a new one, in the place
    /// of one that is a little too small.
    fn kept(&self, len: usize) -> Vec<f32> {
        let mut kept = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        let all = kept.iter().map(Vec::capacity).enumerate();
        let fits = all
            .clone()
            .filter(|&(_, room)| room >= len && room / LOOSE <= len);
        if let Some((k, _)) = fits.min_by_key(|&(_, room)| room) {
            return kept.swap_remove(k);
        }
        let mut short = all.filter(|&(_, room)| room < len && room >= len - len / LOOSE);
        if let Some(k) = short.next().map(|(k, _)| k) {
            kept.swap_remove(k);
        }
        drop(kept);
        Vec::with_capacity(len)
    }

    /// Takes a buffer of [`Par::scratch`] back.
    pub fn recycle(&self, buffer: Vec<f32>) {
        let mut kept = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push(buffer);
        // Those that all threads fill, and a few of each; small ones are soon made again.
        if kept.len() > 2 * self.threads + 4 {
            let rooms = kept.iter().map(Vec::capacity).enumerate();
            if let Some((k, _)) = rooms.min_by_key(|&(_, room)| room) {
                kept.swap_remove(k);
            }
        }
    }
}

impl std::fmt::Debug for Par {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Par")
            .field("threads", &self.threads)
            .finish_non_exhaustive()
    }
}

/// So many threads, where they are several. Miri checks the kernels, not the threads, of which it knows less than it
/// would need.
fn more_than_one(threads: usize) -> Option<usize> {
    (threads > 1 && !cfg!(miri)).then_some(threads)
}

/// None where the system refuses, or the caller's thread is to be one of them and is one of others.
fn build(
    threads: usize,
    how: impl FnOnce(rayon::ThreadPoolBuilder) -> rayon::ThreadPoolBuilder,
) -> Option<Arc<rayon::ThreadPool>> {
    let all = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|k| format!("kernel-{k}"));
    how(all).build().ok().map(Arc::new)
}

/// Bounds of `parts` runs of `0..n` that differ by at most one: `parts + 1` ascending numbers.
pub fn split_rows(n: usize, parts: usize) -> Vec<usize> {
    let parts = parts.max(1);
    // 128 bits, since `n * parts` may not fit into a word for absurd arguments.
    (0..=parts)
        .map(|k| (n as u128 * k as u128 / parts as u128) as usize)
        .collect()
}

/// Bounds of at most `parts` runs of `rows` with about equally many edges (and rows, for graphs
/// with many rows without edges). `indptr` is that of the whole matrix.
pub fn split_edges(indptr: &[u64], rows: Range<usize>, parts: usize) -> Vec<usize> {
    let parts = parts.max(1);
    // A row costs about as much as an edge: its output must be written.
    let cost = |r: usize| indptr[r] - indptr[rows.start] + (r - rows.start) as u64;
    let total = cost(rows.end);
    let mut bounds = vec![rows.start];
    for k in 1..parts {
        let want = (total as u128 * k as u128 / parts as u128) as u64;
        let (mut low, mut high) = (bounds[bounds.len() - 1], rows.end);
        while low < high {
            let mid = low + (high - low) / 2;
            if cost(mid) < want {
                low = mid + 1
            } else {
                high = mid
            }
        }
        if low > bounds[bounds.len() - 1] && low < rows.end {
            bounds.push(low);
        }
    }
    bounds.push(rows.end);
    bounds
}

/// Cuts `data: [n, width]` at the row bounds (ascending, from 0 to n) into disjoint runs, each with
/// its first row.
pub fn cut_mut<'a, T>(
    data: &'a mut [T],
    width: usize,
    bounds: &[usize],
) -> Vec<(usize, &'a mut [T])> {
    let mut rest = data;
    bounds
        .windows(2)
        .filter(|b| b[0] < b[1])
        .map(|b| {
            let (head, tail) = std::mem::take(&mut rest).split_at_mut((b[1] - b[0]) * width);
            rest = tail;
            (b[0], head)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rows_are_handed_out_once(n in 0usize..5000, width in 1usize..40, threads in 1usize..5) {
            let mut data = vec![0u8; n * width];
            Par::new(threads).rows_mut(&mut data, width, |_, rows| rows.iter_mut().for_each(|x| *x += 1));
            prop_assert!(data.iter().all(|&x| x == 1));
        }

        #[test]
        fn edge_bounds_cover_the_rows_and_balance(
            degrees in prop::collection::vec(0u64..50, 0..300), parts in 1usize..9,
        ) {
            let mut indptr = vec![0u64];
            for d in &degrees { indptr.push(indptr[indptr.len() - 1] + d); }
            let n = degrees.len();
            let bounds = split_edges(&indptr, 0..n, parts);
            prop_assert_eq!(bounds[0], 0);
            prop_assert_eq!(bounds[bounds.len() - 1], n);
            prop_assert!(bounds.windows(2).all(|b| b[0] <= b[1]));
            let fair = (indptr[n] + n as u64) / parts as u64;
            for b in bounds.windows(2) {
                let cost = indptr[b[1]] - indptr[b[0]] + (b[1] - b[0]) as u64;
                prop_assert!(cost <= fair + 102, "{} of {}", cost, fair);
            }
        }
    }

    #[test]
    fn watched_threads_add_up_their_jobs() {
        let nap = std::time::Duration::from_millis(5);
        for threads in [1, 2] {
            let busy = Arc::new(Busy::default());
            let par = Par::new(threads).watched(Arc::clone(&busy));
            par.run(vec![(); 4], |()| std::thread::sleep(nap));
            assert_eq!(par.map(vec![1], |k| k + 1), [2]);
            assert!(busy.ns() >= 4 * nap.as_nanos() as u64, "{}", busy.ns());
        }
    }

    #[test]
    fn the_callers_thread_is_one_of_them_once() {
        let own = std::thread::current().id();
        let ids = |par: &Par| {
            let nap = std::time::Duration::from_millis(20);
            let mut ids = par.map(vec![(); 6], |()| {
                std::thread::sleep(nap);
                std::thread::current().id()
            });
            ids.sort_by_key(|id| format!("{id:?}"));
            ids.dedup();
            ids
        };
        let first = Par::here(3);
        let of_first = ids(&first);
        assert!(
            of_first.len() == 3 && of_first.contains(&own),
            "{of_first:?}"
        );
        let again = Par::here(3);
        assert_eq!(ids(&again), of_first, "the same threads");
        drop(first);
        assert_eq!(ids(&again), of_first, "as long as anybody has them");
        assert!(!ids(&Par::here(2)).contains(&own), "of another number");
        drop(again);
        let later = ids(&Par::here(3));
        assert!(later.len() == 3 && !later.contains(&own), "{later:?}");
        assert_eq!(ids(&Par::here(1)), [own]);
    }

    #[test]
    fn map_keeps_the_order_and_scratch_is_reused() {
        let par = Par::new(3);
        assert_eq!(
            par.map((0..100).collect(), |k: i32| k * 2),
            (0..100).map(|k| k * 2).collect::<Vec<_>>()
        );
        let buffer = par.scratch(1000);
        let at = buffer.as_ptr();
        par.recycle(buffer);
        let again = par.scratch(900);
        assert_eq!(again.as_ptr(), at);
        assert!(again.len() == 900 && again.iter().all(|&x| x == 0.0));
    }

    #[test]
    fn the_smallest_buffer_that_fits_is_taken_and_few_are_kept() {
        let par = Par::new(1);
        let (large, small) = (par.scratch(1000), par.scratch(10));
        let at = small.as_ptr();
        par.recycle(large);
        par.recycle(small);
        let mut again = par.scratch(10);
        assert_eq!(again.as_ptr(), at);
        again.fill(1.0);
        par.recycle(again);
        assert_eq!(par.scratch_of_any(10), [1.0; 10]);
        for len in 2000..2100 {
            par.recycle(par.scratch(len));
        }
        for len in (1..20).map(|k| k * 300) {
            par.recycle(par.scratch(len));
        }
        let kept = par.scratch.lock().expect("no thread has panicked");
        assert!(kept.len() <= 6);
        assert!(kept.iter().any(|b| b.capacity() >= 5700));
    }
}
