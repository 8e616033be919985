//! A frame for a terminal.

use polars::prelude::{AnyValue, Column, DataFrame};

/// A frame as aligned lines, all of them.
pub fn text(frame: &DataFrame) -> String {
    let names = frame.columns().iter().map(|c| c.name().to_string());
    let mut lines: Vec<Vec<String>> = vec![names.collect()];
    for row in 0..frame.height() {
        let cell = |column: &Column| match column.get(row) {
            Ok(AnyValue::Float64(x)) => short(&format!("{x:.3}")),
            Ok(AnyValue::Null) | Err(_) => String::new(),
            Ok(other) => other.str_value().into_owned(),
        };
        lines.push(frame.columns().iter().map(cell).collect());
    }
    let wide = |k: usize| {
        lines
            .iter()
            .map(|l| l[k].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..frame.width()).map(wide).collect();
    let line = |cells: &Vec<String>| {
        let padded = cells.iter().zip(&widths).map(|(c, &w)| format!("{c:<w$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    lines.iter().map(|l| line(l) + "\n").collect()
}

/// A number without the zeros at its end.
fn short(number: &str) -> String {
    number
        .trim_end_matches('0')
        .trim_end_matches('.')
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_numbers_short() {
        let columns = vec![
            Column::new("name".into(), ["a", "longer"]),
            Column::new("x".into(), [Some(10.0), None]),
            Column::new("ratio".into(), [0.5, 1.23456]),
        ];
        let frame = DataFrame::new(2, columns).expect("a frame");
        assert_eq!(
            text(&frame),
            "name    x   ratio\na       10  0.5\nlonger      1.235\n"
        );
    }
}
