//! `balance`: does every rank carry the same load?

use plotters::chart::ChartBuilder;
use plotters::element::{Circle, PathElement, Rectangle};
use plotters::style::Color;

use super::axes::{Named, axes, spot, top};
use super::ink::Ink;
use super::setting::stamp;
use super::sheet::{Area, Head, Key, SIDE, Type, part, sheet, stroke, word};
use super::text::table;
use super::{Case, Plot, PlotError, blank, paper::U, read, twin, units};

/// The nodes a rank holds, as dots.
const NODES: [(&str, &str, Ink); 3] = [
    ("owned nodes", "owned_nodes", Ink::OWNED),
    ("halo nodes", "halo_nodes", Ink::HALO),
    ("train nodes", "train_nodes", Ink::TRAIN),
];

/// One rank: medians over its epochs.
struct Load {
    rank: u32,
    compute: f64,
    wait: f64,
    nodes: [f64; 3],
}

/// Bars of compute and wait per rank, dots for the nodes each holds; `case` carries a `ranks` frame.
///
/// Bars are medians over the epochs that are not warm-up. The imbalance is the largest compute
/// time over the mean, so 1.00 is perfect balance.
///
/// # Errors
/// A frame without `rank` or `compute_ms`.
pub fn balance(case: &Case) -> Result<Plot, PlotError> {
    let title = format!("Load of each rank, {}", case.setting.data_label());
    if case.frame.height() == 0 {
        let why = "No rank has reported an epoch yet.";
        return blank(&title, why, &[&case.setting]);
    }
    let (has, loads) = loads(case)?;
    let note = verdict(&loads);
    let foot = stamp(&[&case.setting]);
    let head = Head {
        title: title.clone(),
        subtitle: note.clone(),
        desc: "Median compute and wait of an epoch for each rank, with node counts".into(),
        legend: legend(&has),
        foot: foot.clone(),
    };
    let svg = sheet(&head, (880, 310), |area| {
        let plot = part(area, (SIDE, 0), (880 - 2 * SIDE, 310));
        draw(&plot, &loads, &has)
    })?;
    let text = twin(&title, &[note], &numbers(&loads, &has), &foot);
    Ok(Plot { svg, text })
}

fn loads(case: &Case) -> Result<([bool; 3], Vec<Load>), PlotError> {
    let frame = &case.frame;
    let rank = read::need(frame, "ranks", "rank")?;
    let compute = read::need(frame, "ranks", "compute_ms")?;
    let wait = read::maybe(frame, "wait_ms");
    let nodes: Vec<Option<Vec<f64>>> = NODES.iter().map(|n| read::maybe(frame, n.1)).collect();
    let warm = read::warmup(frame);
    let skip = warm.iter().any(|w| !w);
    let mut ids: Vec<u32> = rank
        .iter()
        .filter(|r| r.is_finite())
        .map(|r| *r as u32)
        .collect();
    ids.sort_unstable();
    ids.dedup();
    let loads = ids.into_iter().map(|id| {
        let mine = |i: &usize| rank[*i] == f64::from(id) && !(skip && warm[*i]);
        let rows: Vec<usize> = (0..rank.len()).filter(mine).collect();
        let median = |v: &Option<Vec<f64>>| {
            let v = v.as_ref();
            v.map_or(f64::NAN, |v| units::median(rows.iter().map(|i| v[*i])))
        };
        Load {
            rank: id,
            compute: units::median(rows.iter().map(|i| compute[*i])),
            wait: median(&wait),
            nodes: std::array::from_fn(|k| median(&nodes[k])),
        }
    });
    let loads: Vec<Load> = loads.collect();
    let has = std::array::from_fn(|k| loads.iter().any(|l| l.nodes[k].is_finite()));
    Ok((has, loads))
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let known: Vec<f64> = values.filter(|v| v.is_finite()).collect();
    known.iter().sum::<f64>() / known.len() as f64
}

/// Ratio and slowest rank in words.
fn verdict(loads: &[Load]) -> String {
    let known = loads.iter().filter(|l| l.compute.is_finite());
    let Some(slowest) = known.max_by(|a, b| a.compute.total_cmp(&b.compute)) else {
        return "no compute time was recorded".into();
    };
    if loads.len() == 1 {
        let ms = units::ms(slowest.compute);
        return format!("one rank, so nothing to balance · compute {ms} an epoch");
    }
    let ratio = slowest.compute / mean(loads.iter().map(|l| l.compute));
    format!(
        "max/mean compute {ratio:.2} · slowest is rank {} with {} an epoch (median)",
        slowest.rank,
        units::ms(slowest.compute)
    )
}

fn legend(has: &[bool; 3]) -> Vec<(Key, String)> {
    let mut legend = vec![
        (Key::Box(Ink::COMPUTE), "compute".to_owned()),
        (Key::Box(Ink::WAIT), "wait".to_owned()),
        (Key::Line(Ink::line(1)), "mean compute".to_owned()),
    ];
    let dots = NODES.iter().zip(has).filter(|(_, has)| **has);
    legend.extend(dots.map(|((name, _, ink), _)| (key(*ink), format!("{name} (right axis)"))));
    legend
}

