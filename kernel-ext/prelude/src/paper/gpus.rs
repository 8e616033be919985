//! Times that a paper took on GPUs, beside what its cards would take at the rates that their maker prints.

use super::numbers::most;
use super::planned::Planned;
use super::table::Table;
use crate::display::Bundle;
use crate::plot::escape;
use crate::plot::text::table;
use crate::show::Show;
use polars::prelude::{Column, DataFrame};

/// A kind of GPU, by the rates that its maker prints, and what joins them.
///
/// ```
/// use halobook::prelude::*;
/// // Over a network of 10 GB/s, at what is printed for it.
/// let gpu = Gpu::A5000.joined_by(10e9);
/// let second = EpochWork { dense: 27.8e12, ..EpochWork::default() };
/// assert_eq!(gpu.ms(second), 1000.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gpu {
    /// What people call it.
    pub name: &'static str,
    /// Operations a second in `f32`; a multiply-add is two.
    pub flops: f64,
    /// Bytes a second from and to its memory.
    pub bytes: f64,
    /// Bytes a second that it sends to others.
    pub link: f64,
    /// Bytes a second from and to the host's memory.
    pub host: f64,
}

/// What one rank does in an epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EpochWork {
    /// Operations of dense products.
    pub dense: f64,
    /// Elements of rows that are added up along edges.
    pub along_edges: f64,
    /// Bytes that all else reads and writes.
    pub beside: f64,
    /// Bytes that it sends to others.
    pub sent: f64,
    /// Bytes from and to the host's memory.
    pub copied: f64,
}

impl Gpu {
    /// RTX A5000: 27.8 TFLOP/s, 768 GB/s; PCI Express 4.
    pub const A5000: Gpu = Gpu {
        name: "A5000",
        flops: 27.8e12,
        bytes: 768e9,
        link: 32e9,
        host: 32e9,
    };
    /// A100 of 80 GB (SXM): 19.5 TFLOP/s, 2039 GB/s; NVLink of the third kind in one direction, PCI Express 4.
    pub const A100: Gpu = Gpu {
        name: "A100",
        flops: 19.5e12,
        bytes: 2039e9,
        link: 300e9,
        host: 32e9,
    };
    /// T4: 8.1 TFLOP/s, 320 GB/s; PCI Express 3.
    pub const T4: Gpu = Gpu {
        name: "T4",
        flops: 8.1e12,
        bytes: 320e9,
        link: 16e9,
        host: 16e9,
    };

    /// The same with another way between them, in bytes a second of one GPU.
    #[must_use]
    pub fn joined_by(self, link: f64) -> Gpu {
        Gpu { link, ..self }
    }

    /// Milliseconds of one rank's work: each part at its rate, every row fetched from memory, one behind the other.
    pub fn ms(&self, work: EpochWork) -> f64 {
        let memory = 4.0 * work.along_edges + work.beside;
        let computed = work.dense / self.flops + memory / self.bytes;
        1e3 * (computed + work.sent / self.link + work.copied / self.host)
    }

    /// Milliseconds of an epoch of a plan, each rank on a GPU of its own: those of the slowest, and of a pipeline its
    /// bubble; NaN for what draws mini-batches, whose work nobody counts. Nothing runs at its printed rate all the time, and nothing is
    /// hidden behind anything else: what a system takes may lie on either side.
    pub fn epoch_ms(&self, plan: &Planned) -> f64 {
        let ranks: Vec<f64> = plan.work().into_iter().map(|work| self.ms(work)).collect();
        let bubble = plan.per_rank("bubble").into_iter().fold(0.0, f64::max);
        most(&ranks) / (1.0 - bubble)
    }
}

impl Planned {
    /// What each rank does in an epoch; nothing for what draws mini-batches.
    pub fn work(&self) -> Vec<EpochWork> {
        let of = |item: &str| self.per_rank(item);
        let (dense, along, beside) = (of("dense"), of("along_edges"), of("beside"));
        let (sent, to_device, to_host) = (of("epoch_bytes"), of("to_device"), of("to_host"));
        let at = |all: &[f64], k: usize| all.get(k).copied().unwrap_or(0.0);
        let ranks = 0..dense.len();
        let work = |k: usize| EpochWork {
            dense: dense[k],
            along_edges: at(&along, k),
            beside: at(&beside, k),
            sent: at(&sent, k),
            copied: at(&to_device, k) + at(&to_host, k),
        };
        ranks.map(work).collect()
    }
}

/// Published numbers of GPUs beside what is predicted of them. Shown, each has a row, and what was measured is
/// said to be missing.
#[derive(Clone, Debug, PartialEq)]
pub struct OnGpus {
    of: String,
    unit: String,
    rows: Vec<Row>,
}

#[derive(Clone, Debug, PartialEq)]
struct Row {
    what: String,
    published: f64,
    predicted: Option<f64>,
}

/// What is said of a number that no GPU here has given.
const MISSING: &str = "not measured here";

const HEAD: [&str; 5] = ["of", "published", "predicted", "ratio", "measured"];

/// Every number of a published table, beside what `predicted` gives for its labels and column, in the table's
/// unit; none where nobody can say.
pub fn on_gpus(table: &Table, predicted: impl Fn(&[&str], &str) -> Option<f64>) -> OnGpus {
    let cells = table.cells().into_iter();
    let rows = cells.filter_map(|(labels, column)| {
        let published = table.try_at(&labels, column).ok()?.value;
        Some(Row {
            what: format!("{}, {column}", labels.join(", ")),
            published,
            predicted: predicted(&labels, column),
        })
    });
    OnGpus {
        of: table.number.clone(),
        unit: table.unit.clone(),
        rows: rows.collect(),
    }
}

