//! Who waits for whom, when nobody moves.

use super::watch::Watch;
use crate::manifest::{RunError, Wait};
use crate::{host, sys};
use gnn_core::record::Op;
use gnn_core::record::state::State;
use std::time::Duration;

/// One row of the table.
fn wait(rank: u32, ranks: usize, state: Option<&State>) -> Wait {
    match state {
        Some(s) => Wait {
            rank,
            phase: s.phase.label().into(),
            op: s.op.map(|op| op.label().to_owned()),
            // A collective waits for nobody in particular.
            peer: s
                .peer
                .filter(|&peer| s.op.is_some() && (peer as usize) < ranks),
            epoch: s.epoch,
            waiting_s: Watch::since(s),
        },
        None => Wait {
            rank,
            phase: "start".into(),
            op: None,
            peer: None,
            epoch: 0,
            waiting_s: 0.0,
        },
    }
}

/// A row in words.
fn words(wait: &Wait) -> String {
    let Wait {
        rank,
        phase,
        epoch,
        waiting_s,
        ..
    } = wait;
    match (&wait.op, wait.peer) {
        (Some(op), Some(peer)) => {
            let verb = if op == Op::P2p.label() {
                "recv from"
            } else {
                "for"
            };
            format!("rank {rank} waits in {op} {verb} {peer} (epoch {epoch}, {waiting_s:.1} s)")
        }
        (Some(op), None) => format!("rank {rank} waits in {op} (epoch {epoch}, {waiting_s:.1} s)"),
        (None, _) if phase == "start" => format!("rank {rank} has not started"),
        (None, _) => format!("rank {rank} is in {phase} (epoch {epoch}, {waiting_s:.1} s)"),
    }
}

/// The rank that holds the others up: one that is stopped, else one that waits for nobody, else the
/// one that has waited longest.
fn culprit(watch: &Watch, waits: &[Wait]) -> u32 {
    let stopped = watch
        .states
        .iter()
        .position(|s| s.as_ref().is_some_and(|s| sys::is_stopped(s.pid)));
    let free = waits
        .iter()
        .position(|w| w.op.is_none() && w.phase != "done");
    let longest = || {
        let order = |a: &&Wait, b: &&Wait| a.waiting_s.total_cmp(&b.waiting_s);
        waits.iter().max_by(order).map_or(0, |w| w.rank as usize)
    };
    stopped.or(free).unwrap_or_else(longest) as u32
}

/// Explains a stall of `idle`.
pub(crate) fn explain(watch: &Watch, idle: Duration) -> RunError {
    let ranks = watch.states.len();
    let waits: Vec<Wait> = (0..ranks)
        .map(|r| wait(r as u32, ranks, watch.states[r].as_ref()))
        .collect();
    let rank = culprit(watch, &waits);
    let state = watch.states[rank as usize].as_ref();
    let stopped = state.is_some_and(|s| sys::is_stopped(s.pid));
    let mut table: Vec<String> = waits.iter().filter(|w| w.rank != rank).map(words).collect();
    let first = words(&waits[rank as usize]);
    table.insert(
        0,
        if stopped {
            format!("{first} and its process is stopped (SIGSTOP)")
        } else {
            first
        },
    );
    RunError {
        name: "HaloStalled".into(),
        rank: Some(rank),
        host: host::name(),
        phase: Some(waits[rank as usize].phase.clone()),
        epoch: Some(waits[rank as usize].epoch),
        signal: stopped.then(|| "stopped (SIGSTOP)".into()),
        message: format!(
            "no rank made progress for {:.1} s: {}",
            idle.as_secs_f64(),
            table.join("; ")
        ),
        others: waits
            .iter()
            .map(|w| w.rank)
            .filter(|&r| r != rank)
            .collect(),
        waits,
        ..RunError::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gnn_core::record::Phase;
    use gnn_core::record::state::StatePage;

    #[test]
    fn a_stall_names_who_waits_for_whom() {
        let dir = tempfile::tempdir().expect("temporary folder");
        std::fs::create_dir(dir.path().join("state")).expect("folder");
        let page = |rank: u32| {
            let page =
                StatePage::create(&dir.path().join(format!("state/rank-{rank}"))).expect("page");
            page.epoch(4);
            page
        };
        let (zero, one, two) = (page(0), page(1), page(2));
        zero.phase(Phase::Aggregate);
        one.waiting(Op::P2p, 0, 64);
        two.waiting(Op::Allreduce, u32::MAX, 64);
        let mut watch = Watch::new(dir.path(), 4, true, None);
        assert_eq!(watch.poll().len(), 3);
        let error = explain(&watch, Duration::from_secs(30));
        assert_eq!(
            (error.rank, error.others.as_slice()),
            (Some(0), [1, 2, 3].as_slice())
        );
        let text = &error.message;
        assert!(
            text.contains("rank 1 waits in p2p recv from 0 (epoch 4"),
            "{text}"
        );
        assert!(
            text.contains("rank 2 waits in allreduce (epoch 4"),
            "{text}"
        );
        assert!(text.contains("rank 3 has not started"), "{text}");
        assert!(
            text.starts_with("no rank made progress for 30.0 s: rank 0 is in aggregate"),
            "{text}"
        );
        assert_eq!(error.waits.len(), 4);
    }
}
