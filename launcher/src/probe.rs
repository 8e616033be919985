//! What embeddings are worth for a task that they were not trained for: a linear probe.
//!
//! Columns are scaled to mean 0 and deviation 1 over the training vertices, as in the evaluation of GraphSAGE (Hamilton,
//! Ying & Leskovec, NeurIPS 2017). Then multinomial logistic regression on those, weights with an L2 penalty, biases without:
//! the minimum of Σ cross-entropy + ½ ‖W‖² / C with C = 1, as scikit-learn's `LogisticRegression` has it by
//! default, found by L-BFGS.

use crate::error::{Error, Result};
use argmin::core::{CostFunction, Executor, Gradient, State};
use argmin::solver::linesearch::MoreThuenteLineSearch;
use argmin::solver::quasinewton::LBFGS;
use polars::prelude::{DataFrame, DataType};
use serde::Serialize;

/// Steps of the search for the minimum, at most.
const STEPS: u64 = 1000;

/// What a probe found: right answers over vertices, per cent, of each set.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Probe {
    /// Classes.
    pub classes: usize,
    /// Vertices that it was fitted to.
    pub train: usize,
    /// Accuracy on those.
    pub train_acc: f64,
    /// Accuracy on the validation vertices; not a number where there are none.
    pub val_acc: f64,
    /// Accuracy on the test vertices; not a number where there are none.
    pub test_acc: f64,
}

impl std::fmt::Display for Probe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Probe {
            classes,
            train,
            train_acc,
            val_acc,
            test_acc,
        } = self;
        write!(
            f,
            "linear probe of {classes} classes, fitted to {train} vertices: {train_acc:.2} % of those, {val_acc:.2} % of \
             validation, {test_acc:.2} % of test"
        )
    }
}

/// Some vertices of a set, row by row.
#[derive(Default)]
struct Set {
    x: Vec<f64>,
    classes: Vec<usize>,
}

struct Regression<'a> {
    set: &'a Set,
    width: usize,
    classes: usize,
}

/// Fits a linear probe to a frame `embeddings`.
///
/// # Errors
/// [`Error::Refused`] for a frame without training vertices that have a class.
pub fn probe(frame: &DataFrame) -> Result<Probe> {
    let mut sets = sets(frame)?;
    scale(&mut sets);
    let [train, val, test] = sets;
    if train.classes.is_empty() {
        return Err(Error::refused(
            "no training vertex has one class",
            "a probe predicts classes of vertices: keep embeddings of data that has them",
        ));
    }
    let all = [&train, &val, &test].into_iter();
    let classes = all.flat_map(|set| &set.classes).max().map_or(0, |c| c + 1);
    let width = train.x.len() / train.classes.len();
    let problem = Regression {
        set: &train,
        width,
        classes,
    };
    let start = vec![0.0; classes * (width + 1)];
    let trouble = |e: argmin::core::Error| {
        Error::refused(
            format!("the probe did not fit: {e}"),
            "look at the embeddings: are they finite?",
        )
    };
    let solver = LBFGS::new(MoreThuenteLineSearch::new(), 10);
    let solver = solver.with_tolerance_grad(1e-5).map_err(trouble)?;
    let found = Executor::new(problem, solver)
        .configure(|state| state.param(start).max_iters(STEPS))
        .run()
        .map_err(trouble)?;
    let weights = found.state().get_best_param().cloned().unwrap_or_default();
    let right = |set: &Set| {
        let of = Regression {
            set,
            width,
            classes,
        };
        100.0 * of.right(&weights) as f64 / set.classes.len() as f64
    };
    Ok(Probe {
        classes,
        train: train.classes.len(),
        train_acc: right(&train),
        val_acc: right(&val),
        test_acc: right(&test),
    })
}

/// Scales columns by what they are over the first set; those that are the same for all of it stay.
fn scale(sets: &mut [Set; 3]) {
    let n = sets[0].classes.len();
    let width = sets[0].x.len().checked_div(n).unwrap_or(0);
    for c in 0..width {
        let column = || sets[0].x.iter().skip(c).step_by(width);
        let mean = column().sum::<f64>() / n as f64;
        let square = column().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64;
        let deviation = if square > 0.0 { square.sqrt() } else { 1.0 };
        for set in sets.iter_mut() {
            let column = set.x.iter_mut().skip(c).step_by(width);
            column.for_each(|x| *x = (*x - mean) / deviation);
        }
    }
}

