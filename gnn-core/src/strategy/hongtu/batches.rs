//! Which rows a device has while it computes a batch, where they lie, and where they come from.
//!
//! Batch `j` is the `j`-th chunk of every device. `N_ij` are the sources of the chunk of device `i`, its
//! *neighbours*; `ℕ_ij`, its *transition* rows, are those of its own vertices that any chunk of the batch
//! reads. A device loads its transition rows from its host and fetches its other neighbours from the
//! devices that have loaded them, so that a vertex crosses from host to device once a batch.
//!
//! Both lie in one buffer, `ℕ_ij ∪ N_ij`, and edges read places in it. A row that the next batch wants
//! too stays where it is: nothing moves. The rows that *enter* with batch `j` are those that batch `j - 1`
//! did not have. Backward runs from the last batch to the first, and what entered forward then *leaves*:
//! its gradient is complete, as far as neighbouring batches have added to it.
//!
//! # Paper
//! HongTu (SIGMOD 2024), §5.1, and §6 for places. Transition rows belong to the device that owns them, not
//! to any that is free, and neighbours of other devices stay in place as well.

use super::dedup::Dedup;
use crate::backend::{Kept, Sparse};
use kernels::{Csr, CsrBuf};
use std::ops::Range;

/// A graph whose vertices have a device and a batch, by number.
#[derive(Clone, Copy)]
pub(super) struct TwoLevels<'a> {
    /// In-edges, with whatever weights and loops the model wants.
    pub(super) whole: Csr<'a>,
    /// The device of each vertex.
    pub(super) device: &'a [u32],
    /// Its batch.
    pub(super) batch: &'a [u32],
    /// Number of devices.
    pub(super) devices: usize,
    /// Number of batches.
    pub(super) batches: usize,
    /// Whether a vertex is read for its own row, whatever its edges.
    pub(super) reads_own: bool,
}

/// What one device does in a batch.
pub(super) struct Batch {
    /// Its destinations among the device's rows.
    pub(super) own: Range<usize>,
    /// In-edges from places in the buffer: `[n_ij, places]`.
    pub(super) edges: Sparse,
    /// The same the other way: `[places, n_ij]`.
    pub(super) edges_t: Sparse,
    /// Its destinations, then the other sources of its edges: for layers that read them as a block.
    pub(super) columns: Columns,
    /// What enters behind batch `j - 1`; backward, what leaves before it.
    pub(super) up: Moves,
    /// What enters behind batch `j + 1`, for rows that are read once more on the way back.
    pub(super) down: Moves,
    /// Places to which no batch behind it has added gradients.
    pub(super) clear: Kept<u32>,
}

impl Batch {
    /// Nothing is made of its edges that takes memory beside their lists.
    pub(super) fn brief(&mut self) {
        for a in [&mut self.edges, &mut self.edges_t] {
            let csr = a.leave();
            *a = Sparse::brief_as(a, csr);
        }
    }

    /// Bytes of its lists of rows and places.
    pub(super) fn listed(&self) -> usize {
        let of = |moves: &Moves| -> usize {
            let others = moves.send.iter().chain(&moves.fetch_at);
            2 * moves.load.len() + others.map(|rows| rows.len()).sum::<usize>()
        };
        4 * (of(&self.up) + of(&self.down) + self.clear.len() + 2 * self.columns.numbers.len())
    }
}

/// Rows that enter the buffer.
pub(super) struct Moves {
    /// Those that come from this device's host, among its own, ...
    pub(super) load: Kept<u32>,
    /// ... and their places.
    pub(super) load_at: Kept<u32>,
    /// For each device the rows that it fetches of this one: their places, or, where devices read each
    /// other's hosts, this device's rows.
    pub(super) send: Vec<Kept<u32>>,
    /// For each device the places of what is fetched of it.
    pub(super) fetch_at: Vec<Kept<u32>>,
}

