//! Why a run failed whose loss was no finite number.

use crate::manifest::RunError;
use gnn_core::record::rows::EndedRow;

/// The error of the run that `ended` so: the epoch, the layer where it began, the largest norm before.
pub(super) fn error(ended: &EndedRow) -> RunError {
    let epoch = ended.epoch;
    let began = began(ended);
    RunError {
        name: "HaloDiverged".into(),
        epoch: Some(u64::from(epoch)),
        message: format!(
            "the training loss of epoch {epoch} is no finite number{began}. A smaller lr or fewer layers may help, \
             and stop_on_nan = false goes on all the same"
        ),
        ..RunError::default()
    }
}

/// Where it began, as far as that is known.
fn began(ended: &EndedRow) -> String {
    let norm = ended.norm.map(|norm| {
        let of = match ended.norm_layer {
            Some(layer) => format!("the output of layer {layer}"),
            None => "the features".into(),
        };
        (norm, of)
    });
    match (ended.layer, ended.gradient, norm) {
        (Some(layer), _, Some((norm, of))) => format!(
            ": it began in the output of layer {layer} (from 0); the largest norm of a vertex's row before it was \
             {norm:.1e}, in {of}"
        ),
        (Some(layer), _, None) => format!(": it began in the output of layer {layer} (from 0)"),
        (None, Some(layer), Some((norm, of))) => format!(
            ": without dropout every layer's output is finite, with a largest norm of a vertex's row of {norm:.1e} in \
             {of}, and the gradients of layer {layer} (from 0) were the first that are not"
        ),
        (None, None, Some((norm, of))) => format!(
            ": every layer's output is finite, with a largest norm of a vertex's row of {norm:.1e} in {of}, so that \
             it began in the loss"
        ),
        (None, Some(layer), None) => {
            format!(": the gradients of layer {layer} (from 0) were the first that are not")
        }
        (None, None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(layer: Option<u32>, gradient: Option<u32>, norm: Option<f64>) -> EndedRow {
        EndedRow {
            epoch: 4,
            by: gnn_core::DIVERGED.into(),
            layer,
            gradient,
            norm,
            norm_layer: layer.and_then(|l| l.checked_sub(1)),
        }
    }

    #[test]
    fn what_is_known_is_said() {
        let said = |row| error(&row).message;
        let all = said(ended(Some(2), Some(7), Some(3.25e37)));
        assert!(all.contains("epoch 4"), "{all}");
        assert!(all.contains("output of layer 2 (from 0)"), "{all}");
        assert!(all.contains("3.2e37, in the output of layer 1"), "{all}");
        let features = said(ended(Some(0), None, Some(9e38)));
        assert!(features.contains("9.0e38, in the features"), "{features}");
        let behind = said(ended(None, Some(7), Some(2.0)));
        assert!(behind.contains("gradients of layer 7"), "{behind}");
        let nothing = said(ended(None, None, None));
        assert!(nothing.contains("no finite number. A smaller"), "{nothing}");
    }
}