/// The vertices of each set that have a class.
fn sets(frame: &DataFrame) -> Result<[Set; 3]> {
    let trouble = |e| Error::frame("embeddings")(e);
    let (class, set) = (frame.column("class"), frame.column("set"));
    let (class, set) = (class.map_err(trouble)?, set.map_err(trouble)?);
    let (class, set) = (class.i32().map_err(trouble)?, set.str().map_err(trouble)?);
    let is_value = |name: &str| {
        name.strip_prefix('e')
            .is_some_and(|k| k.parse::<u32>().is_ok())
    };
    let columns = frame.columns().iter().filter(|c| is_value(c.name()));
    let columns = columns
        .map(|c| {
            let wide = c.cast(&DataType::Float64).map_err(trouble)?;
            let values = wide.f64().map_err(trouble)?;
            Ok(values.into_no_null_iter().collect())
        })
        .collect::<Result<Vec<Vec<f64>>>>()?;
    let mut sets = [Set::default(), Set::default(), Set::default()];
    for (k, (class, set)) in class.iter().zip(set.iter()).enumerate() {
        let (Some(class), Some(set)) = (class, set) else {
            continue;
        };
        let of = match set {
            "train" => 0,
            "val" => 1,
            _ => 2,
        };
        sets[of].classes.push(class as usize);
        sets[of].x.extend(columns.iter().map(|c| c[k]));
    }
    Ok(sets)
}

impl Regression<'_> {
    /// For each vertex its row, class, and scores of all classes.
    fn each(&self, weights: &[f64], mut f: impl FnMut(&[f64], usize, &mut [f64])) {
        let (d, classes) = (self.width, self.classes);
        let mut scores = vec![0.0; classes];
        for (x, &class) in self.set.x.chunks_exact(d.max(1)).zip(&self.set.classes) {
            for (score, w) in scores.iter_mut().zip(weights.chunks_exact(d + 1)) {
                *score = w[d] + w[..d].iter().zip(x).map(|(w, x)| w * x).sum::<f64>();
            }
            f(x, class, &mut scores);
        }
    }

    fn right(&self, weights: &[f64]) -> usize {
        let mut right = 0;
        self.each(weights, |_, class, scores| {
            let best = (0..scores.len()).max_by(|&a, &b| scores[a].total_cmp(&scores[b]));
            right += usize::from(best == Some(class));
        });
        right
    }

    /// Weights without biases.
    fn penalised<'w>(&self, weights: &'w [f64]) -> impl Iterator<Item = &'w f64> {
        let d = self.width;
        weights.chunks_exact(d + 1).flat_map(move |w| &w[..d])
    }
}

/// Turns scores into probabilities; the logarithm of what they were divided by.
fn softmax(scores: &mut [f64]) -> f64 {
    let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    scores.iter_mut().for_each(|s| *s = (*s - most).exp());
    let sum: f64 = scores.iter().sum();
    scores.iter_mut().for_each(|s| *s /= sum);
    most + sum.ln()
}

impl CostFunction for Regression<'_> {
    type Param = Vec<f64>;
    type Output = f64;

    fn cost(&self, weights: &Vec<f64>) -> std::result::Result<f64, argmin::core::Error> {
        let mut loss = 0.5 * self.penalised(weights).map(|w| w * w).sum::<f64>();
        self.each(weights, |_, class, scores| {
            let of_class = scores[class];
            loss += softmax(scores) - of_class;
        });
        Ok(loss)
    }
}

