//! A plotters backend that writes SVG whose colours are roles ([`Ink`]).
//!
//! plotters counts in whole pixels; here one of its units is a tenth of a pixel ([`U`]), so that
//! 200 bars in 700 px keep equal widths. No font is read: text is measured by a small table.

use std::convert::Infallible;
use std::fmt::Write;

use plotters_backend::text_anchor::{HPos, VPos};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind,
    FontStyle, FontTransform,
};

use super::ink::Ink;

/// plotters units per pixel.
pub(crate) const U: i32 = 10;

type Done = Result<(), DrawingErrorKind<Infallible>>;

/// The page being written.
pub(crate) struct Paper<'a> {
    out: &'a mut String,
    /// In plotters units.
    size: (u32, u32),
    hatch: String,
}

impl<'a> Paper<'a> {
    /// Appends elements to `out`; `size` in px; `hatch` is the id of the hatch pattern.
    pub fn new(out: &'a mut String, size: (u32, u32), hatch: String) -> Self {
        let size = (size.0 * U as u32, size.1 * U as u32);
        Self { out, size, hatch }
    }

    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        self.out
            .write_fmt(text)
            .expect("writing to a String cannot fail");
    }

    fn alpha(color: BackendColor) -> String {
        if color.alpha < 1.0 {
            format!(" opacity=\"{}\"", (color.alpha * 100.0).round() / 100.0)
        } else {
            String::new()
        }
    }

    /// Attributes of an area or of an outline.
    fn paint<S: BackendStyle>(&self, style: &S, fill: bool) -> String {
        let color = style.color();
        let ink = Ink::of(color);
        let (id, tone, alpha) = (ink.id(), ink.tone(), Self::alpha(color));
        if fill && ink == Ink::OTHER {
            // No class: a style rule would win over the pattern.
            format!("fill=\"url(#{})\"{alpha}", self.hatch)
        } else if fill {
            format!("class=\"hb-f{id}\" fill=\"{}\"{alpha}", tone.light)
        } else {
            let width = px(style.stroke_width() as i32);
            let dash = match tone.dash {
                "" => String::new(),
                dash => format!(" stroke-dasharray=\"{dash}\""),
            };
            let light = tone.light;
            format!(
                "class=\"hb-s{id}\" fill=\"none\" stroke=\"{light}\" stroke-width=\"{width}\"{dash}{alpha}"
            )
        }
    }

    fn points(path: impl IntoIterator<Item = BackendCoord>) -> String {
        let mut points = String::new();
        for (x, y) in path {
            if !points.is_empty() {
                points.push(' ');
            }
            points.push_str(&px(x));
            points.push(',');
            points.push_str(&px(y));
        }
        points
    }
}

/// Tenths of a pixel as an SVG number.
fn px(tenths: i32) -> String {
    if tenths % U == 0 {
        (tenths / U).to_string()
    } else {
        format!("{:.1}", f64::from(tenths) / f64::from(U))
    }
}

/// Width of `text` in the units of `size`, by the proportions of DejaVu Sans: the widest of the
/// faces a reader is likely to have, so that what fits here fits anywhere.
pub(crate) fn text_width(text: &str, size: f64) -> f64 {
    let em: f64 = text
        .chars()
        .map(|c| match c {
            'i' | 'j' | 'l' | 'I' | '\'' => 0.28,
            '.' | ',' | ' ' | '·' | ':' | ';' | '|' | '-' | '!' => 0.36,
            'f' | 't' | 'r' | '(' | ')' | '[' | ']' | '/' => 0.40,
            'm' | 'w' | 'M' | 'W' | '%' | '@' | '→' | '=' | '+' | '<' | '>' => 0.92,
            c if c.is_ascii_uppercase() => 0.70,
            c if c.is_ascii() => 0.625,
            _ => 0.80,
        })
        .sum();
    em * size
}

/// `text` escaped for XML text and attributes; control characters XML forbids are dropped.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\u{fffe}' | '\u{ffff}' => {}
            c if (c as u32) < 0x20 && !matches!(c, '\t' | '\n' | '\r') => {}
            c => out.push(c),
        }
    }
    out
}

