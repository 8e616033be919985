//! Numbers by which rankings of links are compared: exact, ties counted as half.
//!
//! A score that is not a number ranks below every other one.

/// What the scores of edges and of other pairs say about a scorer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ranking {
    /// Area under the ROC curve: the chance that an edge scores above a pair without one.
    pub auc: f64,
    /// Average precision over the edges.
    pub ap: f64,
    /// Mean reciprocal rank of each edge among all the pairs without one.
    pub mrr: f64,
}

/// Ranks edges against pairs without one; none when either is empty.
///
/// Edges that tie with others stand in the middle of them: for `auc` and `mrr` a tie counts as half
/// a pair, for `ap` all of one score are retrieved together.
pub fn ranking(edges: &[f32], others: &[f32]) -> Option<Ranking> {
    if edges.is_empty() || others.is_empty() {
        return None;
    }
    let (edges, others) = (descending(edges), descending(others));
    let (p, n) = (edges.len() as f64, others.len() as f64);
    let (mut auc, mut ap, mut mrr) = (0.0, 0.0, 0.0);
    // Edges so far; other pairs above, and at least at, the score at hand.
    let (mut found, mut above, mut reached) = (0, 0, 0);
    for group in edges.chunk_by(|a, b| a == b) {
        let score = group[0];
        while above < others.len() && others[above] > score {
            above += 1;
        }
        reached = reached.max(above);
        while reached < others.len() && others[reached] >= score {
            reached += 1;
        }
        let (size, ties) = (group.len() as f64, (reached - above) as f64);
        found += group.len();
        auc += size * (n - reached as f64 + ties / 2.0);
        ap += size * found as f64 / (found + reached) as f64;
        mrr += size / (1.0 + above as f64 + ties / 2.0);
    }
    Some(Ranking {
        auc: auc / (p * n),
        ap: ap / p,
        mrr: mrr / p,
    })
}

fn descending(scores: &[f32]) -> Vec<f32> {
    let number = |x: &f32| if x.is_nan() { f32::NEG_INFINITY } else { *x };
    let mut sorted: Vec<f32> = scores.iter().map(number).collect();
    sorted.sort_unstable_by(|a, b| b.total_cmp(a));
    sorted
}

/// Sum over the rows in `mask` of `-ln softmax(logits)[label]`. `logits: [n, c]`, `labels: [n]`,
/// `mask: [n]`.
pub fn cross_entropy(logits: &kernels::Mat, labels: &[i32], mask: &[bool]) -> f64 {
    let rows = logits.rows().into_iter().enumerate().filter(|r| mask[r.0]);
    rows.map(|(v, row)| {
        let top = row.iter().fold(f32::NEG_INFINITY, |m, &x| m.max(x));
        let sum: f64 = row.iter().map(|&x| f64::from(x - top).exp()).sum();
        sum.ln() + f64::from(top) - f64::from(row[labels[v] as usize])
    })
    .sum()
}

/// Twice the true positives, and that plus false positives and false negatives, of the rows in
/// `mask`: the micro-averaged F1 is the first over the second. A class is predicted where its logit
/// is above 0. `logits: [n, c]`, `labels: [n · c]`, `mask: [n]`.
pub fn micro_f1(logits: &kernels::Mat, labels: &[u8], mask: &[bool]) -> (u64, u64) {
    let (mut hits, mut all) = (0, 0);
    let c = logits.ncols();
    for (v, row) in logits.rows().into_iter().enumerate().filter(|r| mask[r.0]) {
        for (&x, &label) in row.iter().zip(&labels[v * c..]) {
            let predicted = u64::from(x > 0.0);
            hits += 2 * predicted * u64::from(label);
            all += predicted + u64::from(label);
        }
    }
    (hits, all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// By definition, pair by pair.
    fn naive(edges: &[f32], others: &[f32]) -> Ranking {
        let mean =
            |f: &dyn Fn(f32) -> f64| edges.iter().map(|&s| f(s)).sum::<f64>() / edges.len() as f64;
        let count =
            |list: &[f32], f: &dyn Fn(f32) -> bool| list.iter().filter(|&&x| f(x)).count() as f64;
        let above = |s: f32| count(others, &|x| x > s) + count(others, &|x| x == s) / 2.0;
        Ranking {
            auc: mean(&|s| 1.0 - above(s) / others.len() as f64),
            ap: mean(&|s| {
                let found = count(edges, &|x| x >= s);
                found / (found + count(others, &|x| x >= s))
            }),
            mrr: mean(&|s| 1.0 / (1.0 + above(s))),
        }
    }

    proptest! {
        #[test]
        fn rankings_follow_their_definitions_with_ties(
            // Few different scores, so that many tie.
            edges in prop::collection::vec(-4i8..4, 1..40),
            others in prop::collection::vec(-4i8..4, 1..40),
        ) {
            let floats = |xs: &[i8]| xs.iter().map(|&x| f32::from(x)).collect::<Vec<_>>();
            let (edges, others) = (floats(&edges), floats(&others));
            let (got, want) = (ranking(&edges, &others).expect("both"), naive(&edges, &others));
            for (a, b) in [(got.auc, want.auc), (got.ap, want.ap), (got.mrr, want.mrr)] {
                prop_assert!((a - b).abs() < 1e-12, "{:?} instead of {:?}", got, want);
            }
        }
    }

    #[test]
    fn known_rankings() {
        let perfect = ranking(&[3.0, 2.0], &[1.0, 0.0]).expect("both");
        assert_eq!((perfect.auc, perfect.ap, perfect.mrr), (1.0, 1.0, 1.0));
        let blind = ranking(&[0.0; 5], &[0.0; 3]).expect("both");
        assert_eq!((blind.auc, blind.mrr), (0.5, 0.4));
        // Scikit-learn's example of average precision: scores 0.1, 0.4, 0.35, 0.8.
        let known = ranking(&[0.35, 0.8], &[0.1, 0.4]).expect("both");
        assert!((known.ap - 0.833_333_333).abs() < 1e-8 && known.auc == 0.75);
        assert_eq!(ranking(&[], &[1.0]), None);
        let diverged = ranking(&[f32::NAN], &[0.0]).expect("both");
        assert_eq!(diverged.auc, 0.0);
    }

    #[test]
    fn cross_entropy_follows_the_definition() {
        let logits = ndarray::array![[1.0f32, -1.0], [2.0, 2.0], [5.0, 5.0]];
        let got = cross_entropy(&logits, &[1, 0, -1], &[true, true, false]);
        let want = (1.0 + 2f64.exp()).ln() + 2f64.ln();
        assert!((got - want).abs() < 1e-9, "{got} instead of {want}");
    }

    #[test]
    fn micro_f1_counts_masked_rows_over_all_classes() {
        let logits = ndarray::array![[1.0, -1.0], [2.0, 3.0], [5.0, 5.0]];
        // True positives 2, false positives 1, false negatives 1.
        let counts = micro_f1(&logits, &[1, 1, 0, 1, 0, 0], &[true, true, false]);
        assert_eq!(counts, (4, 6));
        assert_eq!(micro_f1(&logits, &[0; 6], &[false; 3]), (0, 0));
    }
}