impl Gradient for Regression<'_> {
    type Param = Vec<f64>;
    type Gradient = Vec<f64>;

    fn gradient(&self, weights: &Vec<f64>) -> std::result::Result<Vec<f64>, argmin::core::Error> {
        let d = self.width;
        let mut g = weights.clone();
        g.iter_mut()
            .skip(d)
            .step_by(d + 1)
            .for_each(|bias| *bias = 0.0);
        self.each(weights, |x, class, scores| {
            softmax(scores);
            scores[class] -= 1.0;
            for (g, &s) in g.chunks_exact_mut(d + 1).zip(&*scores) {
                g[..d].iter_mut().zip(x).for_each(|(g, x)| *g += s * x);
                g[d] += s;
            }
        });
        Ok(g)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use polars::prelude::{NamedFrom, Series};

    fn frame(rows: &[(f32, f32, Option<i32>, Option<&str>)]) -> DataFrame {
        let columns = vec![
            Series::new("e0".into(), rows.iter().map(|r| r.0).collect::<Vec<_>>()).into(),
            Series::new("e1".into(), rows.iter().map(|r| r.1).collect::<Vec<_>>()).into(),
            Series::new("class".into(), rows.iter().map(|r| r.2).collect::<Vec<_>>()).into(),
            Series::new("set".into(), rows.iter().map(|r| r.3).collect::<Vec<_>>()).into(),
        ];
        DataFrame::new(rows.len(), columns).expect("equal lengths")
    }

    #[test]
    fn classes_that_a_line_parts_are_told_apart() {
        let of = |x, y, class, set| (x, y, Some(class), Some(set));
        let mut rows = vec![(9.0, 9.0, None, None), (9.0, 9.0, Some(1), None)];
        for k in 0..20 {
            let along = k as f32 / 4.0;
            let set = ["train", "val", "test"][k % 3];
            rows.push(of(along, 3.0, 0, set));
            rows.push(of(along, -3.0, 1, set));
            rows.push(of(along + 20.0, 0.0, 2, set));
        }
        let found = probe(&frame(&rows)).expect("fits");
        assert_eq!((found.classes, found.train), (3, 21));
        let scores = [found.train_acc, found.val_acc, found.test_acc];
        assert_eq!(scores, [100.0; 3]);
    }

    /// Two points, one feature: the minimum of 2 ln(1 + e^(-2w)) + w² / 2 · 2 in closed terms.
    #[test]
    fn the_minimum_is_that_of_the_penalised_loss() {
        let rows = [
            (1.0, 0.0, Some(0), Some("train")),
            (-1.0, 0.0, Some(1), Some("train")),
        ];
        let [train, ..] = sets(&frame(&rows)).expect("columns");
        let problem = Regression {
            set: &train,
            width: 2,
            classes: 2,
        };
        // By symmetry weights are (w, 0) and (-w, 0) without bias: w = 2 / (1 + e^(2 w)).
        let mut w = 0.5f64;
        for _ in 0..200 {
            w = 0.5 * (w + 2.0 / (1.0 + (2.0 * w).exp()));
        }
        let at = vec![w, 0.0, 0.0, -w, 0.0, 0.0];
        let g = problem.gradient(&at).expect("finite");
        assert!(g.iter().all(|g| g.abs() < 1e-9), "{g:?}");
        // And the gradient is that of the cost.
        let at = vec![0.3, -0.2, 0.1, -0.4, 0.5, -0.6];
        let g = problem.gradient(&at).expect("finite");
        for k in 0..6 {
            let cost = |by: f64| {
                let mut at = at.clone();
                at[k] += by;
                problem.cost(&at).expect("finite")
            };
            let numeric = (cost(1e-5) - cost(-1e-5)) / 2e-5;
            assert!((numeric - g[k]).abs() < 1e-6, "{k}: {numeric} {}", g[k]);
        }
    }

    #[test]
    fn columns_are_scaled_by_the_training_vertices() {
        let set = |x: &[f64]| Set {
            x: x.to_vec(),
            classes: vec![0; x.len() / 2],
        };
        let mut sets = [set(&[1.0, 7.0, 3.0, 7.0]), set(&[5.0, 8.0]), set(&[])];
        scale(&mut sets);
        assert_eq!(
            (&sets[0].x[..], &sets[1].x[..]),
            (&[-1.0, 0.0, 1.0, 0.0][..], &[3.0, 1.0][..])
        );
    }

    #[test]
    fn vertices_without_a_class_are_refused_with_words() {
        let none = probe(&frame(&[(1.0, 2.0, None, Some("train"))]));
        assert!(none.expect_err("no class").to_string().contains("class"));
    }
}
