//! The heat grid of `matrix` and its scale.

use plotters::element::Rectangle;
use plotters::style::Color;

use super::ink::Ink;
use super::matrix::Grid;
use super::sheet::{Area, SIDE, Type, hover, stroke, word};
use super::{PlotError, paper::U, units};

/// Words that read on heat step `k`.
pub(crate) fn ink_on(k: usize) -> Ink {
    if k >= 6 { Ink::ON_DARK } else { Ink::ON_LIGHT }
}

/// Smallest ratio between the ends of the heat scale: what differs by less looks alike.
const SPAN: f64 = 1.05;

/// What a grid counts, and between whom.
#[derive(Clone, Copy)]
pub(super) struct Wording {
    /// The unit, in words.
    pub unit: &'static str,
    /// A value as text.
    pub text: fn(f64) -> String,
    /// What rows are.
    pub from: &'static str,
    /// What columns are.
    pub to: &'static str,
    /// What the sum of a row is.
    pub out: &'static str,
    /// What the sum of a column is.
    pub into: &'static str,
}

/// Bytes between ranks.
pub(super) const TRAFFIC: Wording = Wording {
    unit: "bytes (log scale)",
    text: units::bytes,
    from: "source rank",
    to: "destination rank",
    out: "sent",
    into: "received",
};

/// Logarithmic heat scale from the smallest to the largest positive value.
pub(super) struct Scale {
    low: f64,
    high: f64,
    wording: Wording,
}

impl Scale {
    /// The scale for `values`.
    pub(super) fn over(values: impl Iterator<Item = f64>, wording: Wording) -> Scale {
        let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
        for v in values.filter(|v| *v > 0.0) {
            (low, high) = (low.min(v), high.max(v));
        }
        let low = low.min(high / SPAN);
        Scale { low, high, wording }
    }

    /// Heat step of `value`; `None` for nothing sent.
    fn step(&self, value: f64) -> Option<usize> {
        if value.is_nan() || value <= 0.0 {
            return None;
        }
        let last = (Ink::HEATS - 1) as f64;
        let step = (value / self.low).ln() / (self.high / self.low).ln() * last;
        Some(step.round() as usize)
    }

    /// Draws the scale's steps with their amounts.
    pub(super) fn draw(&self, area: &Area<'_>) -> Result<(), PlotError> {
        word(area, self.wording.unit, (0, 14), Type::new(11).faint())?;
        let put = |y: i32, fill: Option<Ink>| {
            let rect = [(0, y * U), (20 * U, (y + 20) * U)];
            if let Some(ink) = fill {
                area.draw(&Rectangle::new(rect, ink.filled()))
                    .map_err(PlotError::draw)?;
            }
            area.draw(&Rectangle::new(rect, stroke(Ink::FAINT, 5)))
                .map_err(PlotError::draw)
        };
        if self.high > 0.0 {
            let mut said = String::new();
            for (i, k) in (0..Ink::HEATS).rev().enumerate() {
                let y = 28 + 20 * i as i32;
                put(y, Some(Ink::heat(k)))?;
                let part = k as f64 / (Ink::HEATS - 1) as f64;
                let value = self.low * (self.high / self.low).powf(part);
                let amount = (self.wording.text)(value);
                if i % 2 == 0 && amount != said {
                    word(area, &amount, (28, y + 10), Type::new(11).faint())?;
                    said = amount;
                }
            }
        }
        let y = 28 + 20 * Ink::HEATS as i32 + 12;
        put(y, None)?;
        word(area, "nothing", (28, y + 10), Type::new(11).faint())
    }
}

/// One grid of `side` px called `name`, with sums at its edges when `sums`.
pub(super) fn draw_grid(
    area: &Area<'_>,
    name: &str,
    grid: &Grid,
    scale: &Scale,
    side: i32,
    sums: bool,
) -> Result<(), PlotError> {
    let n = grid.len() as i32;
    let wording = scale.wording;
    let (left, top) = (SIDE + 50, 44);
    let edge = |i: i32| i * side * U / n;
    let cell = side / n;
    let every = n.div_euclid(17) as usize + 1;
    let face = Type::new(11).faint();
    word(
        area,
        wording.to,
        (left + side / 2, 10),
        Type::new(12).centered(),
    )?;
    let turned = Type::new(12).centered().turned();
    word(area, wording.from, (SIDE + 6, top + side / 2), turned)?;
    for i in (0..n).step_by(every) {
        let mid = (2 * i + 1) * side / (2 * n);
        word(
            area,
            &i.to_string(),
            (left + mid, top - 11),
            face.centered(),
        )?;
        word(area, &i.to_string(), (left - 9, top + mid), face.right())?;
    }
    for (s, row) in grid.iter().enumerate() {
        for (d, value) in row.iter().enumerate() {
            let (x, y) = (edge(d as i32), edge(s as i32));
            let rect = [
                (left * U + x, top * U + y),
                (left * U + edge(d as i32 + 1), top * U + edge(s as i32 + 1)),
            ];
            let step = scale.step(*value);
            if let Some(k) = step {
                area.draw(&Rectangle::new(rect, Ink::heat(k).filled()))
                    .map_err(PlotError::draw)?;
            }
            area.draw(&Rectangle::new(rect, stroke(Ink::GRID, 8)))
                .map_err(PlotError::draw)?;
            let at = (left + x / U, top + y / U);
            let amount = (wording.text)(*value);
            let said = format!("{} {s}, {} {d}: {amount}", wording.from, wording.to);
            hover(area, at, (cell.max(1), cell.max(1)), &said)?;
            if cell >= 34 {
                let (text, ink) = match step {
                    Some(k) => ((wording.text)(*value), ink_on(k)),
                    None => ("·".to_owned(), Ink::FAINT),
                };
                let size = if cell >= 56 { 12 } else { 9 };
                let at = (left + (x / U) + cell / 2, top + (y / U) + cell / 2);
                word(area, &text, at, Type::new(size).ink(ink).centered())?;
            }
        }
    }
    word(area, name, (left, top + side + 14), Type::new(12).bold())?;
    if sums && cell >= 20 {
        word(area, wording.out, (left + side + 12, top - 11), face)?;
        if cell >= 50 {
            word(
                area,
                wording.into,
                (left - 9, top + side + 12),
                face.right(),
            )?;
        }
        for i in 0..grid.len() {
            let mid = (2 * i as i32 + 1) * side / (2 * n);
            let sent = (wording.text)(grid[i].iter().sum());
            word(area, &sent, (left + side + 12, top + mid), Type::new(11))?;
            let got = (wording.text)(grid.iter().map(|row| row[i]).sum());
            if cell >= 50 {
                let at = (left + mid, top + side + 12);
                word(area, &got, at, Type::new(11).centered())?;
            }
        }
    }
    Ok(())
}
