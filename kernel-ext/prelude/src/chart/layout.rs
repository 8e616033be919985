//! The sheet of a chart: panels side by side with common axes.

use std::ops::Range;

use plotters::chart::ChartBuilder;

use super::gather::{Data, gather};
use super::{Chart, Mark, Spread, bars, boxes, heat, hist, points};
use crate::plot::axes::{self, Named, axes, spot};
use crate::plot::ink::Ink;
use crate::plot::paper::{U, text_width};
use crate::plot::sheet::{Area, Head, Key, SIDE, Type, fit, part, sheet, word};
use crate::plot::text::table;
use crate::plot::{Plot, PlotError, blank, digits, twin};

/// Width of a chart, px.
pub(super) const WIDTH: i32 = 880;
/// Most panels beside one another.
const ACROSS: usize = 3;
/// Height of a panel that stands alone, and of one among several, px.
const HEIGHTS: [i32; 2] = [330, 250];
/// Room left of a panel, px.
const LEFT: i32 = 62;

/// The axes that all panels share.
pub(super) struct Scales {
    pub x: Range<f64>,
    pub y: Range<f64>,
    /// Whether only whole numbers stand at the axes.
    pub whole: [bool; 2],
    /// Names of places of an axis that has no numbers; a place is one wide.
    pub places: Vec<String>,
}

/// A panel being drawn.
pub(super) struct Panel<'a, 'p, 'c> {
    pub chart: &'c mut axes::Chart<'a, 'p>,
    pub area: &'c Area<'p>,
    pub data: &'c Data,
    /// Its number.
    pub number: usize,
    pub spread: &'c Spread,
}

/// Draws `chart`.
pub(super) fn draw(chart: &Chart) -> Result<Plot, PlotError> {
    if chart.mark == Mark::Heat {
        return heat::draw(chart);
    }
    let data = gather(chart)?;
    let title = chart.title_or_own();
    if data.flat().next().is_none() {
        return blank(&title, "There is no number to draw.", &[]);
    }
    let bins = hist::bins(chart, &data);
    let scales = match chart.mark {
        Mark::Hist => hist::scales(&data, &bins),
        Mark::Bar => bars::scales(&data, &chart.spread),
        Mark::Box => boxes::scales(&data),
        _ => points::scales(&data, chart),
    };
    let repeats = data.repeats();
    let drawn = matches!(chart.mark, Mark::Line | Mark::Bar);
    let note = match (drawn && repeats > 1, &chart.spread) {
        (true, spread) => format!("{} of up to {repeats} rows", spread.words()),
        (false, Spread::Column(column)) if drawn => format!("bars of {column}"),
        _ => String::new(),
    };
    let foot = chart.foot();
    let head = Head {
        title: title.clone(),
        subtitle: note.clone(),
        desc: title.clone(),
        legend: legend(chart, &data),
        foot: foot.clone(),
    };
    let across = match data.panels.len() {
        4 => 2,
        n => n.min(ACROSS),
    };
    let wide = (WIDTH - 2 * SIDE) / across as i32;
    let high = HEIGHTS[usize::from(data.panels.len() > 1)];
    let rows = data.panels.len().div_ceil(across) as i32;
    let svg = sheet(&head, (WIDTH, high * rows), |area| {
        for (p, name) in data.panels.iter().enumerate() {
            let at = (
                SIDE + (p % across) as i32 * wide,
                (p / across) as i32 * high,
            );
            let area = part(area, at, (wide, high));
            let named = match &chart.facet {
                Some(column) => format!("{column} = {name}"),
                None => String::new(),
            };
            panel(
                &area,
                (wide, high),
                &named,
                chart,
                &scales,
                |chart_area| match chart.mark {
                    Mark::Hist => hist::draw(chart_area, p, &data, &bins, &area),
                    _ => {
                        let panel = Panel {
                            chart: chart_area,
                            area: &area,
                            data: &data,
                            number: p,
                            spread: &chart.spread,
                        };
                        match chart.mark {
                            Mark::Bar => bars::draw(panel),
                            Mark::Box => boxes::draw(panel),
                            Mark::Scatter => points::scatter(panel),
                            _ => points::lines(panel),
                        }
                    }
                },
            )?;
        }
        Ok(())
    })?;
    let rows = match chart.mark {
        Mark::Hist => hist::numbers(&data, &bins),
        _ => numbers(chart, &data),
    };
    let text = twin(&title, &[note], &rows, &foot);
    Ok(Plot { svg, text })
}