/// Sources of a batch's edges.
#[derive(Default)]
pub(super) struct Columns {
    /// By number.
    pub(super) numbers: Vec<u32>,
    /// In the buffer.
    pub(super) places: Kept<u32>,
}

/// All batches of one device.
pub(super) struct Batches {
    /// In the order of forward.
    pub(super) all: Vec<Batch>,
    /// Rows of the buffer.
    pub(super) places: usize,
    /// Numbers of the device's own vertices, batch by batch.
    pub(super) own: Vec<u32>,
    /// What moves.
    pub(super) volumes: Volumes,
}

/// Rows that move in one layer of an epoch, of all devices and of this one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Volumes {
    /// `V_ori`: every chunk loads all its neighbours.
    pub(super) original: u64,
    /// `V_+p2p`: every batch loads them once.
    pub(super) peer: u64,
    /// `V_+ru`: and keeps those that the batch before has loaded.
    pub(super) reused: u64,
    /// What this device loads from its host.
    pub(super) loaded: u64,
    /// What it fetches of others.
    pub(super) fetched: u64,
    /// Different vertices among those.
    pub(super) remote: u64,
}

impl Volumes {
    /// Those of all devices together.
    pub(super) fn of(levels: &TwoLevels<'_>) -> Volumes {
        of_all(levels, &levels.neighbours())
    }
}

/// Members of `a` that are not in `b`; both ascend.
fn without(a: &[u32], b: &[u32]) -> Vec<u32> {
    let mut rest = b.iter().peekable();
    let is_new = |v: &&u32| {
        while rest.next_if(|&&other| other < **v).is_some() {}
        rest.peek() != Some(v)
    };
    a.iter().filter(is_new).copied().collect()
}

/// Members of either; both ascend.
fn union(a: &[u32], b: &[u32]) -> Vec<u32> {
    let mut all = [a, b].concat();
    all.sort_unstable();
    all.dedup();
    all
}

impl TwoLevels<'_> {
    /// `N_ij`, ascending, by device and batch.
    fn neighbours(&self) -> Vec<Vec<Vec<u32>>> {
        let mut rows = vec![vec![Vec::new(); self.batches]; self.devices];
        for (v, (&device, &batch)) in self.device.iter().zip(self.batch).enumerate() {
            rows[device as usize][batch as usize].push(v);
        }
        let mut seen = vec![u32::MAX; self.whole.n_cols];
        let mut stamp = 0;
        let mut of = |rows: Vec<usize>| {
            let mut sources = Vec::new();
            let near = rows
                .iter()
                .flat_map(|&v| &self.whole.indices[self.whole.span(v)]);
            let own = rows.iter().map(|&v| v as u32).filter(|_| self.reads_own);
            for c in near.copied().chain(own) {
                if std::mem::replace(&mut seen[c as usize], stamp) != stamp {
                    sources.push(c);
                }
            }
            stamp += 1;
            sources.sort_unstable();
            sources
        };
        let each = rows.into_iter();
        each.map(|batches| batches.into_iter().map(&mut of).collect())
            .collect()
    }

    /// Vertices of one device in the order of its rows: by batch, then by number.
    fn by_row(&self, mut numbers: Vec<u32>) -> Vec<u32> {
        numbers.sort_by_key(|&v| (self.batch[v as usize], v));
        numbers
    }

    /// Those of some vertices that a device owns.
    fn owned<'b>(&'b self, by: usize, of: &'b [u32]) -> impl Iterator<Item = u32> + 'b {
        let owned = move |v: &&u32| self.device[**v as usize] == by as u32;
        of.iter().filter(owned).copied()
    }
}

/// Rows of a buffer: which vertex has which.
struct Places {
    /// By number; whatever it was last for a vertex that has none.
    of: Vec<u32>,
    /// That nobody has, the last first.
    free: Vec<u32>,
    count: u32,
}

impl Places {
    fn leave(&mut self, numbers: &[u32]) {
        let left = numbers.iter().rev().map(|&v| self.of[v as usize]);
        self.free.extend(left);
    }

