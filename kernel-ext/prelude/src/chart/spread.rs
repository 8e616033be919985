//! What repeats of one value are drawn as.

use crate::plot::median;

/// The middle and the two ends that repeats are drawn as.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Spread {
    /// The median, from the smallest to the largest value.
    #[default]
    Range,
    /// The mean, a standard deviation of the sample up and down.
    Std,
    /// The mean and its 95 % confidence interval, by Student's t.
    Ci,
    /// The median alone.
    None,
    /// The median, and up and down what a column says.
    Column(String),
}

impl Spread {
    /// The spread called so; another word is a column's name.
    pub(super) fn named(name: &str) -> Spread {
        match name {
            "range" | "minmax" => Spread::Range,
            "std" | "sd" => Spread::Std,
            "ci" | "ci95" => Spread::Ci,
            "none" => Spread::None,
            column => Spread::Column(column.to_owned()),
        }
    }

    /// The same in words, for the line below the title.
    pub(super) fn words(&self) -> String {
        match self {
            Spread::Range => "median, from the smallest to the largest".into(),
            Spread::Std => "mean and standard deviation".into(),
            Spread::Ci => "mean and its 95 % confidence interval".into(),
            Spread::None => "median".into(),
            Spread::Column(column) => format!("bars of {column}"),
        }
    }

    /// Low end, middle and high end of `values`, whose own half widths are `half`.
    pub(super) fn of(&self, values: &[f64], half: &[f64]) -> [f64; 3] {
        let middle = median(values.iter().copied());
        match self {
            Spread::Range => [
                values.iter().copied().fold(f64::INFINITY, f64::min),
                middle,
                values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            ],
            Spread::None => [middle; 3],
            Spread::Column(_) => {
                let half = median(half.iter().copied());
                let half = if half.is_finite() { half } else { 0.0 };
                [middle - half, middle, middle + half]
            }
            Spread::Std | Spread::Ci => {
                let (mean, std) = mean_std(values);
                let half = match self {
                    Spread::Ci => half_ci(values.len(), std),
                    _ => std,
                };
                [mean - half, mean, mean + half]
            }
        }
    }
}

/// Mean and standard deviation of a sample; of one value it is 0.
pub(crate) fn mean_std(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    (mean, (squares / (n - 1.0).max(1.0)).sqrt())
}

/// Half the 95 % confidence interval of the mean of `n` values: t(0.975, n-1) times std over the root of n.
pub(crate) fn half_ci(n: usize, std: f64) -> f64 {
    if n < 2 {
        return 0.0;
    }
    t_975(n - 1) * std / (n as f64).sqrt()
}

/// The 0.975 quantile of Student's t; above 30 degrees of freedom by the expansion of Cornish and Fisher, which is
/// right to four digits there.
fn t_975(freedom: usize) -> f64 {
    const T: [f64; 30] = [
        12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281, 2.2010,
        2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860, 2.0796, 2.0739,
        2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423,
    ];
    match T.get(freedom - 1) {
        Some(t) => *t,
        None => {
            let (z, n) = (1.959_964_f64, freedom as f64);
            let first = (z.powi(3) + z) / (4.0 * n);
            let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * n * n);
            z + first + second
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads_are_those_of_textbooks() {
        let values = [2.0, 4.0, 9.0];
        assert_eq!(Spread::Range.of(&values, &[]), [2.0, 4.0, 9.0]);
        let [low, mean, high] = Spread::Std.of(&values, &[]);
        let std = 13.0_f64.sqrt();
        assert!(
            (mean - 5.0).abs() < 1e-12
                && (high - mean - std).abs() < 1e-12
                && (mean - low - std).abs() < 1e-12
        );
        let [low, ..] = Spread::Ci.of(&values, &[]);
        assert!((5.0 - low - 4.3027 * std / 3.0_f64.sqrt()).abs() < 1e-9);
        assert_eq!(Spread::Std.of(&[3.0], &[]), [3.0; 3]);
        assert_eq!(Spread::named("half").of(&[3.0], &[0.5]), [2.5, 3.0, 3.5]);
        // Tables: t(0.975, 60) = 2.0003, t(0.975, 120) = 1.9799.
        assert!((t_975(60) - 2.0003).abs() < 1e-4 && (t_975(120) - 1.9799).abs() < 1e-4);
    }
}
