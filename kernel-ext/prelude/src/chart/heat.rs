//! Cells coloured by a value.

use plotters::element::Rectangle;
use plotters::style::Color;

use super::Chart;
use super::columns::{distinct, labels, numbers};
use super::layout::WIDTH;
use crate::plot::ink::Ink;
use crate::plot::paper::{U, text_width};
use crate::plot::sheet::{Area, Head, SIDE, Type, fit, hover, sheet, stroke, word};
use crate::plot::text::table;
use crate::plot::{Plot, PlotError, blank, digits, ink_on, median, twin};

/// Room for the scale right of the cells, px.
const SCALE: i32 = 110;

/// Values by row and column of cells.
struct Grid {
    columns: Vec<String>,
    rows: Vec<String>,
    /// NaN where there is none.
    cells: Vec<Vec<f64>>,
    low: f64,
    high: f64,
}

impl Grid {
    fn of(chart: &Chart) -> Result<Grid, PlotError> {
        let frame = &chart.frame;
        let (x, y) = (labels(frame, &chart.x)?, labels(frame, &chart.y)?);
        let values = numbers(frame, &chart.value)?;
        let (columns, rows) = (distinct(&x), distinct(&y));
        if columns.len() > 64 || rows.len() > 64 {
            return Err(PlotError::Run(format!(
                "{} times {} cells are more than can be read\nhelp: group the frame into 64 values an axis at most",
                columns.len(),
                rows.len()
            )));
        }
        let at = |names: &[String], label: &String| names.iter().position(|name| name == label);
        let mut all = vec![vec![Vec::new(); columns.len()]; rows.len()];
        for (k, value) in values.iter().enumerate().filter(|(_, v)| v.is_finite()) {
            if let (Some(c), Some(r)) = (at(&columns, &x[k]), at(&rows, &y[k])) {
                all[r][c].push(*value);
            }
        }
        let cells: Vec<Vec<f64>> = all
            .into_iter()
            .map(|row| row.into_iter().map(median).collect())
            .collect();
        let known = || cells.iter().flatten().copied().filter(|v| v.is_finite());
        Ok(Grid {
            low: known().fold(f64::INFINITY, f64::min),
            high: known().fold(f64::NEG_INFINITY, f64::max),
            columns,
            rows,
            cells,
        })
    }

    /// Heat step of a value.
    fn step(&self, value: f64) -> usize {
        let part = match self.high > self.low {
            true => (value - self.low) / (self.high - self.low),
            false => 0.5,
        };
        (part * (Ink::HEATS - 1) as f64).round() as usize
    }
}

/// Draws `chart`; of repeats the median.
pub(super) fn draw(chart: &Chart) -> Result<Plot, PlotError> {
    if chart.by.is_some() || chart.facet.is_some() {
        return Err(PlotError::Run(
            "a heat map has neither series nor panels\nhelp: filter the frame, and draw one for each".into(),
        ));
    }
    let grid = Grid::of(chart)?;
    let title = chart.title_or_own();
    if !grid.low.is_finite() {
        return blank(&title, "There is no number to draw.", &[]);
    }
    let foot = chart.foot();
    let head = Head {
        title: title.clone(),
        subtitle: String::new(),
        desc: title.clone(),
        legend: Vec::new(),
        foot: foot.clone(),
    };
    let names = grid
        .rows
        .iter()
        .map(|name| text_width(name, 11.0))
        .fold(20.0, f64::max);
    let left = SIDE + 22 + (names as i32 + 10).min(200);
    let cell = ((WIDTH - left - SCALE - SIDE) / grid.columns.len() as i32).min(90);
    let high = (420 / grid.rows.len() as i32)
        .clamp(14, 44)
        .min(cell.max(14));
    let height = 40 + high * grid.rows.len() as i32 + 30;
    let svg = sheet(&head, (WIDTH, height.max(250)), |area| {
        cells(area, chart, &grid, (left, 40), (cell, high))?;
        let right = left + cell * grid.columns.len() as i32 + 40;
        scale(area, chart, &grid, right.min(WIDTH - SCALE))
    })?;
    let mut named = vec![chart.y.as_str()];
    named.extend(grid.columns.iter().map(String::as_str));
    let rows = grid.rows.iter().zip(&grid.cells);
    let rows: Vec<Vec<String>> = rows
        .map(|(name, cells)| {
            [name.clone()]
                .into_iter()
                .chain(cells.iter().map(|v| digits(*v)))
                .collect()
        })
        .collect();
    let text = twin(
        &title,
        &[format!("columns: {}", chart.x)],
        &table(&named, &rows),
        &foot,
    );
    Ok(Plot { svg, text })
}

