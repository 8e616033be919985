//! Arrays of sparse matrices as users could bring them.

use kernels::CsrBuf;
use proptest::prelude::*;

/// Numbers, some of them odd.
pub fn value() -> impl Strategy<Value = f32> {
    let odd = prop_oneof![
        Just(f32::NAN),
        Just(f32::INFINITY),
        Just(-f32::INFINITY),
        Just(f32::MAX),
        Just(1e-40)
    ];
    prop_oneof![8 => -2.0f32..2.0, 1 => Just(0.0), 1 => odd]
}

/// Arrays that are right.
pub fn right() -> impl Strategy<Value = CsrBuf> {
    // Drawing numbers is what takes time under Miri.
    let most: usize = if cfg!(miri) { 4 } else { 12 };
    let values = prop::collection::vec(value(), most);
    let shape = (0..most, 1..most, values);
    shape.prop_flat_map(|(rows, n_cols, values)| {
        let row = prop::collection::vec(0..n_cols as u32, 0..9);
        prop::collection::vec(row, rows).prop_map(move |rows| {
            let mut indptr = vec![0u64];
            for r in &rows {
                indptr.push(indptr[indptr.len() - 1] + r.len() as u64);
            }
            let indices: Vec<u32> = rows.concat();
            let weighted = !indices.len().is_multiple_of(3);
            let weights =
                weighted.then(|| values.iter().copied().cycle().take(indices.len()).collect());
            CsrBuf {
                indptr,
                indices,
                weights,
                n_cols,
            }
        })
    })
}

/// Arrays that are right, or wrong in one place or everywhere; counts beyond 32 bits included.
pub fn arrays() -> impl Strategy<Value = CsrBuf> {
    let big = || prop_oneof![0u64..30, Just(1 << 32), Just((1 << 32) + 1), Just(u64::MAX)];
    let wild = (
        prop::collection::vec(big(), 0..8),
        prop::collection::vec(prop_oneof![0u32..12, Just(u32::MAX)], 0..20),
        prop::option::of(prop::collection::vec(value(), 0..20)),
        prop_oneof![0usize..12, Just(1usize << 33)],
    )
        .prop_map(|(indptr, indices, weights, n_cols)| CsrBuf {
            indptr,
            indices,
            weights,
            n_cols,
        });
    let spoilt = (right(), any::<prop::sample::Index>(), big()).prop_map(|(mut a, at, with)| {
        let at = at.index(a.indptr.len());
        a.indptr[at] = with;
        a
    });
    prop_oneof![2 => right(), 1 => wild, 1 => spoilt]
}
