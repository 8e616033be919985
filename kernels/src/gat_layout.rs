//! How a row of several heads lies in vectors: parts that fit into registers, with the head of each lane.
//!
//! Unsafe: vectors are made at the caller's level, and loaded from the caller's pointers.
#![allow(unsafe_code)]

use crate::gat_pieces::Pieces;
use crate::vector::Vector;

/// Heads of a part, for what is loaded of each edge: a load that is wider than what it needs lies in two lines
/// of memory more often.
pub(crate) const ONE: u8 = 0;
/// At most half of a vector's lanes.
pub(crate) const HALF: u8 = 1;
/// More.
pub(crate) const WHOLE: u8 = 2;
/// As many as lanes, and rows lie by column (`gat_records`): a lane's head is its number.
pub(crate) const EACH: u8 = 3;
/// The same with half as many: each has two lanes.
pub(crate) const TWICE: u8 = 4;

/// Whether rows lie by column.
pub(crate) const fn by_column(how_many: u8) -> bool {
    how_many >= EACH
}

/// A number for each head of a part, which are as many as `HEADS` says; where there is one, in every lane, and by
/// column in each of its lanes.
///
/// # Safety
/// That of [`Vector`].
#[inline(always)]
pub(crate) unsafe fn of_heads<V: Vector, const HEADS: u8>(p: *const f32, mask: V::Mask) -> V {
    // SAFETY: passed on to the caller.
    unsafe {
        match HEADS {
            ONE => V::splat(*p),
            HALF => V::load_half(p, mask),
            EACH => V::load(p),
            TWICE => V::load_twice(p),
            _ => V::load_first(p, mask),
        }
    }
}

/// Vectors of columns of at most as many heads as a vector has lanes.
pub(crate) struct Part<V: Vector> {
    pub(crate) head: usize,
    /// How many heads: [`ONE`], [`HALF`], [`WHOLE`], [`EACH`] or [`TWICE`].
    pub(crate) how_many: u8,
    /// The lanes that are heads.
    pub(crate) heads: V::Mask,
    /// The first column.
    pub(crate) column: usize,
    pub(crate) vectors: usize,
    /// The lanes of the last vector that are columns.
    pub(crate) tail: V::Mask,
    /// Whether the heads' totals are left to it.
    pub(crate) totals: bool,
    /// The head, counted from `head`, of each lane of each vector.
    pub(crate) head_of: [V::Lanes; MOST],
}

/// Vectors of a part at most.
const MOST: usize = 8;

/// Numbers that stay in the nearest cache beside everything else.
const NEAR: usize = 8192;

/// How rows of so many heads and columns are cut into parts.
pub(crate) struct Layout<V: Vector> {
    parts: Vec<Part<V>>,
    pieces: Option<Pieces>,
    heads: usize,
    width: usize,
}

impl<V: Vector> Layout<V> {
    /// Of `heads` heads of `width` columns, both at least one.
    ///
    /// # Safety
    /// The caller runs at the level of `V`.
    #[inline(always)]
    pub(crate) unsafe fn new(heads: usize, width: usize) -> Layout<V> {
        assert!(heads > 0 && width > 0);
        let mut parts = Vec::new();
        // One at a time, wide heads need no number picked for each vector.
        let at_a_time = match width >= 4 * V::LANES {
            true => 1,
            false => V::LANES,
        };
        for head in (0..heads).step_by(at_a_time) {
            let some = at_a_time.min(heads - head);
            let columns = some * width;
            let all = columns.div_ceil(V::LANES);
            let mut at = 0;
            while at < all {
                let vectors = if all - at >= MOST {
                    MOST
                } else {
                    (all - at).min(4)
                };
                let first = at * V::LANES;
                let last = (first + vectors * V::LANES).min(columns);
                let tail = last - first - (vectors - 1) * V::LANES;
                // A lane behind the last column has the coefficient of some head, and a column of zeros.
                let of = |lane: usize| (((first + lane) / width).min(some - 1)) as u32;
                // SAFETY: the level is the caller's; numbers of lanes are at least one and at most all, and a
                // head is below as many.
                unsafe {
                    let mut head_of = [V::lanes([0; 16]); MOST];
                    for (n, head_of) in head_of.iter_mut().enumerate() {
                        *head_of = V::lanes(std::array::from_fn(|lane| of(n * V::LANES + lane)));
                    }
                    parts.push(Part {
                        head,
                        how_many: match some {
                            1 => ONE,
                            _ if 2 * some <= V::LANES => HALF,
                            _ => WHOLE,
                        },
                        heads: V::mask(some),
                        column: head * width + first,
                        vectors,
                        tail: V::mask(tail),
                        totals: at == 0,
                        head_of,
                    });
                }
                at += vectors;
            }
        }
        Layout {
            parts,
            pieces: match V::BY_PIECES {
                true => Pieces::new(heads, width, V::LANES),
                false => None,
            },
            heads,
            width,
        }
    }

