//! Tests of pieces: they cover every column, and change no bit of what is summed without them.

use super::*;
use crate::gat_factors::Forward;
use crate::gat_layout::Layout;
use crate::gat_sum::{Gathered, sum};
use crate::spmm::tests::matrix;

/// All sums of one row of `heads` heads whose edges gather these rows: `[heads·width]` twice, `[heads]` twice.
fn sums<V: Vector>(
    (heads, width): (usize, usize),
    sources: &[u32],
    layout: &Layout<V>,
) -> [Vec<f32>; 4] {
    let (n, d) = (
        1 + *sources.iter().max().expect("an edge") as usize,
        heads * width,
    );
    let positive = |rows, columns, seed| {
        let made = matrix(rows, columns, seed).mapv(|x| x.abs() + 0.1);
        made.into_raw_vec_and_offset().0
    };
    let (x, from, own) = (
        positive(n, d, 1),
        positive(n, 2 * heads, 2),
        positive(1, 3 * heads, 3),
    );
    let terms = Forward::<'_, false> {
        from: &from,
        stride: 2 * heads,
        own: &own,
        kept: &[],
        heads,
    };
    let rows = Rows {
        x: &x,
        n,
        heads,
        width,
        stride: d,
    };
    let mut all = [d, d, heads, heads].map(|len| vec![7.0; len]);
    let [row, above, total, total_positive] = &mut all;
    let mut to = Sums {
        row,
        positive: above,
        total,
        total_positive,
    };
    let (gathered, mut room) = (Gathered::new(sources, 0..sources.len(), n), layout.room());
    let most = layout.edges_at_a_time().min(sources.len());
    for first in (0..sources.len()).step_by(most) {
        let end = (first + most).min(sources.len());
        let run = Run {
            begins: first == 0,
            close: if end == sources.len() {
                Close::Divide
            } else {
                Close::Not
            },
        };
        sum::<V, _, true>(
            rows,
            gathered.run(first..end),
            layout,
            terms,
            run,
            &mut room,
            &mut to,
        );
    }
    all
}

fn compare<V: Vector>(shape: (usize, usize), sources: &[u32], same: &mut Option<bool>) {
    // SAFETY: this runs at the level of `V`.
    let of = || unsafe { Layout::<V>::new(shape.0, shape.1) };
    let layout = of();
    let cut = layout.pieces().is_some();
    *same = cut.then(|| sums(shape, sources, &layout) == sums(shape, sources, &of().in_parts()));
}

#[test]
fn pieces_change_no_bit() {
    if !Level::available().contains(&Level::Avx2) {
        println!("skipped: this processor has no AVX2");
        return;
    }
    let sources: Vec<u32> = (0..300).map(|e| e * 37 % 90).collect();
    let mut seen = 0;
    for heads in [1, 2, 3, 4, 5, 8, 9, 17] {
        for width in [8, 12, 16, 20, 24, 31, 40, 47, 56, 64, 100] {
            let (shape, mut found) = ((heads, width), None);
            let (sources, same) = (&sources[..], &mut found);
            at_level!(
                Level::Avx2,
                compare(shape: (usize, usize), sources: &[u32], same: &mut Option<bool>)
            );
            seen += usize::from(found.is_some());
            assert_ne!(found, Some(false), "{heads} heads of {width}");
        }
    }
    assert!(seen > 50, "{seen} shapes are cut");
}

#[test]
fn pieces_cover_every_column_once() {
    let mut seen = 0;
    for heads in [1, 2, 3, 5, 7, 8, 9, 17] {
        for width in (1..80).chain([100, 256, 300]) {
            let Some(pieces) = Pieces::new(heads, width, 8) else {
                continue;
            };
            seen += 1;
            let mut columns = vec![0; heads * width];
            for p in &pieces.all {
                assert!(p.vectors <= MOST && p.vectors % p.heads == 0);
                let each = p.vectors / p.heads;
                for h in 0..p.heads {
                    let first = p.column + h * width;
                    assert_eq!(first / width, p.head + h);
                    let all = (each - 1) * 8 + p.tail;
                    columns[first..first + all].iter_mut().for_each(|n| *n += 1);
                }
            }
            assert!(columns.iter().all(|&n| n == 1), "{heads} heads of {width}");
        }
    }
    assert!(seen > 300, "{seen} shapes are cut");
}
