//! When a run has waited long enough for a better validation score.

use crate::checkpoint::State;
use crate::error::Result;

/// How long ago the best validation score was.
///
/// Evaluations of every `eval_every`-th epoch count; the one after the last epoch does not, so that a
/// run which goes on later counts as one that never stopped.
#[derive(Debug, Clone, PartialEq)]
pub struct Patience {
    most: usize,
    best: Option<f64>,
    since: usize,
}

impl Patience {
    /// Of `most` evaluations; 0 is endless.
    pub fn new(most: usize) -> Patience {
        Patience {
            most,
            best: None,
            since: 0,
        }
    }

    /// Takes the validation score of an evaluation; one that is not a number is no better than any.
    pub fn take(&mut self, score: f64) {
        if self.best.is_none_or(|best| score > best) && !score.is_nan() {
            self.best = Some(score);
            self.since = 0;
        } else {
            self.since += 1;
        }
    }

    /// Whether the run is to end.
    pub fn is_over(&self) -> bool {
        self.most > 0 && self.since >= self.most
    }

    /// Writes it down.
    pub(crate) fn save(&self, state: &mut State) {
        state.put_number("patience/since", self.since as u64);
        if let Some(best) = self.best {
            state.put_number("patience/best", best.to_bits());
        }
    }

    /// Reads it back, but for how long it is.
    pub(crate) fn restore(&mut self, state: &State) -> Result<()> {
        self.since = state.number("patience/since")? as usize;
        let best = state.numbers.get("patience/best");
        self.best = best.map(|&bits| f64::from_bits(bits));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_after_so_many_scores_that_are_no_better() {
        let mut two = Patience::new(2);
        for (score, over) in [
            (0.5, false),
            (0.5, false),
            (0.6, false),
            (f64::NAN, false),
            (0.6, true),
        ] {
            two.take(score);
            assert_eq!(two.is_over(), over, "{score}");
        }
        let mut endless = Patience::new(0);
        (0..100).for_each(|_| endless.take(0.1));
        assert!(!endless.is_over());
    }

    #[test]
    fn it_survives_a_round_trip() {
        let mut patience = Patience::new(3);
        let mut state = State::default();
        patience.save(&mut state);
        let mut other = Patience::new(3);
        other.restore(&state).expect("of this version");
        assert_eq!(other, patience);
        patience.take(0.3);
        patience.take(0.1);
        patience.save(&mut state);
        other.restore(&state).expect("of this version");
        assert_eq!(other, patience);
    }
}
