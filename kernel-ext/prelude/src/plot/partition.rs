//! `partition`: how a graph was cut.

use launcher::partition::Report;

use super::matrix::Grid;
use super::matrix_grid::{Scale, Wording, draw_grid};
use super::partition_graph::{LEGEND_PARTS, draw_graph, part_ink};
use super::setting::stamp;
use super::sheet::{Head, Key, SIDE, Type, part, sheet, word};
use super::text::table;
use super::{Case, Plot, PlotError, blank, ink::Ink, twin, units};

/// Cells of a side of the matrix; more parts are shown in groups.
const CELLS: usize = 64;

const CUT: Wording = Wording {
    unit: "edges (log scale)",
    text: units::count,
    from: "part that is read",
    to: "part that reads",
    out: "read",
    into: "reads",
};

/// The cut of a run: a small graph coloured by owner with a ring round every vertex that another
/// part reads, a larger one as the number of edges from part to part.
///
/// # Errors
/// What drawing reports.
pub fn partition(case: &Case) -> Result<Plot, PlotError> {
    match &case.cut {
        Some(report) => draw(report, stamp(&[&case.setting])),
        None => {
            let title = format!("Partition of {}", case.setting.data_label());
            let why = "One rank: nothing was cut.";
            blank(&title, why, &[&case.setting])
        }
    }
}

/// The same of a cut without a run, whose id is `id`.
///
/// # Errors
/// What drawing reports.
pub fn cut(report: &Report, id: &str) -> Result<Plot, PlotError> {
    let setting = format!("{} · {} · seed {}", label(report), how(report), report.seed);
    draw(report, vec![setting, format!("partition {id}")])
}

fn how(report: &Report) -> String {
    let parts = units::plural(report.parts as usize, "part");
    format!("{} into {parts}", report.method)
}

fn label(report: &Report) -> String {
    let mark = if report.synthetic { " (synthetic)" } else { "" };
    format!("{}{mark}", report.data)
}

fn draw(report: &Report, foot: Vec<String>) -> Result<Plot, PlotError> {
    let title = format!("Partition of {}", label(report));
    let notes = notes(report);
    let text = twin(&title, &notes, &numbers(report), &foot);
    let head = |legend: Vec<(Key, String)>| Head {
        title: title.clone(),
        subtitle: notes[0].clone(),
        desc: notes[1].clone(),
        legend,
        foot: foot.clone(),
    };
    let svg = match &report.picture {
        Some(picture) => sheet(&head(legend(report)), (760, 566), |area| {
            word(area, &notes[1], (SIDE, 6), Type::new(12).faint())?;
            let size = (760 - 2 * SIDE, 540);
            draw_graph(&part(area, (SIDE, 22), size), picture, size)
        })?,
        None => {
            let (grid, group) = cut_grid(&report.matrix);
            let scale = Scale::over(grid.iter().flatten().copied(), CUT);
            let name = match group {
                1 => String::new(),
                g => format!("a cell is {g} × {g} parts"),
            };
            sheet(&head(Vec::new()), (724, 446), |area| {
                word(area, &notes[1], (SIDE, 6), Type::new(12).faint())?;
                let at = part(area, (0, 22), (540, 424));
                draw_grid(&at, &name, &grid, &scale, 340, true)?;
                scale.draw(&part(area, (580, 52), (130, 300)))
            })?
        }
    };
    Ok(Plot { svg, text })
}

/// Two notes: the cut against its baseline, then balance.
fn notes(report: &Report) -> Vec<String> {
    let hash = |text: Option<String>| text.map_or(String::new(), |t| format!(" (hash {t})"));
    let halo = report.alpha / (1.0 + report.alpha);
    vec![
        format!(
            "{} of edges cut{} · {:.2} halo copies a vertex{} · halo share {}",
            units::percent(report.cut_share),
            hash(report.hash_cut_share.map(units::percent)),
            report.alpha,
            hash(report.hash_alpha.map(|a| format!("{a:.2}"))),
            units::percent(halo),
        ),
        format!(
            "Largest part over the mean: {:.2} vertices, {:.2} edges, {:.2} training vertices",
            report.node_balance, report.edge_balance, report.train_balance
        ),
    ]
}

fn legend(report: &Report) -> Vec<(Key, String)> {
    let parts = (report.parts as usize).min(LEGEND_PARTS);
    let mut legend: Vec<(Key, String)> = (0..parts)
        .map(|p| (Key::Dot(part_ink(p as u32)), format!("part {p}")))
        .collect();
    if report.parts as usize > parts {
        legend.push((Key::Dot(Ink::FAINT), "further parts by their number".into()));
    }
    legend.push((Key::Ring(Ink::HALO), "halo: read by another part".into()));
    legend.push((Key::Line(Ink::HALO), "cut edge".into()));
    legend.push((Key::Ring(Ink::TEXT), "training vertex".into()));
    legend
}

/// Edges between parts, `[read][reader]`, and how many parts a cell is along each side. What stays
/// in a part is left out: it would outshine what is cut.
fn cut_grid(matrix: &[Vec<u64>]) -> (Grid, usize) {
    let parts = matrix.len();
    let group = parts.div_ceil(CELLS).max(1);
    let side = parts.div_ceil(group);
    let mut grid = vec![vec![0.0; side]; side];
    for (dst, row) in matrix.iter().enumerate() {
        for (src, &edges) in row.iter().enumerate().filter(|(src, _)| *src != dst) {
            grid[src / group][dst / group] += edges as f64;
        }
    }
    (grid, group)
}

/// The text twin's table: who reads how much from whom, for as many parts as a table holds.
fn numbers(report: &Report) -> String {
    const SHOWN: usize = 16;
    let parts = report.matrix.len();
    let shown = parts.min(SHOWN);
    let names: Vec<String> = (0..shown).map(|p| format!("from {p}")).collect();
    let mut head = vec!["edges of"];
    head.extend(names.iter().map(String::as_str));
    head.push("cut");
    let row = |p: usize| {
        let row = &report.matrix[p];
        let all: u64 = row.iter().sum();
        let mut cells = vec![format!("part {p}")];
        cells.extend(row[..shown].iter().map(|&e| units::count(e as f64)));
        cells.push(units::percent((all - row[p]) as f64 / all.max(1) as f64));
        cells
    };
    let rows: Vec<Vec<String>> = (0..shown).map(row).collect();
    let more = match parts - shown {
        0 => String::new(),
        left => format!("… and {left} more parts\n"),
    };
    table(&head, &rows) + &more
}
