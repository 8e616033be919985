//! Frames for a paper: tables in LaTeX and Markdown, files that other programs read, means over repeats.

use std::fmt;
use std::io::{Error, Result};
use std::path::Path;

use polars::prelude::{
    AnyValue, Column, CsvWriter, DataFrame, IntoLazy, ParquetWriter, PolarsResult, SerWriter, col,
};

use crate::chart::half_ci;
use crate::display::Bundle;
use crate::paper::numbers::word;
use crate::plot::digits;
use crate::show::Show;

/// How the column of standard deviations beside `x` is called: `x_std`.
const STD: &str = "_std";

/// A text that a cell shows as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text(String);

impl Text {
    /// Writes it to `path`.
    ///
    /// # Errors
    /// What the file system says.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        std::fs::write(path, &self.0)
    }
}

impl std::ops::Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Show for Text {
    fn bundle(&self) -> Bundle {
        Bundle::text(&self.0)
    }
}

/// What becomes of a frame outside the notebook.
pub trait Export {
    /// Writes comma-separated values with a line of names.
    ///
    /// # Errors
    /// What the file system says, or a column of lists, which has no such form.
    fn to_csv(&self, path: impl AsRef<Path>) -> Result<()>;

    /// Writes Parquet, every type as it is.
    ///
    /// # Errors
    /// What the file system says.
    fn to_parquet(&self, path: impl AsRef<Path>) -> Result<()>;

    /// A table of LaTeX's package booktabs: numbers to the right and to three digits, `x` and `x_std` as one column.
    ///
    /// ```
    /// use halobook::prelude::*;
    /// let t = df!("data" => ["cora"], "acc" => [0.8137], "acc_std" => [0.0042])?;
    /// assert!(t.to_latex().contains(r"cora & $0.814 \pm 0.004$ \\"));
    /// # Ok::<(), PolarsError>(())
    /// ```
    fn to_latex(&self) -> Text;

    /// The same as a table of Markdown.
    fn to_markdown(&self) -> Text;

    /// Means over rows that agree in the columns `by`: every other column of numbers `x` becomes `x` and `x_std`, the
    /// standard deviation of the sample, beside the count `n`. Seeds and columns of words are left out.
    ///
    /// # Errors
    /// A column that is not there.
    fn mean_std(&self, by: &[&str]) -> PolarsResult<DataFrame>;

    /// The same with `x_low` and `x_high`, the ends of the mean's 95 % confidence interval by Student's t.
    ///
    /// # Errors
    /// A column that is not there.
    fn mean_ci(&self, by: &[&str]) -> PolarsResult<DataFrame>;
}

impl Export for DataFrame {
    fn to_csv(&self, path: impl AsRef<Path>) -> Result<()> {
        let file = std::fs::File::create(path)?;
        CsvWriter::new(file)
            .finish(&mut self.clone())
            .map_err(Error::other)
    }

    fn to_parquet(&self, path: impl AsRef<Path>) -> Result<()> {
        let file = std::fs::File::create(path)?;
        let written = ParquetWriter::new(file).finish(&mut self.clone());
        written.map(|_| ()).map_err(Error::other)
    }

    fn to_latex(&self) -> Text {
        let columns = columns(self, r" \pm ", "--", latex);
        let align: String = columns
            .iter()
            .map(|c| if c.number { 'r' } else { 'l' })
            .collect();
        let line = |cells: Vec<&str>| format!("{} \\\\\n", cells.join(" & "));
        let mut out = format!("\\begin{{tabular}}{{{align}}}\n\\toprule\n");
        out += &line(columns.iter().map(|c| c.name.as_str()).collect());
        out += "\\midrule\n";
        for row in 0..self.height() {
            out += &line(columns.iter().map(|c| c.cells[row].as_str()).collect());
        }
        Text(out + "\\bottomrule\n\\end{tabular}")
    }

    fn to_markdown(&self) -> Text {
        let columns = columns(self, " ± ", "", |text| {
            text.replace('|', "\\|").replace('\n', " ")
        });
        let line = |cells: Vec<&str>| format!("| {} |\n", cells.join(" | "));
        let mut out = line(columns.iter().map(|c| c.name.as_str()).collect());
        out += &line(
            columns
                .iter()
                .map(|c| if c.number { "---:" } else { "---" })
                .collect(),
        );
        for row in 0..self.height() {
            out += &line(
                columns
                    .iter()
                    .map(|c| c.cells[row].trim_matches('$'))
                    .collect(),
            );
        }
        Text(out.trim_end().to_owned())
    }

