//! Rows of several heads: each head's dot product with another row, and its columns times a number.
//!
//! Unsafe: loads and stores through pointers, each behind a bounds check in the same function.
#![allow(unsafe_code)]

use crate::vector::{Vector, prefetch};

/// Numbers ahead of a pass over rows that are asked for: AMD's processors follow few such passes on their own.
const AHEAD: usize = 1024;

/// Asks for as many numbers as a row of `x` has, some rows behind it; any address is allowed.
#[inline(always)]
pub(crate) fn ask_ahead(row: &[f32]) {
    for k in (0..row.len()).step_by(16) {
        prefetch(row.as_ptr().wrapping_add(AHEAD + k));
    }
}

/// `out[h] = ⟨x[h, :], y[h, :]⟩` for one row: `x, y: [heads·width]`, `out: [heads]`.
#[inline(always)]
pub(crate) fn head_dots<V: Vector>(x: &[f32], y: &[f32], width: usize, out: &mut [f32]) {
    let heads = out.len();
    assert!(x.len() == heads * width && y.len() == heads * width && width > 0);
    match width {
        1 => return narrow_dots::<1>(x, y, out),
        2 => return narrow_dots::<2>(x, y, out),
        4 => return narrow_dots::<4>(x, y, out),
        _ => {}
    }
    let half = 2 * width <= V::LANES;
    let mut head = 0;
    while head < heads {
        let some = if heads - head >= 8 { 8 } else { 1 };
        match (some, half) {
            (8, false) => dots_of::<V, 8, false>(x, y, width, head, out),
            (8, true) => dots_of::<V, 8, true>(x, y, width, head, out),
            (_, false) => dots_of::<V, 1, false>(x, y, width, head, out),
            (_, true) => dots_of::<V, 1, true>(x, y, width, head, out),
        }
        head += some;
    }
}

#[inline(always)]
fn narrow_dots<const W: usize>(x: &[f32], y: &[f32], out: &mut [f32]) {
    let rows = x.as_chunks::<W>().0.iter().zip(y.as_chunks::<W>().0);
    for (out, (x, y)) in out.iter_mut().zip(rows) {
        let mut sum = x[0] * y[0];
        for c in 1..W {
            sum += x[c] * y[c];
        }
        *out = sum;
    }
}

/// With `HALF`, heads of at most half as many columns as lanes: a load of more than these would wait for stores to
/// others that have just been made.
#[inline(always)]
fn dots_of<V: Vector, const G: usize, const HALF: bool>(
    x: &[f32],
    y: &[f32],
    width: usize,
    head: usize,
    out: &mut [f32],
) {
    let per = width.div_ceil(V::LANES);
    let end = (head + G) * width;
    assert!(end <= x.len() && end <= y.len());
    // SAFETY: heads `head..head + G` end within both slices; the last vector of a head is masked
    // to what is left of `width`.
    unsafe {
        let mask = V::mask(width - (per - 1) * V::LANES);
        let mut acc = [V::splat(0.0); G];
        for (g, acc) in acc.iter_mut().enumerate() {
            let at = (head + g) * width;
            let (x, y) = (x.as_ptr().add(at), y.as_ptr().add(at));
            if HALF {
                *acc = V::load_half(x, mask).mul(V::load_half(y, mask));
                continue;
            }
            for n in 0..per {
                let a: V = part(x, n, per, mask);
                *acc = a.mul_add(part(y, n, per, mask), *acc);
            }
        }
        out[head..head + G].copy_from_slice(&V::sums(acc));
    }
}

/// Adds `s[h] · x[h, :]` to `out[h, :]`: `x, out: [heads·width]`, `s: [heads]`.
#[inline(always)]
pub(crate) fn add_scaled<V: Vector>(s: &[f32], x: &[f32], width: usize, out: &mut [f32]) {
    assert!(x.len() == s.len() * width && out.len() == x.len() && width > 0);
    match width {
        1 => return narrow_scaled::<1>(s, x, out),
        2 => return narrow_scaled::<2>(s, x, out),
        4 => return narrow_scaled::<4>(s, x, out),
        _ => {}
    }
    let per = width.div_ceil(V::LANES);
    for (h, &s) in s.iter().enumerate() {
        // SAFETY: head `h` lies within both slices; its last vector is masked.
        unsafe {
            let (s, mask) = (V::splat(s), V::mask(width - (per - 1) * V::LANES));
            let (x, out) = (x.as_ptr().add(h * width), out.as_mut_ptr().add(h * width));
            for n in 0..per {
                let sum = part::<V>(x, n, per, mask).mul_add(s, part(out, n, per, mask));
                put(sum, out, n, per, mask);
            }
        }
    }
}

#[inline(always)]
fn narrow_scaled<const W: usize>(s: &[f32], x: &[f32], out: &mut [f32]) {
    let rows = x.as_chunks::<W>().0.iter().zip(out.as_chunks_mut::<W>().0);
    for (s, (x, out)) in s.iter().zip(rows) {
        for c in 0..W {
            out[c] += s * x[c];
        }
    }
}

/// Vector `n` of `all` at `p`, the last of which is masked.
#[inline(always)]
unsafe fn part<V: Vector>(p: *const f32, n: usize, all: usize, mask: V::Mask) -> V {
    // SAFETY: the caller's pointer is valid for these vectors.
    unsafe {
        let p = p.add(n * V::LANES);
        if n + 1 < all {
            V::load(p)
        } else {
            V::load_first(p, mask)
        }
    }
}

/// The store of [`part`].
#[inline(always)]
unsafe fn put<V: Vector>(v: V, p: *mut f32, n: usize, all: usize, mask: V::Mask) {
    // SAFETY: the caller's pointer is valid for these vectors.
    unsafe {
        let p = p.add(n * V::LANES);
        if n + 1 < all {
            v.store(p)
        } else {
            v.store_first(p, mask)
        }
    }
}
