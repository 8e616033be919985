//! Which in-edges of one vertex are drawn, and how much each then counts for.

use crate::rng;
use kernels::hash;

/// Rows with no more edges mark what was drawn in a set of bits, which sorts it too. One word then
/// says which words of it have any.
const MARKED: usize = 64 * 64;

/// Draws from one row after the other.
#[derive(Default)]
pub(super) struct Draw {
    /// Positions in the row; ascending where none is drawn twice.
    pub(super) picked: Vec<u32>,
    /// By pick, the inverse of its probability; empty where it is [`Draw::factor`] for all.
    pub(super) factors: Vec<f32>,
    /// The inverse of every pick's probability, where it is the same.
    pub(super) factor: f32,
    /// Marks of a row; all 0 between rows.
    marks: Vec<u64>,
    /// Of biased draws, by edge: its key, or the sum of biases up to it; and its position.
    keyed: Vec<(f64, u32)>,
}

/// Uniform in `0..n`, the `c`-th time for the row with key `row`.
#[inline(always)]
fn below(row: u64, c: u32, n: u32) -> u32 {
    if n < 1 << 16 {
        ((u64::from(hash::element(row, c)) * u64::from(n)) >> 32) as u32
    } else {
        rng::below(row, u64::from(c), u64::from(n)) as u32
    }
}

impl Draw {
    fn begin(&mut self) {
        self.picked.clear();
        self.factors.clear();
        self.factor = 1.0;
    }

    /// `k` of `d` edges, or all of them: in proportion to `bias`, where there is one; the same one more
    /// than once if they are put back (`replace`).
    #[inline]
    pub(super) fn draw(
        &mut self,
        row: u64,
        d: usize,
        k: Option<usize>,
        bias: Option<&[f32]>,
        replace: bool,
    ) {
        match (k, bias, replace) {
            (None, ..) => self.all(d),
            (Some(k), None, false) => self.distinct(row, d, k),
            (Some(k), None, true) => self.repeated(row, d, k),
            (Some(k), Some(bias), false) => self.distinct_by(row, bias, k),
            (Some(k), Some(bias), true) => self.repeated_by(row, bias, k),
        }
    }

    /// All of `d` edges.
    pub(super) fn all(&mut self, d: usize) {
        self.begin();
        self.picked.extend(0..d as u32);
    }

    /// `k` of `d` edges, each set of `k` as likely as any other; all where there are no more.
    ///
    /// # Paper
    /// R. W. Floyd's algorithm: Bentley & Floyd, "Programming pearls: a sample of brilliance", CACM
    /// 30(9), 1987, <https://doi.org/10.1145/30401.315746>.
    pub(super) fn distinct(&mut self, row: u64, d: usize, k: usize) {
        if d <= k {
            return self.all(d);
        }
        self.begin();
        if k == 0 {
            return;
        }
        self.factor = d as f32 / k as f32;
        // The fewer of what is taken and what is left are drawn.
        let left = 2 * k > d;
        let first = if left { k } else { d - k };
        if d <= 64 {
            return self.distinct_in_word(row, d, first, left);
        }
        if d > MARKED {
            return self.distinct_sorted(row, d, k);
        }
        self.marks.resize(64, 0);
        let marks: &mut [u64; 64] = (&mut self.marks[..]).try_into().expect("64 words");
        let mut some = 0u64;
        for (c, j) in (first..d).enumerate() {
            let t = below(row, c as u32, j as u32 + 1) as usize;
            let taken = marks[t / 64] >> (t % 64) & 1 == 1;
            let new = if taken { j } else { t };
            marks[new / 64] |= 1 << (new % 64);
            some |= 1 << (new / 64);
        }
        if left {
            for (word, bits) in marks.iter_mut().enumerate().take(d.div_ceil(64)) {
                *bits ^= u64::MAX >> 64usize.saturating_sub(d - word * 64);
            }
            some = u64::MAX;
        }
        self.picked.reserve(k);
        while some != 0 {
            let word = some.trailing_zeros();
            some &= some - 1;
            let mut bits = std::mem::take(&mut marks[word as usize]);
            while bits != 0 {
                self.picked.push(word * 64 + bits.trailing_zeros());
                bits &= bits - 1;
            }
        }
    }