    fn mean_std(&self, by: &[&str]) -> PolarsResult<DataFrame> {
        let mut means = means(self, by)?;
        means.rename("__n", "n".into())?;
        Ok(means)
    }

    fn mean_ci(&self, by: &[&str]) -> PolarsResult<DataFrame> {
        let means = means(self, by)?;
        let counts: Vec<usize> = means
            .column("__n")?
            .u32()?
            .iter()
            .map(|n| n.unwrap_or(0) as usize)
            .collect();
        let mut out: Vec<Column> = Vec::new();
        for column in means.columns() {
            let name = column.name().as_str();
            if name == "__n" {
                let mut n = column.clone();
                n.rename("n".into());
                out.push(n);
                continue;
            }
            let Some(of) = name
                .strip_suffix(STD)
                .filter(|of| means.column(of).is_ok() && !by.contains(&name))
            else {
                out.push(column.clone());
                continue;
            };
            let (mean, std) = (means.column(of)?.f64()?, column.f64()?);
            let end = |sign: f64| -> Vec<Option<f64>> {
                let rows = mean.iter().zip(std.iter()).zip(&counts);
                rows.map(|((mean, std), n)| Some(mean? + sign * half_ci(*n, std?)))
                    .collect()
            };
            out.push(Column::new(format!("{of}_low").into(), end(-1.0)));
            out.push(Column::new(format!("{of}_high").into(), end(1.0)));
        }
        DataFrame::new(means.height(), out)
    }
}

/// Means and standard deviations by group, groups in the order in which they come, and their sizes as `__n`.
fn means(frame: &DataFrame, by: &[&str]) -> PolarsResult<DataFrame> {
    for name in by {
        frame.column(name)?;
    }
    let of = frame.columns().iter().filter(|c| {
        let name = c.name().as_str();
        c.dtype().is_primitive_numeric() && name != "seed" && !by.contains(&name)
    });
    let of: Vec<String> = of.map(|c| c.name().to_string()).collect();
    let first = by
        .first()
        .or(frame
            .get_column_names()
            .first()
            .map(|n| n.as_str())
            .as_ref())
        .copied();
    let count = col(first.unwrap_or_default()).len().alias("__n");
    let mut wanted = vec![count];
    for name in &of {
        let float = col(name.as_str()).cast(polars::prelude::DataType::Float64);
        wanted.push(float.clone().mean());
        wanted.push(float.std(1).alias(format!("{name}{STD}")));
    }
    let lazy = frame.clone().lazy();
    match by {
        [] => lazy.select(wanted).collect(),
        by => {
            let keys: Vec<_> = by.iter().map(|name| col(*name)).collect();
            lazy.group_by_stable(keys).agg(wanted).collect()
        }
    }
}

/// A column of a printed table.
struct Printed {
    name: String,
    number: bool,
    cells: Vec<String>,
}

/// The columns of a frame as text; one of standard deviations goes with the one that it is of.
fn columns(
    frame: &DataFrame,
    pm: &str,
    none: &str,
    escape: impl Fn(&str) -> String,
) -> Vec<Printed> {
    let std_of = |name: &str| frame.column(&format!("{name}{STD}")).ok();
    let is_std = |name: &str| {
        name.strip_suffix(STD)
            .is_some_and(|of| frame.column(of).is_ok())
    };
    let text = |value: &AnyValue<'_>| match value {
        AnyValue::Null => none.to_owned(),
        AnyValue::Float64(v) => digits(*v),
        AnyValue::Float32(v) => digits(f64::from(*v)),
        value => escape(&word(value)),
    };
    let shown = frame.columns().iter().filter(|c| !is_std(c.name()));
    let printed = |column: &Column| {
        let std = std_of(column.name());
        let cell = |row: usize| {
            let value = column.get(row).unwrap_or(AnyValue::Null);
            let std = std
                .and_then(|std| std.get(row).ok())
                .filter(|std| !std.is_null());
            match std {
                Some(std) if !value.is_null() => beside(&value, &std, pm),
                _ => text(&value),
            }
        };
        Printed {
            name: escape(column.name()),
            number: column.dtype().is_primitive_numeric(),
            cells: (0..frame.height()).map(cell).collect(),
        }
    };
    shown.map(printed).collect()
}

