//! `matrix`: how many bytes went from which rank to which.

use plotters::element::Rectangle;
use plotters::style::Color;

use super::ink::Ink;
use super::setting::stamp;
use super::sheet::{Area, Head, SIDE, Type, part, sheet, stroke, word};
use super::text::table;
use super::{Case, Plot, PlotError, blank, paper::U, read, twin, units};

/// Bytes by `[src][dst]`.
type Grid = Vec<Vec<f64>>;

/// The traffic of a run.
struct Traffic {
    ranks: usize,
    epochs: usize,
    /// One grid a layer (`None` where the frame has no layers), in order.
    layers: Vec<(Option<u32>, Grid)>,
    evaluation: f64,
}

/// Words that read on heat step `k`.
pub(super) fn ink_on(k: usize) -> Ink {
    if k >= 6 { Ink::ON_DARK } else { Ink::ON_LIGHT }
}

/// Bytes from rank to rank over the whole run, all layers together; `case` carries a `comm` frame.
///
/// Evaluation traffic is left out of the grid, as it is left out of epoch time; its sum is named.
///
/// # Errors
/// A frame without `src`, `dst` or `bytes`.
pub fn matrix(case: &Case) -> Result<Plot, PlotError> {
    draw_matrix(case, false)
}

/// Like [`matrix`], one grid a layer on a common scale.
///
/// # Errors
/// A frame without `src`, `dst` or `bytes`.
pub fn matrix_by_layer(case: &Case) -> Result<Plot, PlotError> {
    draw_matrix(case, true)
}

fn draw_matrix(case: &Case, by_layer: bool) -> Result<Plot, PlotError> {
    let title = format!("Bytes from rank to rank, {}", case.setting.data_label());
    let settings = [&case.setting];
    if case.frame.height() == 0 {
        let why = match case.setting.ranks {
            1 => "One rank: nothing was sent.",
            _ => "No message has been recorded.",
        };
        return blank(&title, why, &settings);
    }
    let traffic = read_traffic(case)?;
    let sum = summed(&traffic);
    let notes = notes(&traffic, &sum);
    let grids: Vec<(String, &Grid)> = if by_layer {
        let each = traffic.layers.iter();
        each.map(|(layer, grid)| match layer {
            Some(l) => (format!("layer {l}: {}", units::bytes(total(grid))), grid),
            None => (String::new(), grid),
        })
        .collect()
    } else {
        vec![(String::new(), &sum)]
    };
    let scale = Scale::over(grids.iter().flat_map(|(_, g)| g.iter().flatten().copied()));
    let foot = stamp(&settings);
    let head = Head {
        title: title.clone(),
        subtitle: notes[0].clone(),
        desc: notes[1..].join(". "),
        legend: Vec::new(),
        foot: foot.clone(),
    };
    let per_row = if grids.len() > 1 { 2 } else { 1 };
    let (side, cell_w) = if per_row == 1 { (340, 540) } else { (270, 350) };
    let cell_h = side + 84;
    let scale_at = cell_w * per_row as i32 + 24;
    let height = 22 + cell_h * grids.len().div_ceil(per_row) as i32;
    let svg = sheet(&head, (scale_at + 130, height), |area| {
        word(area, &notes[1], (SIDE, 6), Type::new(12).faint())?;
        for (i, (name, grid)) in grids.iter().enumerate() {
            let at = (
                (i % per_row) as i32 * cell_w,
                22 + (i / per_row) as i32 * cell_h,
            );
            draw_grid(
                &part(area, at, (cell_w, cell_h)),
                name,
                grid,
                &scale,
                side,
                per_row == 1,
            )?;
        }
        scale.draw(&part(area, (scale_at, 52), (130, 300)))
    })?;
    let text = twin(&title, &notes, &numbers(&grids), &foot);
    Ok(Plot { svg, text })
}

fn read_traffic(case: &Case) -> Result<Traffic, PlotError> {
    let frame = &case.frame;
    let src = read::need(frame, "comm", "src")?;
    let dst = read::need(frame, "comm", "dst")?;
    let bytes = read::need(frame, "comm", "bytes")?;
    let layer = read::maybe(frame, "layer");
    let direction = read::words(frame, "direction");
    let mut epochs = read::maybe(frame, "epoch").unwrap_or_default();
    epochs.sort_by(f64::total_cmp);
    epochs.dedup();
    let largest = src.iter().chain(&dst).copied().filter(|r| r.is_finite());
    let ranks = (largest.fold(0.0, f64::max) as usize + 1).max(case.setting.ranks as usize);
    let mut layers: Vec<(Option<u32>, Grid)> = Vec::new();
    let mut evaluation = 0.0;
    for i in 0..bytes.len() {
        if !(src[i].is_finite() && dst[i].is_finite() && bytes[i].is_finite()) {
            continue;
        }
        if direction.as_ref().is_some_and(|d| d[i] == "eval") {
            evaluation += bytes[i];
            continue;
        }
        let key = layer
            .as_ref()
            .map(|l| l[i])
            .filter(|l| l.is_finite())
            .map(|l| l as u32);
        let at = match layers.iter().position(|(k, _)| *k == key) {
            Some(at) => at,
            None => {
                layers.push((key, vec![vec![0.0; ranks]; ranks]));
                layers.len() - 1
            }
        };
        layers[at].1[src[i] as usize][dst[i] as usize] += bytes[i];
    }
    layers.sort_by_key(|(key, _)| *key);
    if layers.is_empty() {
        layers.push((None, vec![vec![0.0; ranks]; ranks]));
    }
    Ok(Traffic {
        ranks,
        epochs: epochs.len(),
        layers,
        evaluation,
    })
}