impl DrawingBackend for Paper<'_> {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        self.size
    }

    fn ensure_prepared(&mut self) -> Done {
        Ok(())
    }

    fn present(&mut self) -> Done {
        Ok(())
    }

    fn draw_pixel(&mut self, point: BackendCoord, color: BackendColor) -> Done {
        let end = (point.0 + U, point.1 + U);
        self.draw_rect(point, end, &color, true)
    }

    fn draw_line<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
    ) -> Done {
        if style.color().alpha > 0.0 {
            let paint = self.paint(style, false);
            let ((x1, y1), (x2, y2)) = ((px(from.0), px(from.1)), (px(to.0), px(to.1)));
            self.put(format_args!(
                "<line x1=\"{x1}\" y1=\"{y1}\" x2=\"{x2}\" y2=\"{y2}\" {paint}/>\n"
            ));
        }
        Ok(())
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        upper_left: BackendCoord,
        bottom_right: BackendCoord,
        style: &S,
        fill: bool,
    ) -> Done {
        let (x0, x1) = order(upper_left.0, bottom_right.0);
        let (y0, y1) = order(upper_left.1, bottom_right.1);
        if style.color().alpha > 0.0 && x1 > x0 && y1 > y0 {
            let paint = self.paint(style, fill);
            let (x, y, w, h) = (px(x0), px(y0), px(x1 - x0), px(y1 - y0));
            self.put(format_args!(
                "<rect x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" {paint}/>\n"
            ));
        }
        Ok(())
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        path: I,
        style: &S,
    ) -> Done {
        let points = Self::points(path);
        if style.color().alpha > 0.0 && !points.is_empty() {
            let paint = self.paint(style, false);
            self.put(format_args!(
                "<polyline points=\"{points}\" stroke-linejoin=\"round\" {paint}/>\n"
            ));
        }
        Ok(())
    }

    fn draw_circle<S: BackendStyle>(
        &mut self,
        center: BackendCoord,
        radius: u32,
        style: &S,
        fill: bool,
    ) -> Done {
        if style.color().alpha > 0.0 {
            let paint = self.paint(style, fill);
            let (x, y, r) = (px(center.0), px(center.1), px(radius as i32));
            self.put(format_args!(
                "<circle cx=\"{x}\" cy=\"{y}\" r=\"{r}\" {paint}/>\n"
            ));
        }
        Ok(())
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        vert: I,
        style: &S,
    ) -> Done {
        let points = Self::points(vert);
        if style.color().alpha > 0.0 && !points.is_empty() {
            let paint = self.paint(style, true);
            self.put(format_args!("<polygon points=\"{points}\" {paint}/>\n"));
        }
        Ok(())
    }

    fn draw_text<S: BackendTextStyle>(
        &mut self,
        text: &str,
        style: &S,
        (x, y): BackendCoord,
    ) -> Done {
        let color = style.color();
        if color.alpha <= 0.0 || text.is_empty() {
            return Ok(());
        }
        if let Some((size, tip)) = hover_of(text, color) {
            let (x, y, [w, h]) = (px(x), px(y), size);
            self.put(format_args!(
                "<rect x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" fill=\"none\" pointer-events=\"all\">\
                 <title>{}</title></rect>\n",
                escape(tip)
            ));
            return Ok(());
        }
        let anchor = match style.anchor().h_pos {
            HPos::Left => "start",
            HPos::Right => "end",
            HPos::Center => "middle",
        };
        let drop = match style.anchor().v_pos {
            VPos::Top => 0.78,
            VPos::Center => 0.35,
            VPos::Bottom => -0.22,
        };
        let size = style.size() / f64::from(U);
        let turn = match style.transform() {
            FontTransform::None => String::new(),
            FontTransform::Rotate90 => format!(" transform=\"rotate(90,{},{})\"", px(x), px(y)),
            FontTransform::Rotate180 => format!(" transform=\"rotate(180,{},{})\"", px(x), px(y)),
            FontTransform::Rotate270 => format!(" transform=\"rotate(270,{},{})\"", px(x), px(y)),
        };
        let weight = match style.style() {
            FontStyle::Bold => " font-weight=\"600\"",
            _ => "",
        };
        let (paint, text) = (self.paint(&color, true), escape(text));
        self.put(format_args!(
            "<text x=\"{}\" y=\"{}\" dy=\"{:.1}\" text-anchor=\"{anchor}\" font-size=\"{size}\"{weight}{turn} {paint}>{text}</text>\n",
            px(x),
            px(y),
            drop * size,
        ));
        Ok(())
    }

    fn estimate_text_size<S: BackendTextStyle>(
        &self,
        text: &str,
        style: &S,
    ) -> Result<(u32, u32), DrawingErrorKind<Infallible>> {
        let size = style.size();
        Ok((text_width(text, size).ceil() as u32, size.ceil() as u32))
    }
}

/// What a pointer reads is handed through plotters as text in [`Ink::TIP`], behind the size of the place: it knows
/// no such thing.
pub(crate) fn hover_text((width, height): (i32, i32), tip: &str) -> String {
    format!("{width} {height} {tip}")
}

/// Size and words of such a text.
fn hover_of(text: &str, color: BackendColor) -> Option<([i32; 2], &str)> {
    if Ink::of(color) != Ink::TIP {
        return None;
    }
    let mut parts = text.splitn(3, ' ');
    let mut size = || parts.next()?.parse().ok();
    Some(([size()?, size()?], parts.next()?))
}

fn order(a: i32, b: i32) -> (i32, i32) {
    (a.min(b), a.max(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_foreign_leaves_the_text() {
        assert_eq!(
            escape("<script>\"&'\u{0}"),
            "&lt;script&gt;&quot;&amp;&#39;"
        );
    }

    #[test]
    fn tenths_print_short() {
        assert_eq!(
            (px(120), px(125), px(-5)),
            ("12".into(), "12.5".into(), "-0.5".into())
        );
    }
}
