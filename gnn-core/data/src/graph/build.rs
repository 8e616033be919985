//! From a list of edges to rows: edges are first brought near their rows, then put into them.
//!
//! Putting every edge straight into its row touches memory at random. Here the rows are divided into
//! buckets that a processor's cache holds: threads write the edges of some buckets one behind the
//! other, then each bucket is finished by one thread. Only so many buckets are gathered at a time
//! that their edges take no more memory than the list.

use std::ops::Range;

use rayon::prelude::*;

use super::{EdgeOptions, SelfLoops};

/// Edges that a bucket should have: its rows, their counts and its edges stay in a core's cache.
const BUCKET: usize = 1 << 17;

/// Buckets at most: each is a place that every thread writes to in turn.
const BUCKETS: usize = 512;

/// Edges gathered at a time where the list is short; else as many as the list has.
const AT_LEAST: usize = 1 << 20;

/// Where each vertex's in-edges start, `[n + 1]`, and their sources, ascending within a vertex.
/// All of `src` and `dst` are below `n`.
pub(super) fn rows(n: usize, src: &[u32], dst: &[u32], how: EdgeOptions) -> (Vec<u64>, Vec<u32>) {
    let list = List { src, dst, how };
    // Buckets of 2^shift rows.
    let buckets = (2 * src.len() / BUCKET).clamp(1, BUCKETS);
    let shift = n.div_ceil(buckets).next_power_of_two().ilog2();
    let buckets = n.div_ceil(1 << shift);
    // By piece of the list, then bucket.
    let counts: Vec<Vec<usize>> = list
        .pieces()
        .map(|piece| {
            let mut count = vec![0; buckets];
            list.each(piece, |_, d| count[d as usize >> shift] += 1);
            count
        })
        .collect();
    let given: Vec<usize> = (0..buckets)
        .map(|b| counts.iter().map(|c| c[b]).sum())
        .collect();
    let own = usize::from(how.self_loops == SelfLoops::Add);
    let rows_of = |b: usize| (b << shift)..((b + 1) << shift).min(n);
    let room: Vec<usize> = (0..buckets)
        .map(|b| given[b] + own * rows_of(b).len())
        .collect();
    let mut indices = vec![0u32; room.iter().sum()];
    let mut indptr = vec![0u64; n + 1];
    let mut kept = Vec::with_capacity(buckets);
    let mut gathered = Vec::new();
    let (mut sources, mut ends) = (&mut indices[..], &mut indptr[1..]);
    for round in rounds(&given, src.len().max(AT_LEAST)) {
        list.gather(&counts, round.clone(), shift, &mut gathered);
        let mut rest = &gathered[..];
        let work: Vec<Bucket> = round
            .map(|b| Bucket {
                first: (b << shift) as u32,
                edges: rest.split_off(..given[b]).expect("as many were gathered"),
                sources: take(&mut sources, room[b]),
                ends: take(&mut ends, rows_of(b).len()),
            })
            .collect();
        kept.par_extend(work.into_par_iter().map(|bucket| bucket.fill(how)));
    }
    drop(gathered);
    close_up(&mut indices, &mut indptr, &room, &kept, 1 << shift);
    (indptr, indices)
}

/// The first `count` of `rest`, which is what follows then.
fn take<'a, T>(rest: &mut &'a mut [T], count: usize) -> &'a mut [T] {
    rest.split_off_mut(..count).expect("room for everything")
}

/// Buckets that are gathered at a time: as many as have `most` edges together, and one at least.
fn rounds(given: &[usize], most: usize) -> Vec<Range<usize>> {
    let mut rounds: Vec<Range<usize>> = Vec::new();
    let mut edges = 0;
    for (b, &count) in given.iter().enumerate() {
        match rounds.last_mut() {
            Some(last) if edges + count <= most => {
                last.end = b + 1;
                edges += count;
            }
            _ => {
                rounds.push(b..b + 1);
                edges = count;
            }
        }
    }
    rounds
}

/// Removes what repeats left free behind the buckets, of `each` rows, and makes ends within them
/// ends of all.
fn close_up(
    indices: &mut Vec<u32>,
    indptr: &mut [u64],
    room: &[usize],
    kept: &[usize],
    each: usize,
) {
    let (mut from, mut to) = (0, 0);
    let mut starts = Vec::with_capacity(kept.len());
    for (room, kept) in room.iter().zip(kept) {
        if from != to {
            indices.copy_within(from..from + kept, to);
        }
        starts.push(to as u64);
        from += room;
        to += kept;
    }
    if to < indices.len() {
        indices.truncate(to);
        indices.shrink_to_fit();
    }
    let ends = indptr[1..].par_chunks_mut(each).zip(starts);
    ends.for_each(|(ends, start)| ends.iter_mut().for_each(|end| *end += start));
}