fn cells(
    area: &Area<'_>,
    chart: &Chart,
    grid: &Grid,
    (left, top): (i32, i32),
    (wide, high): (i32, i32),
) -> Result<(), PlotError> {
    let face = Type::new(11).faint();
    let middle = left + wide * grid.columns.len() as i32 / 2;
    word(area, &chart.x, (middle, 8), Type::new(12).centered())?;
    let turned = Type::new(12).centered().turned();
    word(
        area,
        &chart.y,
        (SIDE + 6, top + high * grid.rows.len() as i32 / 2),
        turned,
    )?;
    let widest = grid
        .columns
        .iter()
        .map(|name| text_width(name, 11.0))
        .fold(0.0, f64::max);
    let every = ((widest.min(80.0) + 6.0) / f64::from(wide)).ceil().max(1.0) as usize;
    for (c, name) in grid.columns.iter().enumerate().step_by(every) {
        let at = (left + wide * c as i32 + wide / 2, top - 11);
        word(
            area,
            &fit(name, 11.0, f64::from(wide * every as i32 - 4)),
            at,
            face.centered(),
        )?;
    }
    for (r, name) in grid.rows.iter().enumerate() {
        let at = (left - 8, top + high * r as i32 + high / 2);
        word(area, &fit(name, 11.0, 190.0), at, face.right())?;
        for (c, value) in grid.cells[r].iter().enumerate() {
            let (x, y) = (left + wide * c as i32, top + high * r as i32);
            let rect = [(x * U, y * U), ((x + wide) * U, (y + high) * U)];
            if value.is_finite() {
                let step = grid.step(*value);
                area.draw(&Rectangle::new(rect, Ink::heat(step).filled()))
                    .map_err(PlotError::draw)?;
                let said = digits(*value);
                if text_width(&said, 11.0) + 6.0 < f64::from(wide) && high >= 16 {
                    let face = Type::new(11).ink(ink_on(step)).centered();
                    word(area, &said, (x + wide / 2, y + high / 2), face)?;
                }
                let tip = format!("{}, {name}: {said}", grid.columns[c]);
                hover(area, (x, y), (wide, high), &tip)?;
            }
            area.draw(&Rectangle::new(rect, stroke(Ink::GRID, 8)))
                .map_err(PlotError::draw)?;
        }
    }
    Ok(())
}

fn scale(area: &Area<'_>, chart: &Chart, grid: &Grid, left: i32) -> Result<(), PlotError> {
    word(
        area,
        &fit(&chart.value, 11.0, 100.0),
        (left, 14),
        Type::new(11).faint(),
    )?;
    let mut before = String::new();
    for (i, k) in (0..Ink::HEATS).rev().enumerate() {
        let y = 28 + 20 * i as i32;
        let rect = [(left * U, y * U), ((left + 20) * U, (y + 20) * U)];
        area.draw(&Rectangle::new(rect, Ink::heat(k).filled()))
            .map_err(PlotError::draw)?;
        let part = k as f64 / (Ink::HEATS - 1) as f64;
        let said = digits(grid.low + part * (grid.high - grid.low));
        if i % 2 == 0 && said != before {
            word(area, &said, (left + 28, y + 10), Type::new(11).faint())?;
            before = said;
        }
    }
    Ok(())
}
