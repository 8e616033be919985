//! Losses of short trainings on GPUs, beside those of the same trainings on the processor.

use super::spec_of;
use crate::bench::ours::Runner;
use gnn_core::model::ModelKind;
use gnn_core::strategy::STRATEGIES;
use std::path::Path;

/// What is trained on: small, so that a memory checker comes to its end too.
pub(super) const DATA: &str = "sbm:nodes=240,classes=4,feat=16,degree=8";

/// How far losses may be apart, as a part of them: the GPU rounds otherwise, and four steps of an optimiser carry
/// that on.
pub const FAR: f64 = 1e-4;

/// One comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The strategy.
    pub strategy: &'static str,
    /// The model.
    pub model: ModelKind,
    /// Ranks, by turns on the GPUs there are.
    pub ranks: usize,
    /// What the GPUs' training is asked for beside that.
    pub settings: &'static str,
    /// How far the losses of the first and the last epoch are apart, as a part; or why they could not be had.
    pub apart: Result<f64, String>,
}

impl Answer {
    /// Whether they are the same but for rounding.
    pub fn right(&self) -> bool {
        self.apart.as_ref().is_ok_and(|&apart| apart <= FAR)
    }
}

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Case {
    strategy: &'static str,
    model: ModelKind,
    ranks: usize,
    settings: &'static str,
}

/// The host's memory read by kernels, and draws by the GPU.
const APART: &str = "draw_on = device; features_on = host";

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Case {
            strategy,
            model,
            ranks,
            settings,
        } = self;
        write!(f, "{strategy}, {}, {ranks} rank(s)", model.name())?;
        match *settings {
            "" => Ok(()),
            settings => write!(f, ", {settings}"),
        }
    }
}

/// Every model alone, and every strategy with the first model it has on two ranks, and on all GPUs where those are
/// more; those that draw mini-batches also with draws on the GPU and features in the host's memory.
pub(super) fn cases(gpus: usize) -> Vec<Case> {
    let alone = ModelKind::ALL.iter().map(|&model| Case {
        strategy: "single",
        model,
        ranks: 1,
        settings: "",
    });
    let mut ranks = vec![2];
    ranks.extend((gpus > 2).then_some(gpus.min(8)));
    let several = STRATEGIES.iter().filter(|e| e.name != "single");
    let several = several.flat_map(|entry| {
        ranks.iter().map(|&ranks| Case {
            strategy: entry.name,
            model: ModelKind::Gcn,
            ranks,
            settings: "",
        })
    });
    let draws = STRATEGIES
        .iter()
        .filter(|e| e.knobs.iter().any(|k| k.name == "draw_on"));
    let draws = draws.map(|entry| Case {
        strategy: entry.name,
        model: ModelKind::Sage,
        ranks: 2,
        settings: APART,
    });
    alone.chain(several).chain(draws).collect()
}

impl Case {
    fn losses(&self, backend: &str, worker: &Path) -> Result<[f64; 2], String> {
        // Every rank of a pipeline has a layer.
        let layers = self.ranks.max(2);
        let Case {
            strategy,
            model,
            ranks,
            settings,
        } = self;
        let settings = if backend == "cuda" { *settings } else { "" };
        let body = format!(
            "data = \"{DATA}\"; strategy = {strategy}; model = {}; ranks = {ranks}; backend = {backend}
             layers = {layers}; hidden = 16; epochs = 4; eval_every = 4
             {settings}",
            model.name()
        );
        let spec = spec_of(&body).map_err(|e| e.to_string())?;
        let runner = Runner::new(spec, worker).map_err(|e| e.to_string())?;
        match runner.run().map_err(|e| e.to_string())? {
            Some(epochs) => Ok([epochs.losses.0, epochs.losses.1]),
            None => Err("interrupted".into()),
        }
    }

    /// Trains it twice.
    pub(super) fn compare(self, worker: &Path) -> Answer {
        let both = self.losses("cpu", worker);
        let both = both.and_then(|cpu| Ok((cpu, self.losses("cuda", worker)?)));
        Answer {
            strategy: self.strategy,
            model: self.model,
            ranks: self.ranks,
            settings: self.settings,
            apart: both.map(|(cpu, gpu)| apart(cpu, gpu)),
        }
    }
}

/// The larger difference, as a part; infinite for what is no number.
fn apart(want: [f64; 2], got: [f64; 2]) -> f64 {
    let parts = want.iter().zip(got).map(|(want, got)| {
        let part = (want - got).abs() / want.abs().max(1e-3);
        if part.is_nan() { f64::INFINITY } else { part }
    });
    parts.fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_model_and_every_strategy_is_compared_once_and_on_all_gpus() {
        let two = cases(2);
        let one = cases(1);
        assert_eq!(one, two);
        let apart = two.iter().filter(|c| c.settings == APART).count();
        assert_eq!(apart, 3, "those that draw");
        assert_eq!(
            two.len(),
            ModelKind::ALL.len() + STRATEGIES.len() - 1 + apart
        );
        let four = cases(4);
        assert_eq!(four.len(), two.len() + STRATEGIES.len() - 1);
        assert!(four.iter().any(|c| c.ranks == 4));
    }

    #[test]
    fn a_loss_that_is_no_number_is_as_wrong_as_can_be() {
        assert_eq!(apart([1.0, 2.0], [1.0, 2.0]), 0.0);
        assert!((apart([1.0, 2.0], [1.0, 2.5]) - 0.25).abs() < 1e-12);
        assert_eq!(apart([1.0, f64::NAN], [1.0, 2.0]), f64::INFINITY);
    }
}