fn summed(traffic: &Traffic) -> Grid {
    let n = traffic.ranks;
    let at = |s: usize, d: usize| traffic.layers.iter().map(|(_, g)| g[s][d]).sum();
    (0..n).map(|s| (0..n).map(|d| at(s, d)).collect()).collect()
}

fn total(grid: &Grid) -> f64 {
    grid.iter().flatten().sum()
}

/// Two notes: amounts, then shape.
fn notes(traffic: &Traffic, sum: &Grid) -> Vec<String> {
    let (all, n) = (total(sum), traffic.ranks);
    let over = match traffic.epochs {
        0 => String::new(),
        e => format!(
            " in {} ({} an epoch)",
            units::plural(e, "epoch"),
            units::bytes(all / e as f64)
        ),
    };
    let evaluation = match traffic.evaluation {
        e if e > 0.0 => format!(", evaluation's {} not counted", units::bytes(e)),
        _ => String::new(),
    };
    let pairs = || (0..n).flat_map(|s| (0..n).map(move |d| (s, d)));
    let largest = pairs().max_by(|a, b| sum[a.0][a.1].total_cmp(&sum[b.0][b.1]));
    let shape = match largest {
        Some((s, d)) if all > 0.0 => {
            let apart: f64 = pairs().map(|(s, d)| (sum[s][d] - sum[d][s]).abs()).sum();
            let even = match apart / 2.0 / all {
                0.0 => "exactly symmetric".to_owned(),
                a if a < 0.001 => "symmetric within 0.1 %".to_owned(),
                a => format!(
                    "{} of bytes lack a counterpart the other way",
                    units::percent(a)
                ),
            };
            let (most, share) = (units::bytes(sum[s][d]), units::percent(sum[s][d] / all));
            format!("largest pair {s} → {d}: {most} ({share}) · {even}")
        }
        _ => "no bytes moved".to_owned(),
    };
    vec![
        format!("total {}{over}{evaluation}", units::bytes(all)),
        shape,
    ]
}

/// Smallest ratio between the ends of the heat scale.
const SPAN: f64 = 16.0;

/// Logarithmic heat scale over the positive values.
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    fn over(values: impl Iterator<Item = f64>) -> Scale {
        let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
        for v in values.filter(|v| *v > 0.0) {
            (low, high) = (low.min(v), high.max(v));
        }
        // At least this span, so that nearly equal amounts look nearly equal.
        let low = low.min(high / SPAN);
        Scale { low, high }
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

    fn draw(&self, area: &Area<'_>) -> Result<(), PlotError> {
        word(area, "bytes (log scale)", (0, 14), Type::new(11).faint())?;
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
            for (i, k) in (0..Ink::HEATS).rev().enumerate() {
                let y = 28 + 20 * i as i32;
                put(y, Some(Ink::heat(k)))?;
                let part = k as f64 / (Ink::HEATS - 1) as f64;
                let value = self.low * (self.high / self.low).powf(part);
                if i % 2 == 0 {
                    word(
                        area,
                        &units::bytes(value),
                        (28, y + 10),
                        Type::new(11).faint(),
                    )?;
                }
            }
        }
        let y = 28 + 20 * Ink::HEATS as i32 + 12;
        put(y, None)?;
        word(area, "nothing", (28, y + 10), Type::new(11).faint())
    }
}

fn draw_grid(
    area: &Area<'_>,
    name: &str,
    grid: &Grid,
    scale: &Scale,
    side: i32,
    sums: bool,
) -> Result<(), PlotError> {
    let n = grid.len() as i32;
    let (left, top) = (SIDE + 50, 44);
    let edge = |i: i32| i * side * U / n;
    let cell = side / n;
    let every = n.div_euclid(17) as usize + 1;
    let face = Type::new(11).faint();
    word(
        area,
        "destination rank",
        (left + side / 2, 10),
        Type::new(12).centered(),
    )?;
    let turned = Type::new(12).centered().turned();
    word(area, "source rank", (SIDE + 6, top + side / 2), turned)?;
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
            if cell >= 34 {
                let (text, ink) = match step {
                    Some(k) => (units::bytes(*value), ink_on(k)),
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
        word(area, "sent", (left + side + 12, top - 11), face)?;
        if cell >= 50 {
            word(area, "received", (left - 9, top + side + 12), face.right())?;
        }
        for i in 0..grid.len() {
            let mid = (2 * i as i32 + 1) * side / (2 * n);
            let sent = units::bytes(grid[i].iter().sum());
            word(area, &sent, (left + side + 12, top + mid), Type::new(11))?;
            let got = units::bytes(grid.iter().map(|row| row[i]).sum());
            if cell >= 50 {
                let at = (left + mid, top + side + 12);
                word(area, &got, at, Type::new(11).centered())?;
            }
        }
    }
    Ok(())
}

fn numbers(grids: &[(String, &Grid)]) -> String {
    let mut out = Vec::new();
    for (name, grid) in grids {
        let n = grid.len();
        let names: Vec<String> = (0..n).map(|d| format!("→ {d}")).collect();
        let mut head = vec!["bytes from"];
        head.extend(names.iter().map(String::as_str));
        head.push("sent");
        let row = |s: usize| {
            let mut row = vec![format!("rank {s}")];
            row.extend(grid[s].iter().map(|v| units::bytes(*v)));
            row.push(units::bytes(grid[s].iter().sum()));
            row
        };
        let rows: Vec<Vec<String>> = (0..n).map(row).collect();
        let title = match name.is_empty() {
            true => String::new(),
            false => format!("{name}\n"),
        };
        out.push(title + &table(&head, &rows));
    }
    out.join("\n")
}
