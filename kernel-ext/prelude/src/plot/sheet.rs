//! The sheet a plot is drawn on: card, title, legend, foot, and the SVG around them.
//!
//! The card is part of the figure, so that words have their contrast on any page; its dark
//! twin is chosen by the reader's system. Nothing outside the file is referred to.

use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, IntoDrawingArea};
use plotters::element::{Circle, PathElement, Rectangle};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontStyle, FontTransform, IntoFont, ShapeStyle, TextStyle};

use super::PlotError;
use super::ink::Ink;
use super::paper::{Paper, U, escape, hover_text, text_width};
use super::saved;

/// A part of the sheet.
pub(crate) type Area<'a> = DrawingArea<Paper<'a>, Shift>;

/// The words around a plot.
pub(crate) struct Head {
    pub title: String,
    pub subtitle: String,
    /// Lines at the foot.
    pub foot: Vec<String>,
    /// The plot in words, for a screen reader.
    pub desc: String,
    pub legend: Vec<(Key, String)>,
}

/// A legend's sample.
#[derive(Clone, Copy)]
pub(crate) enum Key {
    Box(Ink),
    Line(Ink),
    Dot(Ink),
    Ring(Ink),
    Dashed(Ink),
}

/// The middle of the first row of the legend, px.
pub(super) const LEGEND: i32 = 72;
/// Margin left and right, px.
pub(crate) const SIDE: i32 = 22;
/// How much wider bold letters are than [`text_width`] says.
const BOLD: f64 = 1.13;
pub(super) const FAMILY: &str = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif";