    fn enter(&mut self, numbers: &[u32]) {
        for &v in numbers {
            self.of[v as usize] = self.free.pop().unwrap_or_else(|| {
                self.count += 1;
                self.count - 1
            });
        }
    }

    fn list(&self, numbers: impl IntoIterator<Item = u32>) -> Kept<u32> {
        let places = numbers.into_iter().map(|v| self.of[v as usize]);
        places.collect::<Vec<_>>().into()
    }
}

/// What is known of all devices and batches when those of one are listed.
struct Listing<'a> {
    levels: &'a TwoLevels<'a>,
    me: usize,
    dedup: Dedup,
    neighbours: Vec<Vec<Vec<u32>>>,
    /// What this device's buffer has in each batch, ascending.
    held: Vec<Vec<u32>>,
    /// By number, the row of one of this device's vertices among its own.
    row_of: Vec<u32>,
}

impl Listing<'_> {
    fn rows(&self, numbers: impl IntoIterator<Item = u32>) -> Kept<u32> {
        let rows = numbers.into_iter().map(|v| self.row_of[v as usize]);
        rows.collect::<Vec<_>>().into()
    }

    /// Members of batch `j` that its neighbour, which is computed before it, has not; all where nothing
    /// stays.
    fn new_in(&self, of: &[Vec<u32>], j: usize, beside: Option<usize>) -> Vec<u32> {
        let beside = beside.and_then(|k| of.get(k));
        match beside.filter(|_| self.dedup == Dedup::Reuse) {
            Some(other) => without(&of[j], other),
            None => of[j].clone(),
        }
    }

    /// What enters with batch `j` behind its neighbour.
    fn moves(&self, j: usize, beside: Option<usize>, places: &Places) -> Moves {
        let (levels, me) = (self.levels, self.me);
        let entering = self.new_in(&self.held, j, beside);
        let load = levels.by_row(levels.owned(me, &entering).collect());
        // What device `k` fetches of another.
        let fetched = |k: usize, from: usize| -> Vec<u32> {
            let new = self.new_in(&self.neighbours[k], j, beside);
            levels.by_row(levels.owned(from, &new).collect())
        };
        let of_others = |list: &dyn Fn(usize) -> Kept<u32>| -> Vec<Kept<u32>> {
            let others = (0..levels.devices).map(|k| match k == me {
                true => Kept::default(),
                false => list(k),
            });
            others.collect()
        };
        Moves {
            send: of_others(&|k| match self.dedup {
                Dedup::None => self.rows(fetched(k, me)),
                _ => places.list(fetched(k, me)),
            }),
            fetch_at: of_others(&|k| places.list(fetched(me, k))),
            load_at: places.list(load.iter().copied()),
            load: self.rows(load),
        }
    }
}

