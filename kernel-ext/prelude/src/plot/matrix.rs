//! `matrix`: how many bytes went from which rank to which.

use super::matrix_grid::{Scale, TRAFFIC, draw_grid};
use super::setting::stamp;
use super::sheet::{Head, SIDE, Type, part, sheet, word};
use super::text::table;
use super::{Case, Plot, PlotError, blank, read, twin, units};

/// Bytes by `[src][dst]`.
pub(super) type Grid = Vec<Vec<f64>>;

/// The traffic of a run.
struct Traffic {
    ranks: usize,
    epochs: usize,
    /// One grid a layer (`None` where the frame has no layers), in order.
    layers: Vec<(Option<u32>, Grid)>,
    evaluation: f64,
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
    let values = grids.iter().flat_map(|(_, g)| g.iter().flatten().copied());
    let scale = Scale::over(values, TRAFFIC);
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