/// Halo nodes are rings: they are copies, and rings differ from dots in grey.
fn key(ink: Ink) -> Key {
    if ink == Ink::HALO {
        Key::Ring(ink)
    } else {
        Key::Dot(ink)
    }
}

fn draw(area: &Area<'_>, loads: &[Load], has: &[bool; 3]) -> Result<(), PlotError> {
    let known = |v: f64| if v.is_finite() { v.max(0.0) } else { 0.0 };
    let n = loads.len() as f64;
    let high = top(loads.iter().map(|l| known(l.compute) + known(l.wait)));
    let most = top(loads.iter().flat_map(|l| l.nodes));
    let dots = has.contains(&true);
    let mut chart = ChartBuilder::on(area)
        .margin_top(8 * U)
        .margin_right(if dots { 0 } else { 10 * U })
        .x_label_area_size(38 * U)
        .y_label_area_size(58 * U)
        .right_y_label_area_size(if dots { 66 * U } else { 0 })
        .build_cartesian_2d(0.0..n, 0.0..high)
        .map_err(PlotError::draw)?
        .set_secondary_coord(0.0..n, 0.0..most);
    let y = Named {
        name: "time of an epoch (ms, median)",
        ticks: 6,
        lines: true,
    };
    axes(&mut chart, Named::default(), y)?;
    if dots {
        chart
            .configure_secondary_axes()
            .axis_style(stroke(Ink::FAINT, 10))
            .set_all_tick_mark_size(4 * U)
            .label_style(Type::new(11).faint().style())
            .axis_desc_style(Type::new(12).style())
            .y_labels(6)
            .y_label_formatter(&|v: &f64| units::count(*v))
            .y_desc("nodes")
            .draw()
            .map_err(PlotError::draw)?;
    }
    for (i, load) in loads.iter().enumerate() {
        let (x0, x1) = (i as f64 + 0.14, i as f64 + 0.58);
        let (compute, wait) = (known(load.compute), known(load.wait));
        let steps = [
            (0.0, compute, Ink::COMPUTE),
            (compute, compute + wait, Ink::WAIT),
        ];
        for (from, to, ink) in steps.into_iter().filter(|(from, to, _)| to > from) {
            let rect = [(x0, from), (x1, to)];
            let fill = Rectangle::new(rect, ink.filled());
            let rim = Rectangle::new(rect, stroke(Ink::TEXT, 6));
            chart.draw_series([fill, rim]).map_err(PlotError::draw)?;
        }
        for (k, (_, _, ink)) in NODES.iter().enumerate() {
            if load.nodes[k].is_finite() {
                let at = (i as f64 + 0.66 + 0.1 * k as f64, load.nodes[k]);
                let dot = match key(*ink) {
                    Key::Ring(ink) => Circle::new(at, 4 * U, stroke(ink, 20)),
                    _ => Circle::new(at, 4 * U + U / 2, ink.filled()),
                };
                chart
                    .draw_secondary_series([dot])
                    .map_err(PlotError::draw)?;
            }
        }
    }
    let average = mean(loads.iter().map(|l| l.compute));
    if average.is_finite() {
        let rule = vec![(0.0, average), (n, average)];
        chart
            .draw_series([PathElement::new(rule, stroke(Ink::line(1), 16))])
            .map_err(PlotError::draw)?;
    }
    let spot = |x: f64| spot(&chart, area, x, 0.0);
    let every = loads.len().div_ceil(32);
    for (i, load) in loads.iter().enumerate().step_by(every) {
        let (px, py) = spot(i as f64 + 0.5);
        let face = Type::new(11).faint().centered();
        word(area, &load.rank.to_string(), (px, py + 11), face)?;
    }
    let (px, py) = spot(n / 2.0);
    word(area, "rank", (px, py + 29), Type::new(12).centered())
}

fn numbers(loads: &[Load], has: &[bool; 3]) -> String {
    let average = mean(loads.iter().map(|l| l.compute));
    let mut head = vec!["rank", "compute ms", "wait ms", "compute/mean"];
    let kept: Vec<usize> = (0..3).filter(|k| has[*k]).collect();
    head.extend(kept.iter().map(|k| NODES[*k].0));
    let number = |v: f64| match v.is_finite() {
        true => format!("{v:.3}"),
        false => "-".to_owned(),
    };
    let rows: Vec<Vec<String>> = loads
        .iter()
        .map(|l| {
            let mut row = vec![
                l.rank.to_string(),
                number(l.compute),
                number(l.wait),
                number(l.compute / average),
            ];
            row.extend(kept.iter().map(|k| units::count(l.nodes[*k])));
            row
        })
        .collect();
    table(&head, &rows)
}
