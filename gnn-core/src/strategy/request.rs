//! From written pairs to a request: every key by its table, what is left by the strategy's own knobs.

use super::{Entry, STRATEGIES, find_in};
use crate::error::{Error, Result};
use crate::partition::Method;
use crate::spec::{
    AggregateWidth, DEVICES, FirstAggregate, ModelKind, RunSpec, Value, find_key, normalise,
};

/// The partitioner that stands for a strategy's own.
const AUTO: &str = "auto";

impl RunSpec {
    /// Builds a request from pairs; a later pair overrides an earlier one.
    ///
    /// # Errors
    /// [`Error::Spec`] for a value of the wrong type or out of range, [`Error::UnknownName`] for
    /// a key, model, strategy or partitioner nobody knows, with the nearest right name.
    pub fn from_pairs<I, K>(pairs: I) -> Result<RunSpec>
    where
        I: IntoIterator<Item = (K, Value)>,
        K: AsRef<str>,
    {
        RunSpec::from_pairs_in(STRATEGIES, pairs)
    }

    /// [`RunSpec::from_pairs`], of a program that has these strategies.
    ///
    /// # Errors
    /// As [`RunSpec::from_pairs`].
    pub fn from_pairs_in<I, K>(strategies: &[Entry], pairs: I) -> Result<RunSpec>
    where
        I: IntoIterator<Item = (K, Value)>,
        K: AsRef<str>,
    {
        let mut spec = RunSpec {
            partition: AUTO.into(),
            ..RunSpec::default()
        };
        let mut rest = Vec::new();
        for (key, value) in pairs {
            let key = normalise(key.as_ref());
            match find_key(&key) {
                Some(known) => (known.set)(&mut spec, &value)?,
                None => rest.push((key, value)),
            }
        }
        let entry = find_in(strategies, &spec.strategy)?;
        if spec.partition == AUTO {
            spec.partition = entry.partition.into();
        }
        spec.check_names()?;
        spec.knobs = entry.parse_knobs(rest)?;
        (entry.settle)(&mut spec)?;
        spec.check_first_aggregate()?;
        spec.check_model()?;
        spec.check_forms()?;
        spec.check_slow()?;
        Ok(spec)
    }

    fn check_names(&self) -> Result<()> {
        Method::parse(&self.partition)?;
        if !DEVICES.contains(&self.backend.as_str()) {
            return Err(Error::Spec {
                key: "backend".into(),
                reason: format!("expected cpu or cuda, got {}", self.backend),
                help: "leave the key out, or write backend = \"cpu\"".into(),
            });
        }
        Ok(())
    }

    fn check_model(&self) -> Result<()> {
        if self.decoupled && !self.model.decouples() {
            return Err(Error::Spec {
                key: "decoupled".into(),
                reason: format!("{} has no decoupled form", self.model),
                help: "set decoupled = false, or choose another model, for example gcn".into(),
            });
        }
        if self.decoupled && self.model == ModelKind::Rgcn && self.bases > 0 {
            return Err(Error::Spec {
                key: "bases".into(),
                reason: "relations have weights of their own in the decoupled form".into(),
                help: "set bases = 0, or decoupled = false".into(),
            });
        }
        if self.decoupled && self.model == ModelKind::Gat && self.out_heads != 1 {
            return Err(Error::Spec {
                key: "out_heads".into(),
                reason: format!(
                    "heads are averaged in every round of the decoupled form, and their number is heads, got {} for the last layer",
                    self.out_heads
                ),
                help: "leave out_heads out and choose heads, or set decoupled = false".into(),
            });
        }
        Ok(())
    }

    fn check_forms(&self) -> Result<()> {
        let swaps = matches!(
            self.model,
            ModelKind::Gcn | ModelKind::Sage | ModelKind::Gin
        );
        if self.aggregate_width == AggregateWidth::Hidden && (self.decoupled || !swaps) {
            let form = if self.decoupled { "decoupled " } else { "" };
            return Err(Error::Spec {
                key: "aggregate_width".into(),
                reason: format!("{form}{} aggregates at one width in any case", self.model),
                help: "leave the key out, or choose gcn, sage or gin".into(),
            });
        }
        if self.block_layers != 1 && self.model != ModelKind::Resgcn {
            return Err(Error::Spec {
                key: "block_layers".into(),
                reason: format!("{} has no residual blocks", self.model),
                help: "leave the key out, or choose resgcn".into(),
            });
        }
        Ok(())
    }

    fn check_slow(&self) -> Result<()> {
        match self.slow {
            Some(slow) if slow.rank as usize >= self.ranks => Err(Error::Spec {
                key: "slow".into(),
                reason: format!("there is no rank {} of {}", slow.rank, self.ranks),
                help: format!(
                    "name a rank from 0 to {}, or set slow = \"none\"",
                    self.ranks - 1
                ),
            }),
            _ => Ok(()),
        }
    }

    fn check_first_aggregate(&self) -> Result<()> {
        if self.first_aggregate == FirstAggregate::Once && self.dropout > 0.0 {
            return Err(Error::Spec {
                key: "first_aggregate".into(),
                reason: format!("once is not exact with dropout {}", self.dropout),
                help: "set dropout = 0, or aggregate the features every epoch".into(),
            });
        }
        Ok(())
    }
}
