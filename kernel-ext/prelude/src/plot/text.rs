//! The text twin of a plot: a small Unicode table and sparklines.

/// A table: the first column left-aligned, the others right-aligned.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let cell = |row: &Vec<String>, c: usize| row.get(c).cloned().unwrap_or_default();
    let widths: Vec<usize> = (0..head.len())
        .map(|c| {
            let body = rows.iter().map(|row| cell(row, c).chars().count()).max();
            body.unwrap_or(0).max(head[c].chars().count())
        })
        .collect();
    let line = |cells: Vec<String>| {
        let padded: Vec<String> = cells
            .iter()
            .enumerate()
            .map(|(c, text)| {
                let fill = " ".repeat(widths[c].saturating_sub(text.chars().count()));
                match c {
                    0 => format!("{text}{fill}"),
                    _ => format!("{fill}{text}"),
                }
            })
            .collect();
        padded.join("  ").trim_end().to_owned() + "\n"
    };
    let mut out = line(head.iter().map(|h| (*h).to_owned()).collect());
    let rule: Vec<String> = widths.iter().map(|w| "─".repeat(*w)).collect();
    out += &(rule.join("──") + "\n");
    for row in rows {
        out += &line((0..head.len()).map(|c| cell(row, c)).collect());
    }
    out
}

/// At most `width` blocks between the smallest and the largest value; unknown ones are blank.
pub(crate) fn spark(values: &[f64], width: usize) -> String {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let finite = || values.iter().copied().filter(|v| v.is_finite());
    let (low, high) = (
        finite().fold(f64::INFINITY, f64::min),
        finite().fold(f64::NEG_INFINITY, f64::max),
    );
    let width = width.min(values.len());
    (0..width)
        .map(|i| {
            let at = if width == 1 {
                0
            } else {
                i * (values.len() - 1) / (width - 1)
            };
            let v = values[at];
            if !v.is_finite() {
                ' '
            } else if high <= low {
                BLOCKS[0]
            } else {
                let step = (v - low) / (high - low) * (BLOCKS.len() - 1) as f64;
                BLOCKS[(step.round() as usize).min(BLOCKS.len() - 1)]
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = vec![
            vec!["compute".into(), "5.2".into()],
            vec!["é".into(), "12.25".into()],
        ];
        assert_eq!(
            table(&["part", "ms"], &rows),
            "part        ms\n──────────────\ncompute    5.2\né        12.25\n"
        );
    }

    #[test]
    fn sparks_survive_odd_input() {
        assert_eq!(spark(&[0.0, f64::NAN, 1.0], 10), "▁ █");
        assert_eq!(spark(&[2.0, 2.0], 10), "▁▁");
        assert_eq!(spark(&[], 10), "");
        assert_eq!(spark(&[3.0, 9.0], 1), "▁");
    }
}
