//! A part of an epoch, for `gantt` to look at closely.

use super::gantt_chunks::Turn;
use super::gantt_lanes::{Epoch, Piece};

impl Epoch {
    /// What lies between `from` and `to` ms, in times from `from` on. Of messages those that arrive there.
    pub fn part(mut self, from: f64, to: f64) -> Epoch {
        let to = to.min(self.length());
        for lane in &mut self.lanes {
            for pieces in [&mut lane.host, &mut lane.device, &mut lane.beside] {
                *pieces = pieces.iter().filter_map(|p| cut(p, from, to)).collect();
            }
            let turns = std::mem::take(&mut lane.turns).into_iter();
            lane.turns = turns
                .filter_map(|turn| {
                    let (a, b) = within(turn.from, turn.to, from, to)?;
                    Some(Turn {
                        from: a,
                        to: b,
                        ..turn
                    })
                })
                .collect();
            let hidden = lane.hidden.iter();
            lane.hidden = hidden
                .filter_map(|&(a, b)| within(a, b, from, to))
                .collect();
            lane.from = (lane.from - from).max(0.0);
            lane.to = (lane.to.min(to) - from).max(0.0);
        }
        let messages = self.messages.into_iter();
        let arrives = messages.filter(|(_, (_, came))| (from..=to).contains(came));
        self.messages = arrives
            .map(|((src, left), (dst, came))| ((src, left.max(from) - from), (dst, came - from)))
            .collect();
        self.zoomed = Some(from);
        self
    }
}

/// The parts of a path between `from` and `to`, in times from `from` on.
pub(super) fn clipped(path: &[(u32, f64, f64)], from: f64, to: f64) -> Vec<(u32, f64, f64)> {
    let inside = path
        .iter()
        .filter_map(|&(rank, a, b)| within(a, b, from, to).map(|(a, b)| (rank, a, b)));
    inside.collect()
}

fn cut(piece: &Piece, from: f64, to: f64) -> Option<Piece> {
    let (a, b) = within(piece.from, piece.to, from, to)?;
    Some(Piece {
        from: a,
        to: b,
        ..piece.clone()
    })
}

fn within(a: f64, b: f64, from: f64, to: f64) -> Option<(f64, f64)> {
    let (a, b) = (a.max(from), b.min(to));
    (b > a).then_some((a - from, b - from))
}
