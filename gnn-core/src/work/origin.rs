//! Where a loss that is no finite number began.

use super::train::DIVERGED;
use crate::ctx::{Ctx, Seen};
use crate::error::Result;
use crate::record::Pass;
use crate::record::rows::EndedRow;
use crate::strategy::Strategy;

/// Takes the layers forward once more, as evaluation does, with the weights before the first step whose
/// gradient was no finite number, and says what was seen. Collective.
///
/// # Errors
/// Whatever the strategy meets.
pub(super) fn find(cx: &mut Ctx, strategy: &mut dyn Strategy) -> Result<EndedRow> {
    cx.pass(Pass::Eval);
    cx.watch.begin();
    let went = strategy.logits(cx);
    let mine = cx.watch.end();
    went?;
    let word = |layer: Option<usize>| layer.map_or(-1.0, |l| l as f64);
    let words = [
        word(mine.layer),
        word(cx.watch.gradient()),
        mine.largest.0,
        word(mine.largest.1),
    ];
    let all = cx.comm.agree(&words)?;
    let layer = |word: f64| (word >= 0.0).then_some(word as usize);
    let of = |words: &Vec<f64>| Seen {
        layer: layer(words[0]),
        largest: (words[2], layer(words[3])),
    };
    let gradient = all.iter().filter_map(|words| layer(words[1])).max();
    let seen = together(all.iter().map(of).collect());
    Ok(EndedRow {
        epoch: cx.epoch as u32,
        by: DIVERGED.into(),
        layer: seen.layer.map(|l| l as u32),
        gradient: gradient.map(|l| l as u32),
        norm: (seen.largest.0 > 0.0).then_some(seen.largest.0),
        norm_layer: seen.largest.1.map(|l| l as u32),
    })
}

/// What all ranks saw.
fn together(all: Vec<Seen>) -> Seen {
    let first = all.iter().filter_map(|seen| seen.layer).min();
    let before = all.iter().map(|seen| seen.largest);
    let before = before.filter(|(_, at)| first.is_none_or(|bad| *at < Some(bad)));
    Seen {
        layer: first,
        largest: before
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_agree_on_the_first_layer_and_on_what_was_before_it() {
        let seen = |layer, norm, at| Seen {
            layer,
            largest: (norm, at),
        };
        let all = vec![
            seen(None, 9e9, Some(3)),
            seen(Some(2), 7.0, Some(1)),
            seen(Some(4), 8.0, None),
        ];
        assert_eq!(together(all), seen(Some(2), 8.0, None));
        let finite = vec![seen(None, 1.0, None), seen(None, 2.0, Some(5))];
        assert_eq!(together(finite), seen(None, 2.0, Some(5)));
    }
}
