//! A small graph with its vertices by owner.

use launcher::partition::Picture;
use plotters::element::{Circle, PathElement};
use plotters::style::Color;

use super::PlotError;
use super::ink::Ink;
use super::paper::U;
use super::sheet::{Area, Type, stroke, word};

/// Parts that the legend names; colours repeat after it, numbers do not.
pub(super) const LEGEND_PARTS: usize = Ink::LINES;

/// Rounds of the layout.
const ROUNDS: usize = 300;

/// The colour of a part.
pub(super) fn part_ink(p: u32) -> Ink {
    Ink::line(p as usize)
}

/// Draws the graph into `size` px of `area`: each vertex a dot with its part's number, a ring round
/// those that another part reads, a rim round those that are trained on.
pub(super) fn draw_graph(
    area: &Area<'_>,
    picture: &Picture,
    (width, height): (i32, i32),
) -> Result<(), PlotError> {
    let n = picture.owner.len();
    let radius = if n <= 60 { 9 } else { 6 };
    let margin = radius + 8;
    let room = (width - 2 * margin, height - 2 * margin);
    let at: Vec<(i32, i32)> = layout(picture)
        .into_iter()
        .map(|(x, y)| {
            let place =
                |z: f64, room: i32| (f64::from(margin * U) + z * f64::from(room * U)) as i32;
            (place(x, room.0), place(y, room.1))
        })
        .collect();
    let cut = |&(a, b): &(u32, u32)| picture.owner[a as usize] != picture.owner[b as usize];
    // Cut edges lie above the others, vertices above all.
    for (crossing, style) in [
        (false, stroke(Ink::OTHER, 8)),
        (true, stroke(Ink::HALO, 12)),
    ] {
        for (a, b) in picture.edges.iter().filter(|e| cut(e) == crossing) {
            let line = vec![at[*a as usize], at[*b as usize]];
            area.draw(&PathElement::new(line, style))
                .map_err(PlotError::draw)?;
        }
    }
    let face = Type::new(if radius > 6 { 11 } else { 8 })
        .ink(Ink::CARD)
        .centered();
    for (v, &place) in at.iter().enumerate() {
        if picture.boundary[v] {
            let ring = Circle::new(place, (radius + 4) * U, stroke(Ink::HALO, 20));
            area.draw(&ring).map_err(PlotError::draw)?;
        }
        let dot = Circle::new(place, radius * U, part_ink(picture.owner[v]).filled());
        area.draw(&dot).map_err(PlotError::draw)?;
        if picture.train[v] {
            let rim = Circle::new(place, radius * U, stroke(Ink::TEXT, 22));
            area.draw(&rim).map_err(PlotError::draw)?;
        }
        let number = picture.owner[v].to_string();
        word(area, &number, (place.0 / U, place.1 / U), face)?;
    }
    Ok(())
}

/// Places in the unit square: vertices of a part start together, edges pull, all vertices push
/// (Fruchterman and Reingold 1991). Nothing is drawn at random, so a graph looks the same always.
fn layout(picture: &Picture) -> Vec<(f64, f64)> {
    let n = picture.owner.len();
    let parts = picture.owner.iter().copied().max().unwrap_or(0) + 1;
    let circle = |turn: f64, r: f64| {
        let angle = std::f64::consts::TAU * turn;
        (r * angle.cos(), r * angle.sin())
    };
    // The golden angle spreads a part's vertices evenly round its centre.
    let golden = 0.381_966_011_250_105;
    let mut at: Vec<(f64, f64)> = (0..n)
        .map(|v| {
            let (x, y) = circle(f64::from(picture.owner[v]) / f64::from(parts), 0.35);
            let (dx, dy) = circle(golden * v as f64, 0.18 * ((v + 1) as f64 / n as f64).sqrt());
            (x + dx, y + dy)
        })
        .collect();
    let ideal = 0.9 / (n.max(1) as f64).sqrt();
    for round in 0..ROUNDS {
        let mut push = vec![(0.0, 0.0); n];
        for a in 0..n {
            for b in a + 1..n {
                let (dx, dy) = (at[a].0 - at[b].0, at[a].1 - at[b].1);
                let d2 = (dx * dx + dy * dy).max(1e-6);
                let f = ideal * ideal / d2;
                push[a].0 += dx * f;
                push[a].1 += dy * f;
                push[b].0 -= dx * f;
                push[b].1 -= dy * f;
            }
        }
        for &(a, b) in &picture.edges {
            let (a, b) = (a as usize, b as usize);
            let (dx, dy) = (at[a].0 - at[b].0, at[a].1 - at[b].1);
            // Parts hold together: an edge within one pulls harder.
            let within = picture.owner[a] == picture.owner[b];
            let f = (dx * dx + dy * dy).sqrt() / ideal * if within { 1.0 } else { 0.35 };
            push[a].0 -= dx * f;
            push[a].1 -= dy * f;
            push[b].0 += dx * f;
            push[b].1 += dy * f;
        }
        let most = 0.1 * (1.0 - round as f64 / ROUNDS as f64);
        for (p, f) in at.iter_mut().zip(push) {
            // A weak pull to the middle keeps what has no edge in the picture.
            let (fx, fy) = (f.0 - 0.6 * ideal * p.0, f.1 - 0.6 * ideal * p.1);
            let length = (fx * fx + fy * fy).sqrt().max(1e-9);
            let step = length.min(most) / length;
            p.0 += fx * step;
            p.1 += fy * step;
        }
    }
    fit(at)
}

/// Stretched to the unit square.
fn fit(at: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let span = |of: fn(&(f64, f64)) -> f64| {
        let low = at.iter().map(of).fold(f64::INFINITY, f64::min);
        let high = at.iter().map(of).fold(f64::NEG_INFINITY, f64::max);
        (low, (high - low).max(1e-9))
    };
    let ((x0, w), (y0, h)) = (span(|p| p.0), span(|p| p.1));
    at.iter()
        .map(|p| ((p.0 - x0) / w, (p.1 - y0) / h))
        .collect()
}