impl Batches {
    /// Those of device `me`.
    pub(super) fn new(levels: &TwoLevels<'_>, me: usize, dedup: Dedup) -> Batches {
        let neighbours = levels.neighbours();
        let held = |j: usize| {
            let near = &neighbours[me][j];
            if dedup == Dedup::None {
                return near.clone();
            }
            let all = neighbours.iter().flat_map(|device| &device[j]);
            let mine = all.filter(|&&v| levels.device[v as usize] == me as u32);
            union(&mine.copied().collect::<Vec<_>>(), near)
        };
        let held: Vec<Vec<u32>> = (0..levels.batches).map(held).collect();
        let all: Vec<u32> = (0..levels.device.len() as u32).collect();
        let mut own: Vec<u32> = levels.owned(me, &all).collect();
        own.sort_by_key(|&v| levels.batch[v as usize]);
        let mut row_of = vec![0; all.len()];
        for (row, &v) in own.iter().enumerate() {
            row_of[v as usize] = row as u32;
        }
        let mut volumes = of_all(levels, &neighbours);
        let near = union(&neighbours[me].concat(), &[]);
        let remote = |v: &&u32| levels.device[**v as usize] != me as u32;
        volumes.remote = near.iter().filter(remote).count() as u64;
        let listing = Listing {
            levels,
            me,
            dedup,
            neighbours,
            held,
            row_of,
        };
        let mut places = Places {
            of: vec![0; all.len()],
            free: Vec::new(),
            count: 0,
        };
        let (mut all, mut first) = (Vec::with_capacity(levels.batches), 0);
        for j in 0..levels.batches {
            let (before, behind) = (j.checked_sub(1), Some(j + 1));
            if let Some(last) = before {
                // What this batch does not take over.
                places.leave(&listing.new_in(&listing.held, last, Some(j)));
            }
            places.enter(&listing.new_in(&listing.held, j, before));
            let up = listing.moves(j, before, &places);
            volumes.loaded += up.load.len() as u64;
            volumes.fetched += up
                .fetch_at
                .iter()
                .map(|rows| rows.len() as u64)
                .sum::<u64>();
            let in_batch = |v: &&u32| levels.batch[**v as usize] as usize == j;
            let end = first + own[first..].iter().take_while(in_batch).count();
            let mine = &own[first..end];
            let clear = match j + 1 == levels.batches {
                // The buffer is new then.
                true => Vec::new(),
                false => listing.new_in(&listing.held, j, behind),
            };
            all.push(Batch {
                own: first..end,
                columns: columns(mine, &listing.neighbours[me][j], &places),
                up,
                down: listing.moves(j, behind, &places),
                clear: places.list(clear),
                edges: edges_of(levels.whole, mine, &places),
                edges_t: Sparse::brief(CsrBuf::empty(0)),
            });
            first = end;
        }
        // How many places there are is known only now.
        for batch in &mut all {
            let edges = std::mem::replace(&mut batch.edges, Sparse::brief(CsrBuf::empty(0)));
            let mut edges = edges.into_csr();
            edges.n_cols = places.count as usize;
            batch.edges_t = Sparse::new(edges.view().transpose());
            batch.edges = Sparse::new(edges);
        }
        Batches {
            all,
            places: places.count as usize,
            own,
            volumes,
        }
    }
}

/// The destinations, then all other sources.
fn columns(own: &[u32], neighbours: &[u32], places: &Places) -> Columns {
    let mut sorted = own.to_vec();
    sorted.sort_unstable();
    let numbers = [own.to_vec(), without(neighbours, &sorted)].concat();
    Columns {
        places: places.list(numbers.iter().copied()),
        numbers,
    }
}

/// The in-edges of some vertices, from places in the buffer.
fn edges_of(whole: Csr<'_>, rows: &[u32], places: &Places) -> Sparse {
    let mut out = CsrBuf {
        weights: whole.weights.map(|_| Vec::new()),
        ..CsrBuf::empty(0)
    };
    for &v in rows {
        let span = whole.span(v as usize);
        let near = whole.indices[span.clone()].iter();
        out.indices.extend(near.map(|&c| places.of[c as usize]));
        if let (Some(to), Some(from)) = (&mut out.weights, whole.weights) {
            to.extend_from_slice(&from[span]);
        }
        out.indptr.push(out.indices.len() as u64);
    }
    Sparse::brief(out)
}

/// The volumes of all devices together.
fn of_all(levels: &TwoLevels<'_>, neighbours: &[Vec<Vec<u32>>]) -> Volumes {
    let mut of = Volumes::default();
    let mut last = Vec::new();
    for j in 0..levels.batches {
        let all: Vec<u32> = neighbours.iter().flat_map(|n| &n[j]).copied().collect();
        of.original += all.len() as u64;
        let here = union(&all, &[]);
        of.peer += here.len() as u64;
        of.reused += without(&here, &last).len() as u64;
        last = here;
    }
    of
}

#[cfg(test)]
mod tests;