/// Draws a sheet of `width` px whose body is `height` px; `body` draws into that middle part.
pub(crate) fn sheet(
    head: &Head,
    (width, height): (i32, i32),
    body: impl FnOnce(&Area<'_>) -> Result<(), PlotError>,
) -> Result<String, PlotError> {
    let rows = legend_rows(&head.legend, width - 2 * SIDE);
    let top = 62 + 20 * rows.len() as i32 + 6;
    let lines = head.foot.iter();
    let lines: Vec<String> = lines
        .flat_map(|line| wrap(line, 11.0, f64::from(width - 2 * SIDE)))
        .collect();
    let total = top + height + foot_height(lines.len());
    let id = format!(
        "hb{:08x}",
        fnv(&[&head.title, &head.desc, &head.foot.join("\n")])
    );
    let text_room = f64::from(width - 2 * SIDE);
    let size = (width as u32, total as u32);
    let words = section(size, &id, |root| {
        // A narrow sheet has smaller words before it has fewer.
        let fits = |size: &i32| text_width(&head.title, f64::from(*size) * BOLD) <= text_room;
        let size = [17, 15, 13].into_iter().find(fits).unwrap_or(13);
        let title = fit(&head.title, f64::from(size) * BOLD, text_room);
        word(root, &title, (SIDE, 28), Type::new(size).bold())?;
        word(
            root,
            &fit(&head.subtitle, 12.5, text_room),
            (SIDE, 48),
            Type::new(12).faint(),
        )
    })?;
    let drawing = section(size, &id, |root| {
        for (r, row) in rows.iter().enumerate() {
            legend_row(root, row, LEGEND + 20 * r as i32)?;
        }
        body(&part(root, (0, top), (width, height)))
    })?;
    let foot = section(size, &id, |root| {
        for (i, line) in lines.iter().enumerate() {
            let at = (SIDE, top + height + 14 + 15 * i as i32);
            word(root, &fit(line, 11.0, text_room), at, Type::new(11).faint())?;
        }
        Ok(())
    })?;
    let mut out = opening(head, &id, width, total);
    out.push_str(&saved::framed(&words));
    out.push_str(&drawing);
    out.push_str(&saved::framed(&foot));
    out.push_str("</svg>\n");
    Ok(out)
}

/// Height of a footer of so many lines, px.
pub(super) fn foot_height(lines: usize) -> i32 {
    14 + 15 * lines as i32
}

/// Some elements of the sheet `id`, `size` px.
fn section(
    size: (u32, u32),
    id: &str,
    draw: impl FnOnce(&Area<'_>) -> Result<(), PlotError>,
) -> Result<String, PlotError> {
    let mut out = String::new();
    let root = Paper::new(&mut out, size, format!("{id}h")).into_drawing_area();
    draw(&root)?;
    root.present().map_err(PlotError::draw)?;
    drop(root);
    Ok(out)
}

/// Everything before the drawing: names for readers, palette, hatch, card.
fn opening(head: &Head, id: &str, width: i32, height: i32) -> String {
    let mut dark = String::new();
    for ink in Ink::all() {
        let (n, tone) = (ink.id(), ink.tone().dark);
        dark += &format!(".hb-f{n}{{fill:{tone}}}.hb-s{n}{{stroke:{tone}}}");
    }
    let (card, rim, other) = (Ink::CARD, Ink::GRID, Ink::OTHER);
    let whole = format!(
        "<rect x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"8\" class=\"hb-f{} hb-s{}\" fill=\"{}\" stroke=\"{}\"/>\n",
        width - 1,
        height - 1,
        card.id(),
        rim.id(),
        card.tone().light,
        rim.tone().light
    );
    format!(
        concat!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{w}\" height=\"{h}\" viewBox=\"0 0 {w} {h}\" ",
            "role=\"img\" aria-labelledby=\"{id}t {id}d\" font-family=\"{family}\"{style}>\n",
            "<title id=\"{id}t\">{title}</title>\n<desc id=\"{id}d\">{desc}</desc>\n",
            "<style>@media screen and (prefers-color-scheme:dark){{{dark}}}</style>\n",
            "<defs><pattern id=\"{id}h\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">",
            "<rect width=\"5\" height=\"5\" class=\"hb-f{c}\" fill=\"{cl}\"/><line x1=\"0\" y1=\"0\" x2=\"0\" y2=\"5\" class=\"hb-s{o}\" stroke=\"{ol}\" stroke-width=\"3\"/></pattern></defs>\n",
            "{card}"
        ),
        w = width,
        h = height,
        style = saved::ON_A_PAGE,
        card = saved::framed(&whole),
        id = id,
        family = FAMILY,
        title = escape(&head.title),
        desc = escape(&format!(
            "{} {}. {}",
            head.subtitle,
            head.desc,
            head.foot.join(". ")
        )),
        dark = dark,
        c = card.id(),
        cl = card.tone().light,
        o = other.id(),
        ol = other.tone().light,
    )
}

/// Size, weight, role and anchor of some words.
#[derive(Clone, Copy)]
pub(crate) struct Type {
    size: i32,
    bold: bool,
    ink: Ink,
    pos: Pos,
    turned: bool,
}

impl Type {
    /// `size` in px, left-aligned, resting on its middle line.
    pub fn new(size: i32) -> Self {
        Self {
            size,
            bold: false,
            ink: Ink::TEXT,
            pos: Pos::new(HPos::Left, VPos::Center),
            turned: false,
        }
    }

    pub fn bold(mut self) -> Self {
        self.bold = true;
        self
    }

    pub fn ink(mut self, ink: Ink) -> Self {
        self.ink = ink;
        self
    }

    pub fn faint(self) -> Self {
        self.ink(Ink::FAINT)
    }

    pub fn centered(mut self) -> Self {
        self.pos.h_pos = HPos::Center;
        self
    }

    pub fn right(mut self) -> Self {
        self.pos.h_pos = HPos::Right;
        self
    }

    /// Reads upwards.
    pub fn turned(mut self) -> Self {
        self.turned = true;
        self
    }

    /// As plotters wants it.
    pub fn style(self) -> TextStyle<'static> {
        let font = ("sans-serif", f64::from(self.size * U)).into_font();
        let font = font.style(if self.bold {
            FontStyle::Bold
        } else {
            FontStyle::Normal
        });
        let font = font.transform(if self.turned {
            FontTransform::Rotate270
        } else {
            FontTransform::None
        });
        TextStyle {
            font,
            color: self.ink.to_backend_color(),
            pos: self.pos,
        }
    }
}

/// Words at `at`, in px of `area`.
pub(crate) fn word(
    area: &Area<'_>,
    text: &str,
    at: (i32, i32),
    face: Type,
) -> Result<(), PlotError> {
    area.draw_text(text, &face.style(), (at.0 * U, at.1 * U))
        .map_err(PlotError::draw)
}

/// What a pointer over a place reads, in px of `area`.
pub(crate) fn hover(
    area: &Area<'_>,
    at: (i32, i32),
    size: (i32, i32),
    text: &str,
) -> Result<(), PlotError> {
    let mut style = Type::new(1).ink(Ink::TIP).style();
    style.pos = Pos::new(HPos::Left, VPos::Top);
    area.draw_text(&hover_text(size, text), &style, (at.0 * U, at.1 * U))
        .map_err(PlotError::draw)
}

/// The part of `area` at `at`, `size` px.
pub(crate) fn part<'a>(area: &Area<'a>, at: (i32, i32), size: (i32, i32)) -> Area<'a> {
    area.clone()
        .shrink((at.0 * U, at.1 * U), (size.0 * U, size.1 * U))
}

