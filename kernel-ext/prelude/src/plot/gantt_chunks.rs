//! Which chunk of vertices a rank had in hand when, under a strategy that computes some after the others: a
//! pipeline's filling, steady state and draining can be read off.

use plotters::element::Rectangle;
use plotters::style::Color;

use super::PlotError;
use super::axes::{Chart, spot};
use super::gantt_lanes::{Epoch, Lane};
use super::ink::Ink;
use super::sheet::{Area, Key, Type, stroke, word};

/// A chunk's turn on one rank, ms from the epoch's beginning.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Turn {
    pub chunk: u32,
    pub backward: bool,
    pub from: f64,
    pub to: f64,
}

impl Turn {
    fn ink(&self) -> (Ink, Ink) {
        match self.backward {
            false => (Ink::heat(1), Ink::ON_LIGHT),
            true => (Ink::heat(6), Ink::ON_DARK),
        }
    }
}

/// Adds what a rank did for a chunk from `from` to `to`; what it did before for the same one is the same turn.
pub(super) fn add(turns: &mut Vec<Turn>, turn: Turn) {
    match turns.last_mut() {
        Some(last) if (last.chunk, last.backward) == (turn.chunk, turn.backward) => {
            last.to = last.to.max(turn.to);
        }
        _ => turns.push(turn),
    }
}

/// Whether chunks are drawn: a device's lane has no room for them.
pub(super) fn drawn(epoch: &Epoch) -> bool {
    let has = |lane: &Lane| !lane.turns.is_empty();
    epoch.lanes.iter().any(has) && epoch.lanes.iter().all(|lane| lane.device.is_empty())
}

/// What their colours mean.
pub(super) fn legend() -> [(Key, String); 2] {
    [
        (Key::Box(Ink::heat(1)), "chunk, forward".into()),
        (Key::Box(Ink::heat(6)), "chunk, backward".into()),
    ]
}

/// The turns of the lane at `top`, each with its chunk's number where there is room.
pub(super) fn draw(
    area: &Area<'_>,
    chart: &mut Chart<'_, '_>,
    lane: &Lane,
    top: f64,
) -> Result<(), PlotError> {
    const DIGIT: i32 = 7;
    let (y0, y1) = (top + 0.56, top + 0.82);
    for turn in &lane.turns {
        let rect = [(turn.from, y0), (turn.to, y1)];
        let (ink, on) = turn.ink();
        let fill = Rectangle::new(rect, ink.filled());
        let rim = Rectangle::new(rect, stroke(Ink::TEXT, 4));
        chart.draw_series([fill, rim]).map_err(PlotError::draw)?;
        let (left, _) = spot(chart, area, turn.from, y0);
        let (right, _) = spot(chart, area, turn.to, y0);
        let (middle, y) = spot(chart, area, (turn.from + turn.to) / 2.0, (y0 + y1) / 2.0);
        let name = turn.chunk.to_string();
        if right - left >= DIGIT * name.len() as i32 + 2 {
            word(area, &name, (middle, y), Type::new(11).ink(on).centered())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_rank_does_for_one_chunk_is_one_turn() {
        let turn = |chunk, backward, from, to| Turn {
            chunk,
            backward,
            from,
            to,
        };
        let mut turns = Vec::new();
        for t in [
            turn(2, false, 0.0, 1.0),
            turn(2, false, 1.5, 2.0),
            turn(0, false, 2.0, 3.0),
            turn(0, true, 4.0, 5.0),
        ] {
            add(&mut turns, t);
        }
        let want = [
            turn(2, false, 0.0, 2.0),
            turn(0, false, 2.0, 3.0),
            turn(0, true, 4.0, 5.0),
        ];
        assert_eq!(turns, want);
    }
}