/// Edges as they are given, and what is to be done to them.
struct List<'a> {
    src: &'a [u32],
    dst: &'a [u32],
    how: EdgeOptions,
}

impl<'a> List<'a> {
    /// Some pieces a thread, since they may differ in work; always the same ones.
    fn pieces(&self) -> impl IndexedParallelIterator<Item = [&'a [u32]; 2]> + use<'a> {
        let pieces = 4 * rayon::current_num_threads();
        let each = self.src.len().div_ceil(pieces).max(BUCKET);
        let dst = self.dst.par_chunks(each);
        self.src.par_chunks(each).zip(dst).map(|(s, d)| [s, d])
    }

    /// Calls `f` with the ends of every edge of a piece that is stored, loops of every vertex
    /// excepted.
    #[inline]
    fn each(&self, [src, dst]: [&[u32]; 2], mut f: impl FnMut(u32, u32)) {
        let keep = self.how.self_loops == SelfLoops::Keep;
        for (&s, &d) in src.iter().zip(dst) {
            if s != d {
                f(s, d);
                if self.how.symmetrise {
                    f(d, s);
                }
            } else if keep {
                // A self loop is its own reverse.
                f(s, d);
            }
        }
    }

    /// Fills `to` with the edges of the buckets `round`, bucket after bucket: destination, then
    /// source. `counts` is by piece and bucket.
    fn gather(&self, counts: &[Vec<usize>], round: Range<usize>, shift: u32, to: &mut Vec<u64>) {
        let edges = counts.iter().flat_map(|c| &c[round.clone()]).sum();
        to.resize(edges, 0);
        // Every piece has a place of its own in each bucket.
        let mut rest = &mut to[..];
        let mut places: Vec<Vec<&mut [u64]>> = counts.iter().map(|_| Vec::new()).collect();
        for b in round.clone() {
            for (places, count) in places.iter_mut().zip(counts) {
                places.push(take(&mut rest, count[b]));
            }
        }
        self.pieces().zip(places).for_each(|(piece, mut places)| {
            // Edges of other rounds go to one more place, of one edge: whether an edge is of this
            // round is not foretold by a processor.
            let (others, mut other) = (places.len(), [0]);
            places.push(&mut other);
            let mut next = vec![0u32; places.len()];
            self.each(piece, |s, d| {
                let b = (d as usize >> shift).wrapping_sub(round.start).min(others);
                places[b][next[b] as usize] = u64::from(d) << 32 | u64::from(s);
                next[b] += u32::from(b != others);
            });
        });
    }
}

/// Rows that one thread finishes.
struct Bucket<'a> {
    /// The first of them.
    first: u32,
    /// Their edges in any order: destination, then source.
    edges: &'a [u64],
    /// Room for their sources.
    sources: &'a mut [u32],
    /// Room for where each row ends, counted from this bucket's start.
    ends: &'a mut [u64],
}

impl Bucket<'_> {
    /// Puts the edges into their rows; returns how many there are after repeats are dropped.
    fn fill(self, how: EdgeOptions) -> usize {
        let Bucket {
            first,
            edges,
            sources,
            ends,
        } = self;
        let row = |edge: u64| ((edge >> 32) as u32 - first) as usize;
        // Where the next edge of each row goes: first where rows start, at last where they end.
        edges.iter().for_each(|&edge| ends[row(edge)] += 1);
        let own = how.self_loops == SelfLoops::Add;
        let rows = ends.len();
        let mut start = 0;
        for next in ends.iter_mut() {
            let count = *next + u64::from(own);
            *next = start;
            start += count;
        }
        let mut put = |row: usize, source: u32| {
            sources[ends[row] as usize] = source;
            ends[row] += 1;
        };
        edges.iter().for_each(|&edge| put(row(edge), edge as u32));
        if own {
            (0..rows).for_each(|row| put(row, first + row as u32));
        }
        let (mut from, mut to) = (0, 0);
        for end in ends.iter_mut() {
            let row = from..*end as usize;
            from = row.end;
            sources[row.clone()].sort_unstable();
            if how.dedup {
                to = without_repeats(sources, row, to);
                *end = to as u64;
            } else {
                to = from;
            }
        }
        to
    }
}

/// Moves a sorted row to `to` and drops its repeats; returns where it ends.
fn without_repeats(sources: &mut [u32], row: Range<usize>, to: usize) -> usize {
    let start = to;
    let mut to = to;
    for e in row {
        if to == start || sources[to - 1] != sources[e] {
            sources[to] = sources[e];
            to += 1;
        }
    }
    to
}
