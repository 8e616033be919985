//! The epoch table at the end of quickstart, from the JSON lines of `halobook frames`.

/// Columns of the `epochs` frame worth a place, with the decimals to print.
const COLUMNS: [(&str, usize); 9] = [
    ("epoch", 0),
    ("train_loss", 4),
    ("val_acc", 3),
    ("test_acc", 3),
    ("wall_ms", 2),
    ("compute_ms", 2),
    ("xfer_exposed_ms", 2),
    ("wait_ms", 2),
    ("bytes", 0),
];

/// The value of `key` in one flat JSON object, as it is written there.
pub fn field<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let quoted = format!("\"{key}\"");
    let (_, rest) = line.split_once(&quoted)?;
    let rest = rest.trim_start().strip_prefix(':')?.trim_start();
    match rest.strip_prefix('"') {
        Some(text) => text.split('"').next(),
        None => rest.split([',', '}']).next().map(str::trim),
    }
}

/// The first rows and the last `most` ones, aligned. Columns that no row has are left out.
pub fn epochs(lines: &str, most: usize) -> String {
    let rows: Vec<&str> = lines.lines().filter(|line| line.starts_with('{')).collect();
    let columns: Vec<_> = COLUMNS
        .iter()
        .filter(|(name, _)| rows.iter().any(|row| field(row, name).is_some()))
        .collect();
    if columns.is_empty() {
        return String::new();
    }
    let cell = |row: &str, name: &str, decimals: usize| match field(row, name) {
        Some(text) => match text.parse::<f64>() {
            Ok(value) => format!("{value:.decimals$}"),
            Err(_) => "-".into(),
        },
        None => "-".into(),
    };
    let names: Vec<String> = columns.iter().map(|(name, _)| (*name).into()).collect();
    let mut text = vec![names];
    let from = rows.len().saturating_sub(most);
    if from > 0 {
        text.push(
            columns
                .iter()
                .map(|(name, n)| cell(rows[0], name, *n))
                .collect(),
        );
        if from > 1 {
            text.push(vec!["…".into(); columns.len()]);
        }
    }
    for row in &rows[from..] {
        text.push(
            columns
                .iter()
                .map(|(name, n)| cell(row, name, *n))
                .collect(),
        );
    }
    let width = |at: usize| {
        let cells = text.iter().map(|row| row[at].chars().count());
        cells.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let padded: Vec<String> = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:>width$}"))
            .collect();
        padded.join("  ")
    };
    text.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_flat_object() {
        let line = r#"{"run_id":"2026","epoch": 3,"train_loss":0.5,"val_acc":null}"#;
        assert_eq!(field(line, "run_id"), Some("2026"));
        assert_eq!(field(line, "epoch"), Some("3"));
        assert_eq!(field(line, "val_acc"), Some("null"));
        assert_eq!(field(line, "bytes"), None);
    }

    #[test]
    fn the_first_and_the_last_epochs_are_shown() {
        let lines: Vec<String> = (0..10)
            .map(|epoch| format!(r#"{{"epoch":{epoch},"train_loss":1.5,"val_acc":null}}"#))
            .collect();
        let table = epochs(&lines.join("\n"), 2);
        let rows: Vec<&str> = table.lines().collect();
        assert_eq!(
            rows[0].split_whitespace().collect::<Vec<_>>(),
            ["epoch", "train_loss", "val_acc"]
        );
        assert_eq!(rows.len(), 5, "{table}");
        assert!(rows[1].trim_start().starts_with('0') && rows[4].trim_start().starts_with('9'));
        assert_eq!(epochs("", 2), "");
    }
}