    /// Of at most 64 edges: `first..d` are the steps of Floyd's algorithm, and what it draws is taken, or
    /// `left`.
    #[inline]
    fn distinct_in_word(&mut self, row: u64, d: usize, first: usize, left: bool) {
        let mut bits = 0u64;
        for (c, j) in (first..d).enumerate() {
            let t = below(row, c as u32, j as u32 + 1);
            let taken = bits >> t & 1 == 1;
            bits |= 1 << if taken { j as u32 } else { t };
        }
        if left {
            bits ^= u64::MAX >> (64 - d);
        }
        self.picked.reserve(64);
        while bits != 0 {
            self.picked.push(bits.trailing_zeros());
            bits &= bits - 1;
        }
    }

    /// Of very many edges.
    fn distinct_sorted(&mut self, row: u64, d: usize, k: usize) {
        for (c, j) in (d - k..d).enumerate() {
            let t = below(row, c as u32, j as u32 + 1);
            let taken = self.picked.contains(&t);
            self.picked.push(if taken { j as u32 } else { t });
        }
        self.picked.sort_unstable();
    }

    /// `k` draws from `d` edges, each as likely as any other every time; none where there are none.
    pub(super) fn repeated(&mut self, row: u64, d: usize, k: usize) {
        self.begin();
        if d == 0 || k == 0 {
            return;
        }
        self.factor = d as f32 / k as f32;
        let picks = (0..k as u32).map(|c| below(row, c, d as u32));
        self.picked.extend(picks);
    }

    /// `k` edges one after the other, in proportion to `bias` among those that are left; all with a bias
    /// above 0 where there are no more. An edge counts for the inverse of its probability to be among
    /// the `k` given the keys of all others, so that sums are estimated without bias.
    ///
    /// # Paper
    /// Keys: Efraimidis & Spirakis, "Weighted random sampling with a reservoir", IPL 97(5), 2006,
    /// <https://doi.org/10.1016/j.ipl.2005.11.003>. Probabilities: Cohen & Kaplan, "Summarizing data
    /// using bottom-k sketches", PODC 2007, <https://doi.org/10.1145/1281100.1281133>, § 3.
    pub(super) fn distinct_by(&mut self, row: u64, bias: &[f32], k: usize) {
        self.begin();
        if k == 0 {
            return;
        }
        let keyed = &mut self.keyed;
        keyed.clear();
        for (i, &b) in bias.iter().enumerate().filter(|(_, b)| **b > 0.0) {
            // Above 0, so that the logarithm is finite.
            let u = ((rng::at(row, i as u64) >> 11) + 1) as f64 / (1u64 << 53) as f64;
            keyed.push((-u.ln() / f64::from(b), i as u32));
        }
        let mut limit = f64::INFINITY;
        if keyed.len() > k {
            let by_key = |a: &(f64, u32), b: &(f64, u32)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
            let (_, next, _) = keyed.select_nth_unstable_by(k, by_key);
            limit = next.0;
            keyed.truncate(k);
            keyed.sort_unstable_by_key(|&(_, i)| i);
        }
        for &(_, i) in keyed.iter() {
            let p = -f64::exp_m1(-f64::from(bias[i as usize]) * limit);
            self.picked.push(i);
            self.factors.push((1.0 / p) as f32);
        }
    }

    /// `k` draws in proportion to `bias`; none where all are 0.
    pub(super) fn repeated_by(&mut self, row: u64, bias: &[f32], k: usize) {
        self.begin();
        let mut sum = 0.0;
        let up_to = bias.iter().zip(0u32..).map(|(&b, i)| {
            sum += f64::from(b);
            (sum, i)
        });
        self.keyed.clear();
        self.keyed.extend(up_to);
        if sum == 0.0 {
            return;
        }
        for c in 0..k as u64 {
            let at = rng::uniform_f64(row, c) * sum;
            let i = self.keyed.partition_point(|&(end, _)| end <= at);
            // Rounding can only reach the end from below; edges without bias have no width.
            let i = i.min(bias.len() - 1);
            self.picked.push(i as u32);
            let p = f64::from(bias[i]) / sum;
            self.factors.push((1.0 / (k as f64 * p)) as f32);
        }
    }
}
