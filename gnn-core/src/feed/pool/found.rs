//! Rows of a layer, or of the features, as they are found: each once, in parts by owner.

/// A set of numbers below a bound.
#[derive(Debug, Default)]
struct Bits(Vec<u64>);

impl Bits {
    /// Adds `v`; whether it was not there.
    fn insert(&mut self, v: u32) -> bool {
        let (word, bit) = (v as usize / 64, 1 << (v % 64));
        let new = self.0[word] & bit == 0;
        self.0[word] |= bit;
        new
    }
}

/// Some rows of one owner, and what came of them.
#[derive(Debug)]
pub(super) struct Part<T> {
    pub(super) owner: usize,
    /// By number.
    pub(super) rows: Vec<u32>,
    pub(super) got: Option<T>,
}

/// Rows that are wanted, and what came of them: hops, or features.
#[derive(Debug)]
pub(super) struct Found<T> {
    seen: Bits,
    /// By owner, those that are in no part yet.
    rest: Vec<Vec<u32>>,
    pub(super) parts: Vec<Part<T>>,
    /// Parts of which nothing has come.
    pub(super) open: usize,
    /// Rows of a part.
    grain: usize,
    /// Nothing more will be found.
    pub(super) closed: bool,
}

impl<T> Found<T> {
    /// Nothing of `n` numbers of `owners` owners; parts are of `grain` rows.
    pub(super) fn new(n: usize, owners: usize, grain: usize) -> Found<T> {
        Found {
            seen: Bits(vec![0; n.div_ceil(64)]),
            rest: vec![Vec::new(); owners],
            parts: Vec::new(),
            open: 0,
            grain: grain.max(1),
            closed: false,
        }
    }

    /// Whether row `v` is wanted already.
    #[inline]
    pub(super) fn has(&self, v: u32) -> bool {
        self.seen.0[v as usize / 64] >> (v % 64) & 1 == 1
    }

    /// Row `v` of `owner` is wanted. Whether that is new, and the number of the part that it fills, if it
    /// does.
    #[inline]
    pub(super) fn want(&mut self, v: u32, owner: usize) -> (bool, Option<usize>) {
        if !self.seen.insert(v) {
            return (false, None);
        }
        let rest = &mut self.rest[owner];
        rest.push(v);
        let full = rest.len() >= self.grain;
        (true, full.then(|| self.cut(owner)))
    }

    /// Nothing more will be found: the numbers of the last parts.
    pub(super) fn close(&mut self) -> Vec<usize> {
        self.closed = true;
        let left: Vec<usize> = (0..self.rest.len())
            .filter(|&owner| !self.rest[owner].is_empty())
            .collect();
        left.into_iter().map(|owner| self.cut(owner)).collect()
    }

    fn cut(&mut self, owner: usize) -> usize {
        self.open += 1;
        self.parts.push(Part {
            owner,
            rows: std::mem::take(&mut self.rest[owner]),
            got: None,
        });
        self.parts.len() - 1
    }

    /// What came of a part.
    pub(super) fn put(&mut self, part: usize, got: T) {
        self.parts[part].got = Some(got);
        self.open -= 1;
    }

    /// Whether everything that will be wanted has come.
    pub(super) fn is_whole(&self) -> bool {
        self.closed && self.open == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_wanted_once_and_cut_by_owner() {
        let mut found: Found<u32> = Found::new(100, 2, 2);
        let wanted = [5, 70, 5, 6, 7, 99];
        let cuts: Vec<_> = wanted
            .iter()
            .map(|&v| found.want(v, usize::from(v >= 50)))
            .collect();
        let expected = [
            (true, None),
            (true, None),
            (false, None),
            (true, Some(0)),
            (true, None),
            (true, Some(1)),
        ];
        assert_eq!(cuts, expected);
        assert!(!found.is_whole());
        assert_eq!(found.close(), [2]);
        let rows: Vec<_> = found.parts.iter().map(|p| (p.owner, &p.rows[..])).collect();
        assert_eq!(rows, [(0, &[5, 6][..]), (1, &[70, 99]), (0, &[7])]);
        (0..3).for_each(|part| found.put(part, 0));
        assert!(found.is_whole());
    }
}