impl OnGpus {
    /// A row each: `of`, `published`, `predicted` and `measured`, which is empty.
    ///
    /// # Panics
    /// Never: the columns have one length.
    pub fn frame(&self) -> DataFrame {
        let of: Vec<&str> = self.rows.iter().map(|row| row.what.as_str()).collect();
        let published: Vec<f64> = self.rows.iter().map(|row| row.published).collect();
        let predicted: Vec<Option<f64>> = self.rows.iter().map(|row| row.predicted).collect();
        let measured: Vec<Option<f64>> = vec![None; self.rows.len()];
        let columns = vec![
            Column::new("of".into(), of),
            Column::new("published".into(), published),
            Column::new("predicted".into(), predicted),
            Column::new("measured".into(), measured),
        ];
        DataFrame::new(self.rows.len(), columns).expect("columns of one length")
    }

    fn lines(&self) -> Vec<Vec<String>> {
        let number = |x: f64| launcher::check::short(x);
        let line = |row: &Row| {
            let ratio = row.predicted.map(|p| format!("{:.2}", p / row.published));
            vec![
                row.what.clone(),
                number(row.published),
                row.predicted.map_or("-".into(), number),
                ratio.unwrap_or("-".into()),
                MISSING.into(),
            ]
        };
        self.rows.iter().map(line).collect()
    }
}

impl Show for OnGpus {
    fn bundle(&self) -> Bundle {
        let heading = format!("{} on GPUs: {}", self.of, self.unit);
        let lines = self.lines();
        let text = format!("{heading}\n{}", table(&HEAD, &lines));
        let cells = |tag: &str, cells: &[String]| -> String {
            let cells = cells.iter().enumerate().map(|(k, cell)| {
                let side = if matches!(k, 1..=3) { "right" } else { "left" };
                format!(
                    "<{tag} style=\"text-align:{side}\">{}</{tag}>",
                    escape(cell)
                )
            });
            format!("<tr>{}</tr>", cells.collect::<String>())
        };
        let body: String = lines.iter().map(|line| cells("td", line)).collect();
        let html = format!(
            "<p>{}</p><table><thead>{}</thead><tbody>{body}</tbody></table>",
            escape(&heading),
            cells("th", &HEAD.map(str::to_owned)),
        );
        Bundle::text(text.trim_end()).with("text/html", html)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use polars::prelude::df;

    fn plan(bubble: Option<f64>) -> Planned {
        let mut items = vec!["dense", "along_edges", "beside", "epoch_bytes"];
        let mut values = vec![1e12, 1e9, 4e9, 1e9];
        if let Some(share) = bubble {
            items.push("bubble");
            values.push(share);
        }
        let ranks = vec![0u32; items.len()];
        let frame = df!("rank" => ranks, "item" => items, "value" => values);
        Planned(frame.expect("columns of one length"))
    }

    #[test]
    fn an_epoch_takes_what_each_part_takes_at_its_rate_and_a_pipeline_its_bubble() {
        let gpu = Gpu {
            name: "of round numbers",
            flops: 1e13,
            bytes: 1e12,
            link: 1e10,
            host: 1e9,
        };
        // 100 ms of products, 8 of memory, 100 of sending.
        assert!((gpu.epoch_ms(&plan(None)) - 208.0).abs() < 1e-9);
        assert!((gpu.epoch_ms(&plan(Some(0.5))) - 416.0).abs() < 1e-9);
        assert!((gpu.joined_by(1e11).epoch_ms(&plan(None)) - 118.0).abs() < 1e-9);
        // And 300 of copies from and to the host.
        let copied = EpochWork {
            copied: 3e8,
            ..plan(None).work()[0]
        };
        assert!((gpu.ms(copied) - 508.0).abs() < 1e-9);
        let none =
            Planned(df!("rank" => [0u32], "item" => ["memory"], "value" => [1.0]).expect("a row"));
        assert!(gpu.epoch_ms(&none).is_nan());
    }

    #[test]
    fn every_number_has_a_row_that_says_what_is_missing() {
        let table = Table {
            number: "Figure 7".into(),
            unit: "s".into(),
            labels: vec!["method".into()],
            columns: vec!["2 GPUs".into(), "16 GPUs".into()],
            rows: vec![vec!["Graph".into(), "1.22".into(), "OOM".into()]],
            ..Table::default()
        };
        let both = on_gpus(&table, |labels, column| {
            assert_eq!((labels, column), (&["Graph"][..], "2 GPUs"));
            Some(0.61)
        });
        let bundle = both.bundle();
        let text = bundle.get("text/plain").expect("a text");
        assert!(text.starts_with("Figure 7 on GPUs: s\n"), "{text}");
        for part in ["Graph, 2 GPUs", "1.22", "0.61", "0.50", "not measured here"] {
            assert!(text.contains(part), "no {part} in {text}");
        }
        let nobody = on_gpus(&table, |_, _| None);
        assert_eq!(nobody.frame().shape(), (1, 4));
        let bundle = nobody.bundle();
        let text = bundle.get("text/plain").expect("a text");
        assert!(text.contains("1.22") && !text.contains("0.61"), "{text}");
    }
}
