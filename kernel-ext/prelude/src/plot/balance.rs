//! `balance`: does every rank carry the same load?

use plotters::chart::ChartBuilder;
use plotters::element::{Circle, PathElement, Rectangle};
use plotters::style::Color;

use super::axes::{Named, axes, spot, tip, top};
use super::ink::Ink;
use super::setting::stamp;
use super::sheet::{Area, Head, Key, SIDE, Type, part, sheet, stroke, word};
use super::stack::{Bar, PARTS, bars, typical};
use super::text::table;
use super::{Case, Plot, PlotError, blank, paper::U, read, twin, units};

/// The nodes a rank holds, as dots.
const NODES: [(&str, &str, Ink); 3] = [
    ("owned nodes", "owned_nodes", Ink::OWNED),
    ("halo nodes", "halo_nodes", Ink::HALO),
    ("train nodes", "train_nodes", Ink::TRAIN),
];

/// One rank: a typical epoch of its own, and the nodes it holds.
struct Load {
    rank: u32,
    epoch: Bar,
    nodes: [f64; 3],
}

impl Load {
    fn compute(&self) -> f64 {
        self.epoch.parts[0]
    }
}

/// Bars of where each rank's time went, dots for the nodes it holds; `case` carries a `ranks` frame.
///
/// A bar is the mean over the middle half of the rank's epochs by wall time, warm-up left out, so that its parts
/// add up to what the rank took. The imbalance is the largest compute time over the mean: 1.00 is perfect balance.
///
/// # Errors
/// A frame without `rank`, `epoch`, `wall_ms` or `compute_ms`.
pub fn balance(case: &Case) -> Result<Plot, PlotError> {
    let title = format!("Load of each rank, {}", case.setting.data_label());
    if case.frame.height() == 0 {
        let why = "No rank has reported an epoch yet.";
        return blank(&title, why, &[&case.setting]);
    }
    let loads = loads(case)?;
    let has = Has::of(&loads);
    let note = verdict(&loads);
    let foot = stamp(&[&case.setting]);
    let head = Head {
        title: title.clone(),
        subtitle: note.clone(),
        desc: "Where the time of a typical epoch went for each rank, with node counts".into(),
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

/// What there is to be drawn.
struct Has {
    parts: [bool; 5],
    nodes: [bool; 3],
}

impl Has {
    fn of(loads: &[Load]) -> Has {
        Has {
            parts: std::array::from_fn(|p| loads.iter().any(|l| l.epoch.parts[p] > 0.0)),
            nodes: std::array::from_fn(|k| loads.iter().any(|l| l.nodes[k].is_finite())),
        }
    }

    fn parts(&self) -> impl Iterator<Item = usize> {
        (0..PARTS.len()).filter(|p| self.parts[*p])
    }
}

fn loads(case: &Case) -> Result<Vec<Load>, PlotError> {
    let frame = &case.frame;
    let rank = read::need(frame, "ranks", "rank")?;
    read::need(frame, "ranks", "compute_ms")?;
    let nodes: Vec<Option<Vec<f64>>> = NODES.iter().map(|n| read::maybe(frame, n.1)).collect();
    let (_, bars) = bars(frame, "ranks")?;
    let known = rank.iter().filter(|r| r.is_finite());
    let mut ids: Vec<u32> = known.map(|r| *r as u32).collect();
    ids.sort_unstable();
    ids.dedup();
    let load = |id: u32| {
        let rows = || (0..rank.len()).filter(|i| rank[*i] == f64::from(id));
        let own: Vec<Bar> = rows().map(|i| bars[i].clone()).collect();
        let held = |v: &Option<Vec<f64>>| match v {
            Some(v) => units::median(rows().map(|i| v[i])),
            None => f64::NAN,
        };
        Load {
            rank: id,
            epoch: typical(&own),
            nodes: std::array::from_fn(|k| held(&nodes[k])),
        }
    };
    Ok(ids.into_iter().map(load).collect())
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let known: Vec<f64> = values.filter(|v| v.is_finite()).collect();
    known.iter().sum::<f64>() / known.len() as f64
}

/// Ratio and slowest rank in words.
fn verdict(loads: &[Load]) -> String {
    let known = loads.iter().filter(|l| l.compute().is_finite());
    let Some(slowest) = known.max_by(|a, b| a.compute().total_cmp(&b.compute())) else {
        return "no compute time was recorded".into();
    };
    if loads.len() == 1 {
        let ms = units::ms(slowest.compute());
        return format!("one rank, so nothing to balance · compute {ms} an epoch");
    }
    let ratio = slowest.compute() / mean(loads.iter().map(Load::compute));
    format!(
        "max/mean compute {ratio:.2} · most is rank {} with {} an epoch · mean of the middle half of epochs",
        slowest.rank,
        units::ms(slowest.compute())
    )
}

fn legend(has: &Has) -> Vec<(Key, String)> {
    let parts = has.parts().map(|p| (Key::Box(PARTS[p].2), PARTS[p].0));
    let mut legend: Vec<(Key, String)> = parts.map(|(key, name)| (key, name.to_owned())).collect();
    legend.push((Key::Line(Ink::line(1)), "mean compute".to_owned()));
    let dots = NODES.iter().zip(has.nodes).filter(|(_, has)| *has);
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

fn draw(area: &Area<'_>, loads: &[Load], has: &Has) -> Result<(), PlotError> {
    let n = loads.len() as f64;
    let high = top(loads.iter().map(|l| l.epoch.sum()));
    let most = top(loads.iter().flat_map(|l| l.nodes));
    let dots = has.nodes.contains(&true);
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
        name: "wall time of a typical epoch (ms)",
        ticks: 6,
        lines: true,
        whole: false,
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
        let mut base = 0.0;
        for p in has.parts().filter(|p| load.epoch.parts[*p] > 0.0) {
            let ms = load.epoch.parts[p];
            let rect = [(x0, base), (x1, base + ms)];
            let fill = Rectangle::new(rect, PARTS[p].2.filled());
            let rim = Rectangle::new(rect, stroke(Ink::TEXT, 6));
            chart.draw_series([fill, rim]).map_err(PlotError::draw)?;
            let said = format!("rank {}: {} {}", load.rank, PARTS[p].0, units::ms(ms));
            tip(&chart, area, rect, &said)?;
            base += ms;
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
    let average = mean(loads.iter().map(Load::compute));
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

fn numbers(loads: &[Load], has: &Has) -> String {
    let average = mean(loads.iter().map(Load::compute));
    let parts: Vec<String> = has.parts().map(|p| format!("{} ms", PARTS[p].0)).collect();
    let mut head = vec!["rank"];
    head.extend(parts.iter().map(String::as_str));
    head.extend(["wall ms", "compute/mean"]);
    let kept: Vec<usize> = (0..3).filter(|k| has.nodes[*k]).collect();
    head.extend(kept.iter().map(|k| NODES[*k].0));
    let number = |v: f64| match v.is_finite() {
        true => format!("{v:.3}"),
        false => "-".to_owned(),
    };
    let row = |load: &Load| {
        let mut row = vec![load.rank.to_string()];
        row.extend(has.parts().map(|p| number(load.epoch.parts[p])));
        row.push(number(load.epoch.wall));
        row.push(number(load.compute() / average));
        row.extend(kept.iter().map(|k| units::count(load.nodes[*k])));
        row
    };
    let rows: Vec<Vec<String>> = loads.iter().map(row).collect();
    table(&head, &rows)
}