/// One panel with its axes; `draw` puts the marks in.
fn panel<'p>(
    area: &Area<'p>,
    (wide, high): (i32, i32),
    name: &str,
    of: &Chart,
    scales: &Scales,
    draw: impl FnOnce(&mut axes::Chart<'_, 'p>) -> Result<(), PlotError>,
) -> Result<(), PlotError> {
    let top = if name.is_empty() { 10 } else { 26 };
    let mut chart = ChartBuilder::on(area)
        .margin_top(top * U)
        .margin_right(14 * U)
        .x_label_area_size(44 * U)
        .y_label_area_size(LEFT * U)
        .build_cartesian_2d(scales.x.clone(), scales.y.clone())
        .map_err(PlotError::draw)?;
    let slot = (wide - LEFT - 14) / scales.places.len().max(1) as i32;
    let x = Named {
        name: "",
        ticks: if scales.places.is_empty() {
            (wide / 80).max(3) as usize
        } else {
            0
        },
        lines: false,
        whole: scales.whole[0],
    };
    let y_name = match of.mark {
        Mark::Hist => "rows",
        _ => &of.y,
    };
    let y = Named {
        name: y_name,
        ticks: 6,
        lines: true,
        whole: scales.whole[1],
    };
    axes(&mut chart, x, y)?;
    draw(&mut chart)?;
    let (_, base) = spot(&chart, area, scales.x.start, scales.y.start);
    // Where names would run into one another, some are left out.
    let widest = scales
        .places
        .iter()
        .map(|place| text_width(place, 11.0))
        .fold(0.0, f64::max);
    let every = ((widest.min(90.0) + 8.0) / f64::from(slot.max(1)))
        .ceil()
        .max(1.0) as usize;
    for (k, place) in scales.places.iter().enumerate().step_by(every) {
        let (px, _) = spot(&chart, area, k as f64 + 0.5, scales.y.start);
        let said = fit(place, 11.0, f64::from(slot * every as i32 - 6).max(24.0));
        word(
            area,
            &said,
            (px, base + 12),
            Type::new(11).faint().centered(),
        )?;
    }
    let middle = LEFT + (wide - LEFT - 14) / 2;
    word(area, &of.x, (middle, high - 12), Type::new(12).centered())?;
    word(
        area,
        &fit(name, 12.0, f64::from(wide - LEFT)),
        (LEFT, 12),
        Type::new(12).bold(),
    )
}

/// How a series is filled.
pub(super) fn fill(k: usize) -> Ink {
    let fills = [
        Ink::COMPUTE,
        Ink::TRANSFER,
        Ink::COPY,
        Ink::WAIT,
        Ink::HALO,
        Ink::TRAIN,
    ];
    fills[k % fills.len()]
}

fn legend(chart: &Chart, data: &Data) -> Vec<(Key, String)> {
    if chart.by.is_none() {
        return Vec::new();
    }
    let key = |k| match chart.mark {
        Mark::Line => Key::Line(Ink::line(k)),
        Mark::Scatter => Key::Dot(Ink::line(k)),
        _ => Key::Box(fill(k)),
    };
    let names = data.series.iter().enumerate();
    names
        .map(|(k, name)| (key(k), fit(name, 12.0, 240.0)))
        .collect()
}

/// Where numbers stand, a little room around them; from zero where zero is near.
pub(super) fn room(values: impl Iterator<Item = f64> + Clone) -> Range<f64> {
    let least = values.clone().fold(f64::INFINITY, f64::min);
    let most = values.fold(f64::NEG_INFINITY, f64::max);
    let wide = match most - least {
        wide if wide > 0.0 => wide,
        _ => most.abs().max(1.0),
    };
    let near = least >= 0.0 && least < 0.6 * most;
    let low = if near { 0.0 } else { least - 0.06 * wide };
    low..most + 0.08 * wide
}

fn numbers(chart: &Chart, data: &Data) -> String {
    let cell =
        |place: &super::gather::Place| match (place.values.len(), place.spread(&chart.spread)) {
            (_, None) => "-".to_owned(),
            (_, Some([low, middle, high])) if low < high => {
                format!("{} [{} to {}]", digits(middle), digits(low), digits(high))
            }
            (_, Some([_, middle, _])) => digits(middle),
        };
    let mut out = Vec::new();
    for (p, panel) in data.values.iter().enumerate() {
        let mut head = vec![chart.x.as_str()];
        let names = data.series.iter().map(String::as_str);
        head.extend(names.map(|name| {
            if name.is_empty() {
                chart.y.as_str()
            } else {
                name
            }
        }));
        let rows = data.places.iter().enumerate();
        let rows: Vec<Vec<String>> = rows
            .map(|(k, place)| {
                let cells = panel.iter().map(|series| cell(&series[k]));
                [place.clone()].into_iter().chain(cells).collect()
            })
            .filter(|row: &Vec<String>| row[1..].iter().any(|cell| cell != "-"))
            .take(MOST_ROWS)
            .collect();
        let name = match &chart.facet {
            Some(column) => format!("{column} = {}\n", data.panels[p]),
            None => String::new(),
        };
        out.push(name + &table(&head, &rows));
    }
    out.join("\n")
}

/// Most rows of a panel in words.
const MOST_ROWS: usize = 40;
