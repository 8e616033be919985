//! A frame as an HTML table: escaped, themed by the page, never silently cut.

use std::fmt::Write;

use polars::prelude::{AnyValue, DataFrame, DataType};

use crate::plot::escape;

/// Frames up to this many rows are shown whole.
const WHOLE: usize = 20;
/// Rows shown from each end of a longer frame.
const ENDS: usize = 5;
/// Columns shown at most.
const COLUMNS: usize = 40;
/// Characters of a text cell shown at most; the whole text is in its tooltip.
const TEXT: usize = 80;

/// `frame` as an HTML fragment without script or fixed colours.
///
/// Frames of up to 20 rows and 40 columns are whole; of longer ones the first and last five rows
/// are shown and the caption says so.
pub fn df_html(frame: &DataFrame) -> String {
    let (height, width) = frame.shape();
    let columns = &frame.columns()[..width.min(COLUMNS)];
    let rows: Vec<Option<usize>> = if height <= WHOLE {
        (0..height).map(Some).collect()
    } else {
        let tail = (height - ENDS..height).map(Some);
        (0..ENDS).map(Some).chain([None]).chain(tail).collect()
    };
    let mut out = String::from(
        "<div style=\"overflow-x:auto\"><table class=\"dataframe halobook\" style=\"border-collapse:collapse;color:inherit;background:transparent;font-variant-numeric:tabular-nums\">\n<thead><tr>",
    );
    let put = |out: &mut String, args: std::fmt::Arguments<'_>| {
        out.write_fmt(args)
            .expect("writing to a String cannot fail");
    };
    for column in columns {
        put(
            &mut out,
            format_args!(
                "<th scope=\"col\" style=\"text-align:{};border-bottom:1px solid currentColor;padding:2px 8px\">{}<br><small style=\"font-weight:normal;opacity:.7\">{}</small></th>",
                align(column.dtype()),
                escape(column.name()),
                escape(&column.dtype().to_string())
            ),
        );
    }
    out += "</tr></thead>\n<tbody>\n";
    for row in rows {
        out += "<tr>";
        for column in columns {
            let side = align(column.dtype());
            let cell = match row {
                None => "<span style=\"opacity:.6\">⋮</span>".to_owned(),
                Some(row) => match column.get(row) {
                    Ok(value) => cell(&value),
                    Err(_) => String::new(),
                },
            };
            put(
                &mut out,
                format_args!(
                    "<td style=\"text-align:{side};padding:2px 8px;white-space:nowrap\">{cell}</td>"
                ),
            );
        }
        out += "</tr>\n";
    }
    put(
        &mut out,
        format_args!(
            "</tbody></table>\n<small style=\"opacity:.75\">{}</small></div>\n",
            caption(height, width)
        ),
    );
    out
}

/// What a longer frame's text leaves out, and how to get it; nothing of one that is shown whole.
pub(crate) fn left_out(frame: &DataFrame) -> String {
    let (height, width) = frame.shape();
    match height > WHOLE {
        true => format!("{}\n", caption(height, width)),
        false => String::new(),
    }
}

/// What is shown and what is not.
fn caption(height: usize, width: usize) -> String {
    let plural = |n: usize, word: &str| format!("{n} {word}{}", if n == 1 { "" } else { "s" });
    let rows = match height {
        n if n > WHOLE => format!("showing {} of {n} rows", 2 * ENDS),
        n => plural(n, "row"),
    };
    let columns = match width {
        n if n > COLUMNS => format!("{COLUMNS} of {n} columns: select() the others"),
        n => plural(n, "column"),
    };
    let more = match height > WHOLE {
        true => format!("; slice({ENDS}, {WHOLE}) shows the next rows"),
        false => String::new(),
    };
    format!("{rows} × {columns}{more}")
}

fn align(kind: &DataType) -> &'static str {
    if kind.is_numeric() { "right" } else { "left" }
}

fn cell(value: &AnyValue<'_>) -> String {
    match value {
        AnyValue::Null => "<span style=\"opacity:.5\">null</span>".to_owned(),
        AnyValue::Float64(v) => float(*v),
        AnyValue::Float32(v) => float(f64::from(*v)),
        AnyValue::String(text) => words(text),
        AnyValue::StringOwned(text) => words(text),
        other => words(&other.to_string()),
    }
}

fn words(text: &str) -> String {
    match text.char_indices().nth(TEXT) {
        None => escape(text),
        Some((cut, _)) => format!(
            "<span title=\"{}\">{}…</span>",
            escape(text),
            escape(&text[..cut])
        ),
    }
}

/// Six significant digits, no trailing zeros beyond the first decimal.
fn float(value: f64) -> String {
    if !value.is_finite() || value == 0.0 {
        return if value == 0.0 {
            "0.0".into()
        } else {
            value.to_string()
        };
    }
    let size = value.abs().log10().floor() as i32;
    if !(-4..9).contains(&size) {
        return format!("{value:.5e}");
    }
    let text = format!("{value:.*}", (5 - size).max(1) as usize);
    let cut = text.trim_end_matches('0');
    if cut.ends_with('.') {
        format!("{cut}0")
    } else {
        cut.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use polars::prelude::*;

    #[test]
    fn short_frames_are_whole_and_escaped() {
        let frame = df!("<b>" => ["<script>alert(1)</script>", "a&b"], "x" => [Some(1.5), None])
            .expect("columns have equal lengths");
        let html = df_html(&frame);
        assert!(!html.contains("<script>") && !html.contains("<b>"));
        assert!(html.contains("&lt;script&gt;") && html.contains("a&amp;b"));
        assert!(html.contains("text-align:right") && html.contains(">null<"));
        assert!(html.contains("2 rows × 2 columns"));
        assert_eq!(html.matches("<tr>").count(), 3);
    }

    #[test]
    fn long_frames_say_what_is_missing() {
        let frame =
            df!("n" => (0..200_i64).collect::<Vec<_>>()).expect("one column is always a frame");
        let html = df_html(&frame);
        assert!(html.contains("showing 10 of 200 rows") && html.contains(">199<"));
        assert_eq!(html.matches("<tr>").count(), 12);
        assert!(df_html(&DataFrame::empty()).contains("0 rows × 0 columns"));
    }

    #[test]
    fn floats_read_well() {
        let shown = [0.1 + 0.2, 1234.5678, 1e-9, 1e12, f64::NAN, 5.0, 123456789.0].map(float);
        assert_eq!(
            shown,
            [
                "0.3",
                "1234.57",
                "1.00000e-9",
                "1.00000e12",
                "NaN",
                "5.0",
                "123456789.0"
            ]
        );
    }
}