/// A stroke of `width` tenths of a px.
pub(crate) fn stroke(ink: Ink, width: u32) -> ShapeStyle {
    ShapeStyle {
        color: ink.to_rgba(),
        filled: false,
        stroke_width: width,
    }
}

/// `text` cut to `room` px with an ellipsis.
pub(crate) fn fit(text: &str, size: f64, room: f64) -> String {
    if text_width(text, size) <= room {
        return text.to_owned();
    }
    let mut kept: String = text.to_owned();
    while !kept.is_empty() && text_width(&kept, size) + size > room {
        kept.pop();
    }
    kept.trim_end().to_owned() + "…"
}

/// `text` broken at spaces into lines of `room` px; a longer word is cut.
fn wrap(text: &str, size: f64, room: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let word = fit(word, size, room);
        match lines.last_mut() {
            Some(line) if text_width(&format!("{line} {word}"), size) <= room => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}

const SAMPLE: i32 = 26;

fn entry_width(label: &str) -> i32 {
    SAMPLE + 6 + text_width(label, 12.0).ceil() as i32 + 20
}

/// Breaks the legend into rows that fit `room` px.
fn legend_rows(legend: &[(Key, String)], room: i32) -> Vec<Vec<(Key, String)>> {
    let mut rows: Vec<Vec<(Key, String)>> = Vec::new();
    let mut used = i32::MAX;
    for (key, label) in legend {
        let label = fit(label, 12.0, f64::from(room - SAMPLE - 30));
        let width = entry_width(&label);
        if used.saturating_add(width) > room + 20 {
            rows.push(Vec::new());
            used = 0;
        }
        used += width;
        rows.last_mut()
            .expect("a row was pushed")
            .push((*key, label));
    }
    rows
}

pub(super) fn legend_row(root: &Area<'_>, row: &[(Key, String)], y: i32) -> Result<(), PlotError> {
    let mut x = SIDE;
    for (key, label) in row {
        let (x0, x1, mid) = (x * U, (x + SAMPLE) * U, (x + SAMPLE / 2) * U);
        let box_at = [(mid - 8 * U, (y - 5) * U), (mid + 8 * U, (y + 5) * U)];
        let line = vec![(x0, y * U), (x1, y * U)];
        let drawn = match key {
            Key::Box(ink) => root
                .draw(&Rectangle::new(box_at, ink.filled()))
                .and_then(|()| root.draw(&Rectangle::new(box_at, stroke(Ink::TEXT, 6)))),
            Key::Dashed(ink) => root.draw(&Rectangle::new(box_at, stroke(*ink, 10))),
            Key::Line(ink) => root.draw(&PathElement::new(line, stroke(*ink, 22))),
            Key::Dot(ink) => root.draw(&Circle::new((mid, y * U), 4 * U, ink.filled())),
            Key::Ring(ink) => root.draw(&Circle::new((mid, y * U), 5 * U, stroke(*ink, 18))),
        };
        drawn.map_err(PlotError::draw)?;
        word(root, label, (x + SAMPLE + 6, y), Type::new(12))?;
        x += entry_width(label);
    }
    Ok(())
}

/// FNV-1a; ids in one page must differ, nothing more.
fn fnv(parts: &[&str]) -> u32 {
    let mut hash = 0x811c_9dc5_u32;
    for byte in parts.iter().flat_map(|p| p.bytes().chain([0])) {
        hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_words_are_cut_and_legends_wrap() {
        assert!(fit(&"x".repeat(500), 12.0, 100.0).ends_with('…'));
        assert_eq!(fit("short", 12.0, 100.0), "short");
        assert_eq!(wrap("one two three", 12.0, 60.0), ["one two", "three"]);
        let many: Vec<_> = (0..20)
            .map(|i| (Key::Box(Ink::TEXT), format!("series {i}")))
            .collect();
        let rows = legend_rows(&many, 500);
        assert!(rows.len() > 2 && rows.iter().map(Vec::len).sum::<usize>() == 20);
        assert!(legend_rows(&[], 500).is_empty());
    }

    /// An `a` of DejaVu Sans Bold is 0.675 em wide.
    #[test]
    fn bold_titles_end_before_the_card_does() {
        let head = Head {
            title: "a".repeat(200),
            subtitle: String::new(),
            desc: String::new(),
            legend: Vec::new(),
            foot: Vec::new(),
        };
        let svg = sheet(&head, (880, 50), |_| Ok(())).expect("an empty sheet");
        let (title, _) = svg.split_once('…').expect("the title is cut");
        let shown = title.chars().rev().take_while(|&c| c == 'a').count();
        let end = f64::from(SIDE) + 0.675 * 13.0 * shown as f64 + 13.0;
        assert!(shown > 50 && end <= 880.0, "{shown} letters end at {end}");
    }
}
