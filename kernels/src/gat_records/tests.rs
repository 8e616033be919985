//! Tests of records: by column they change no bit of what is summed, and rows come back in their order.

use super::*;
use crate::gat_factors::{Backward, Forward, pack_rows, source_rows};
use crate::gat_sum::{Close, Gathered, Run, sum};
use crate::spmm::tests::matrix;
use crate::vector::at_level;

/// Sources that the edges of one row gather, many of them in several runs.
const SOURCES: usize = 90;
const EDGES: usize = 300;

/// Records that so many `edges` are said to gather, of forward or of backward.
fn records<'x>(x: &'x Mat, heads: usize, edges: usize, backward: bool) -> Records<'x> {
    let numbers: [Vec<f32>; 3] = [2, 3, 4].map(|seed| {
        let made = matrix(SOURCES, heads, seed);
        made.into_raw_vec_and_offset().0
    });
    let write = |vertices: Range<usize>, stride, to: &mut [f32]| {
        let [a, b, c] = numbers
            .each_ref()
            .map(|x| &x[vertices.start * heads..vertices.end * heads]);
        match backward {
            true => pack_rows(a, b, c, heads, 0.2, stride, to),
            false => source_rows(a, heads, 0.2, stride, to),
        }
    };
    let each = if backward { 4 } else { 2 };
    Records::of((Level::Avx2, &Par::new(2)), x, heads, each, edges, write)
}

/// All sums of one row: `[heads·width]` twice, `[heads]` twice, in runs of at most so many edges, with dropout or
/// without.
fn sums<V: Vector>(
    records: &Records<'_>,
    drops: bool,
    run_of: usize,
    backward: bool,
) -> [Vec<f32>; 4] {
    let (heads, d) = (records.heads, records.heads * records.width);
    let sources: Vec<u32> = (0..EDGES as u32).map(|e| e * 37 % SOURCES as u32).collect();
    let kept: Vec<f32> = (0..EDGES * heads)
        .map(|k| if k % 3 == 0 { 0.0 } else { 1.5 })
        .collect();
    let own: Vec<f32> = (0..4 * heads).map(|k| 0.1 + 0.07 * k as f32).collect();
    // SAFETY: this runs at the level of `V`.
    #[allow(unsafe_code)]
    let layout = unsafe { records.layout::<V>() };
    let gathered = Gathered::new(&sources, 0..EDGES, SOURCES);
    let mut all = [d, d, heads, heads].map(|len| vec![7.0; len]);
    let [row, positive, total, total_positive] = &mut all;
    let mut to = Sums {
        row,
        positive,
        total,
        total_positive,
    };
    let (mut room, mut laid) = (layout.room(), records.room());
    let mut within = records.sums(&mut laid, &mut to);
    let most = run_of.min(layout.edges_at_a_time());
    for first in (0..EDGES).step_by(most) {
        let end = (first + most).min(EDGES);
        let close = match (end == EDGES, backward) {
            (false, _) => Close::Not,
            (true, false) => Close::Divide,
            (true, true) => Close::Slope(0.2),
        };
        let run = Run {
            begins: first == 0,
            close,
        };
        let (x, edges) = (records.rows(), gathered.run(first..end));
        let (from, stride, kept) = (records.numbers(), records.stride(), &kept[first * heads..]);
        macro_rules! add {
            ($terms:expr) => {
                sum::<V, _, true>(x, edges, &layout, $terms, run, &mut room, &mut within)
            };
        }
        macro_rules! by_dropout {
            ($drops:literal) => {
                match backward {
                    true => add!(Backward::<'_, $drops> {
                        packed: from,
                        stride,
                        el: &own[..heads],
                        own: &own[heads..3 * heads],
                        kept,
                    }),
                    false => add!(Forward::<'_, $drops> {
                        from,
                        stride,
                        own: &own[..3 * heads],
                        kept,
                        heads,
                    }),
                }
            };
        }
        match drops {
            true => by_dropout!(true),
            false => by_dropout!(false),
        }
    }
    records.lay_back(&laid, &mut to);
    all
}

fn compare<V: Vector>(a: &Records<'_>, b: &Records<'_>, backward: bool) {
    for drops in [false, true] {
        for run_of in [EDGES, 70] {
            let of = |records| sums::<V>(records, drops, run_of, backward);
            assert_eq!(of(a), of(b), "{} heads of {}", a.heads, a.width);
        }
    }
}

#[test]
fn rows_by_column_change_no_bit() {
    if !Level::available().contains(&Level::Avx2) {
        println!("skipped: this processor has no AVX2");
        return;
    }
    let mut seen = 0;
    for (heads, width) in (1..10).flat_map(|heads| (1..12).map(move |width| (heads, width))) {
        let x = &matrix(SOURCES, heads * width, 1);
        for backward in [false, true] {
            let [a, b] = [usize::MAX, 0].map(|edges| records(x, heads, edges, backward));
            assert!(!b.by_column());
            seen += usize::from(a.by_column());
            let (a, b) = (&a, &b);
            at_level!(
                Level::Avx2,
                compare(a: &Records<'_>, b: &Records<'_>, backward: bool)
            );
        }
    }
    assert_eq!(seen, 2 * 8, "shapes by column");
}

#[test]
fn a_transposed_row_comes_back() {
    for (heads, width) in (1..10).flat_map(|heads| (1..12).map(move |width| (heads, width))) {
        if !fits(heads, width) {
            continue;
        }
        let from: Vec<f32> = (0..heads * width).map(|k| k as f32).collect();
        let (mut laid, mut back) = (from.clone(), vec![0.0; from.len()]);
        transpose(heads, width, &from, &mut laid);
        for (h, c) in (0..heads).flat_map(|h| (0..width).map(move |c| (h, c))) {
            assert_eq!(laid[c * heads + h], from[h * width + c]);
        }
        transpose(width, heads, &laid, &mut back);
        assert_eq!(back, from);
    }
}