    /// Of as many heads as there are lanes, or half as many, whose rows lie by column and are whole vectors.
    ///
    /// # Safety
    /// The caller runs at the level of `V`.
    #[inline(always)]
    pub(crate) unsafe fn by_column(heads: usize, width: usize) -> Layout<V> {
        let (vectors, each) = (heads * width / V::LANES, heads == V::LANES);
        assert!(each || 2 * heads == V::LANES, "{heads} heads by column");
        assert!(heads * width == vectors * V::LANES && (1..=MOST).contains(&vectors));
        // SAFETY: the level is the caller's; all numbers of lanes are at most all, and of lanes below that.
        let part = unsafe {
            Part {
                head: 0,
                how_many: if each { EACH } else { TWICE },
                heads: V::mask(heads),
                column: 0,
                vectors,
                tail: V::mask(V::LANES),
                totals: true,
                head_of: [V::lanes(std::array::from_fn(|lane| (lane % heads) as u32)); MOST],
            }
        };
        Layout {
            parts: vec![part],
            pieces: None,
            heads,
            width,
        }
    }

    /// Whether it is that of such rows.
    pub(crate) fn is_of(&self, heads: usize, width: usize) -> bool {
        (self.heads, self.width) == (heads, width)
    }

    /// Edges to work on before the next ones, so that each part finds their rows in the nearest cache; all of them
    /// where there is one part.
    pub(crate) fn edges_at_a_time(&self) -> usize {
        match (&self.pieces, self.parts.len()) {
            (Some(pieces), _) => pieces.edges,
            (None, 1) => usize::MAX,
            _ => (NEAR / (self.heads * self.width)).clamp(16, 256),
        }
    }

    /// Where sums are made piece by piece, the pieces.
    pub(crate) fn pieces(&self) -> Option<&Pieces> {
        self.pieces.as_ref()
    }

    /// The same without pieces.
    #[cfg(test)]
    pub(crate) fn in_parts(self) -> Layout<V> {
        Layout {
            pieces: None,
            ..self
        }
    }

    /// Room for coefficients of as many edges as are worked on at a time, and for those of positive scores; none where
    /// they are not written.
    pub(crate) fn room(&self) -> [Vec<f32>; 2] {
        [(); 2].map(|()| match &self.pieces {
            Some(pieces) => pieces.room(V::LANES),
            None => Vec::new(),
        })
    }

    /// All columns, in their order.
    pub(crate) fn parts(&self) -> &[Part<V>] {
        &self.parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vector::Least;

    #[test]
    fn parts_cover_every_column_once_and_each_head_has_totals_once() {
        for heads in [1, 2, 3, 5, 8, 9, 17, 40] {
            for width in [1, 2, 7, 8, 9, 16, 31, 32, 40, 64, 100, 300] {
                let (mut columns, mut totals) = (vec![0; heads * width], vec![0; heads]);
                // SAFETY: it is what every processor has.
                #[allow(unsafe_code)]
                let layout = unsafe { Layout::<Least>::new(heads, width) };
                for p in layout.parts() {
                    assert!(p.vectors <= MOST);
                    // Its mask is a number of lanes.
                    let wide = (p.vectors - 1) * Least::LANES + p.tail;
                    for (k, seen) in columns[p.column..][..wide].iter_mut().enumerate() {
                        *seen += 1;
                        let of = usize::from(p.head_of[k / Least::LANES][k % Least::LANES]);
                        assert_eq!(p.head + of, (p.column + k) / width);
                    }
                    if p.totals {
                        totals[p.head..][..p.heads].iter_mut().for_each(|t| *t += 1);
                    }
                }
                assert!(columns.iter().all(|&n| n == 1), "{heads} heads of {width}");
                assert!(totals.iter().all(|&n| n == 1), "{heads} heads of {width}");
            }
        }
    }
}
