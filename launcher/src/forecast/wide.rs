//! A plan as people read it: a line a rank, a column an item.

use super::size;
use gnn_core::record::rows::PlanRow;

/// The items in which ranks are compared, in the order of columns.
const ITEMS: [&str; 11] = [
    "graph",
    "features",
    "activations",
    "history",
    "offloaded",
    "halo",
    "device",
    "setup",
    "memory",
    "epoch_bytes",
    "epoch_time",
];

/// Columns of a strategy that has such a thing; without, they are left out.
const SOME: [&str; 3] = ["history", "offloaded", "device"];

/// Ranks of one number of ranks that have a line.
const RANKS: u32 = 16;

/// Plans in columns.
pub struct Wide {
    /// Names of columns.
    pub heads: Vec<&'static str>,
    /// A line a rank, of as many cells; `-` where nobody can say.
    pub lines: Vec<Vec<String>>,
    /// Ranks without a line.
    pub more: usize,
}

/// What the rows of a plan or a forecast say.
pub fn wide(rows: &[PlanRow]) -> Wide {
    let said = |name: &str| rows.iter().any(|row| row.item == name);
    let items: Vec<&'static str> = ITEMS
        .into_iter()
        .filter(|name| !SOME.contains(name) || said(name))
        .collect();
    let mut ranks: Vec<(u32, u32)> = rows.iter().map(|r| (r.ranks, r.rank)).collect();
    ranks.sort_unstable();
    ranks.dedup();
    let shown = ranks.iter().filter(|(_, rank)| *rank < RANKS);
    let lines = shown.map(|&(count, rank)| {
        let of = |item: &&str| {
            let mine = |r: &&PlanRow| (r.ranks, r.rank) == (count, rank) && r.item == *item;
            rows.iter().find(mine).map_or_else(|| "-".to_owned(), cell)
        };
        let names = [count.to_string(), rank.to_string()];
        names.into_iter().chain(items.iter().map(of)).collect()
    });
    let lines: Vec<Vec<String>> = lines.collect();
    Wide {
        more: ranks.len() - lines.len(),
        heads: ["ranks", "rank"].into_iter().chain(items).collect(),
        lines,
    }
}

fn cell(row: &PlanRow) -> String {
    let text = match row.unit.as_str() {
        "ms" => format!("{:.1} ms", row.value),
        _ => size(row.value as u64),
    };
    if row.fits { text } else { format!("{text} !") }
}

impl Wide {
    /// As text, each column as wide as its widest cell.
    pub fn text(&self) -> String {
        let widths: Vec<usize> = (0..self.heads.len())
            .map(|at| {
                let cells = self.lines.iter().map(|line| line[at].chars().count());
                cells.fold(self.heads[at].len(), usize::max)
            })
            .collect();
        let padded = |cells: &mut dyn Iterator<Item = &str>| {
            let cells = cells
                .zip(&widths)
                .map(|(cell, &width)| format!("{cell:>width$}"));
            cells.collect::<Vec<_>>().join("  ") + "\n"
        };
        let mut text = padded(&mut self.heads.iter().copied());
        for line in &self.lines {
            text += &padded(&mut line.iter().map(String::as_str));
        }
        if self.more > 0 {
            text += &format!("… and {} more ranks, all in the frame\n", self.more);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_has_a_line_and_what_is_not_said_a_dash() {
        let row = |rank, item: &str, value: f64, fits| PlanRow {
            ranks: 2,
            rank,
            item: item.into(),
            value,
            unit: if item == "epoch_time" { "ms" } else { "bytes" }.into(),
            basis: "exact".into(),
            limit: None,
            fits,
        };
        let rows = [
            row(0, "graph", 2e6, true),
            row(0, "epoch_time", 12.34, true),
            row(1, "memory", 3e9, false),
            row(17, "graph", 1.0, true),
        ];
        let wide = wide(&rows);
        assert!(!wide.heads.contains(&"device"));
        let text = wide.text();
        assert!(
            text.contains("2.0 MB") && text.contains("12.3 ms"),
            "{text}"
        );
        assert!(text.contains("3.0 GB !") && text.contains(" - "), "{text}");
        assert!(text.contains("and 1 more"), "{text}");
    }
}
