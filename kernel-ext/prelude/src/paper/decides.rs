//! When a machine decides which of two times is shorter.

use crate::run::Run;

/// Epochs behind the warm-up that a median needs.
const EPOCHS: usize = 3;
/// What part of an epoch a modelled link takes that dominates it.
const MOST: f64 = 0.5;

/// Why times of these runs decide nothing; none where they do: every rank has cores of its own, or a
/// modelled link takes most of an epoch, and the median is of three epochs or more.
pub(super) fn undecided(runs: &[&Run]) -> Option<String> {
    if runs.is_empty() {
        return Some("of no run".into());
    }
    let measured = |run: &&Run| {
        crate::plot::warmup(&run.epochs())
            .iter()
            .filter(|w| !**w)
            .count()
    };
    let fewest = runs.iter().map(measured).min().unwrap_or(0);
    if fewest < EPOCHS {
        return Some(format!("a median of {fewest} epochs"));
    }
    let crowded = |run: &&&Run| run.manifest().oversubscribed;
    let mut crowded = runs.iter().filter(crowded);
    let by_link = |run: &&Run| {
        let linked = run.manifest().link().is_some();
        linked && run.communicate_ms() >= MOST * run.epoch_ms("wall_ms")
    };
    match crowded.all(by_link) {
        true => None,
        false => Some("ranks share cores, and the link is less than half of an epoch".into()),
    }
}
