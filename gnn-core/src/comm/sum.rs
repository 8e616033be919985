//! What ranks add up: numbers, or, where nothing is computed, room for as many.

use super::transport::Words;

/// How the words of an all-reduce are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sum {
    /// Of numbers.
    Numbers,
    /// Of zeros, which the system gives without memory behind them: nobody reads or writes them.
    Zeros,
}

impl Sum {
    /// These words once more.
    pub(super) fn copy(self, words: &[u32]) -> Words {
        match self {
            Sum::Numbers => words.to_vec(),
            Sum::Zeros => vec![0; words.len()],
        }
    }

    /// The sum of parts that are equally long, added in their order.
    pub(super) fn of(self, parts: impl IntoIterator<Item = Words>) -> Words {
        let mut parts = parts.into_iter();
        let mut sum: Vec<f32> = parts.next().map_or_else(Vec::new, bytemuck::cast_vec);
        for part in parts.filter(|_| self == Sum::Numbers) {
            let floats: &[f32] = bytemuck::cast_slice(&part);
            sum.iter_mut().zip(floats).for_each(|(s, x)| *s += x);
        }
        bytemuck::cast_vec(sum)
    }

    /// The parts, one behind the other.
    pub(super) fn join(self, parts: &[Vec<f32>]) -> Vec<f32> {
        match self {
            Sum::Numbers => parts.concat(),
            Sum::Zeros => vec![0.0; parts.iter().map(Vec::len).sum()],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_as_long_as_numbers() {
        let words = |x: &[f32]| -> Words { bytemuck::cast_slice(x).to_vec() };
        for (sum, total) in [(Sum::Numbers, [4.0f32, 6.0]), (Sum::Zeros, [1.0, 2.0])] {
            let parts = [words(&[1.0, 2.0]), words(&[3.0, 4.0])];
            assert_eq!(sum.of(parts.clone()), words(&total));
            assert_eq!(sum.copy(&parts[0]).len(), 2);
            assert_eq!(sum.join(&[vec![1.0], vec![2.0, 3.0]]).len(), 3);
        }
        assert_eq!(Sum::Numbers.join(&[vec![1.0], vec![2.0]]), [1.0, 2.0]);
        assert!(Sum::Numbers.of([]).is_empty());
    }
}