/// A mean and its deviation with as many places: two digits of the deviation at most.
fn beside(mean: &AnyValue<'_>, std: &AnyValue<'_>, pm: &str) -> String {
    let number = |value: &AnyValue<'_>| value.extract::<f64>().unwrap_or(f64::NAN);
    let (mean, std) = (number(mean), number(std));
    let smaller = if std > 0.0 {
        std
    } else {
        mean.abs().max(1e-12)
    };
    let places =
        (if std > 0.0 { 0.0 } else { 2.0 } - smaller.log10().floor()).clamp(0.0, 6.0) as usize;
    format!("${mean:.places$}{pm}{std:.places$}$")
}

/// Words with what LaTeX takes for commands escaped.
fn latex(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => {
                out.push('\\');
                out.push(c);
            }
            '~' => out.push_str(r"\textasciitilde{}"),
            '^' => out.push_str(r"\textasciicircum{}"),
            '\\' => out.push_str(r"\textbackslash{}"),
            '\n' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use polars::prelude::*;

    fn seeds() -> DataFrame {
        df!(
            "strategy" => ["halo", "halo", "halo", "a_b", "a_b", "a_b"],
            "seed" => [0_u64, 1, 2, 0, 1, 2],
            "acc" => [0.80, 0.82, 0.84, 0.5, 0.5, 0.5],
            "bytes" => [100_u64, 100, 103, 7, 8, 9],
        )
        .expect("columns have equal lengths")
    }

    #[test]
    fn repeats_become_means() {
        let means = seeds()
            .mean_std(&["strategy"])
            .expect("the column is there");
        let names: Vec<&str> = means
            .get_column_names()
            .iter()
            .map(|n| n.as_str())
            .collect();
        assert_eq!(
            names,
            ["strategy", "n", "acc", "acc_std", "bytes", "bytes_std"]
        );
        let at = |frame: &DataFrame, name: &str, row| {
            frame
                .column(name)
                .expect(name)
                .f64()
                .expect("numbers")
                .get(row)
                .expect("a number")
        };
        assert!(
            (at(&means, "acc", 0) - 0.82).abs() < 1e-12
                && (at(&means, "acc_std", 0) - 0.02).abs() < 1e-12
        );
        let ends = seeds().mean_ci(&["strategy"]).expect("the column is there");
        let half = 4.3027 * 0.02 / 3.0_f64.sqrt();
        assert!((at(&ends, "acc_high", 0) - 0.82 - half).abs() < 1e-9);
        assert_eq!(at(&ends, "acc_low", 1), 0.5);
        assert!(seeds().mean_std(&["strateg"]).is_err());
        assert_eq!(seeds().mean_std(&[]).expect("all rows").height(), 1);
    }

    #[test]
    fn tables_are_escaped_and_aligned() {
        let means = seeds()
            .mean_std(&["strategy"])
            .expect("the column is there");
        let latex = means.to_latex().to_string();
        assert!(
            latex.starts_with("\\begin{tabular}{lrrr}\n\\toprule\nstrategy & n & acc & bytes \\\\"),
            "{latex}"
        );
        assert!(latex.contains("a\\_b & 3 & "), "{latex}");
        assert!(
            latex.contains(r"halo & 3 & $0.82 \pm 0.02$ & $101 \pm 2$ \\"),
            "{latex}"
        );
        let markdown = means.to_markdown().to_string();
        assert!(
            markdown.contains("| halo | 3 | 0.82 ± 0.02 | 101 ± 2 |"),
            "{markdown}"
        );
        assert!(
            markdown.contains("| --- | ---: | ---: | ---: |"),
            "{markdown}"
        );
    }

    #[test]
    fn files_are_read_back() {
        let dir = tempfile::tempdir().expect("a folder");
        let (csv, parquet) = (dir.path().join("a.csv"), dir.path().join("a.parquet"));
        seeds().to_csv(&csv).expect("written");
        seeds().to_parquet(&parquet).expect("written");
        let lines = std::fs::read_to_string(&csv).expect("there");
        assert!(
            lines.starts_with("strategy,seed,acc,bytes\nhalo,0,0.8,100\n"),
            "{lines}"
        );
        let file = std::fs::File::open(&parquet).expect("there");
        assert_eq!(ParquetReader::new(file).finish().expect("read"), seeds());
        assert!(seeds().to_csv(dir.path().join("no/such/a.csv")).is_err());
    }
}
