//! What a paper printed: its tables, and the numbers that its text gives for its figures.
//!
//! A paper is one file, `notebooks/papers/published/NAME.toml`, typed once from the paper's text and held
//! against it by a test. To add a paper is to add a file:
//!
//! ```toml
//! paper = "Peng et al., SANCUS, PVLDB 15(9), 2022"
//! text = "distdgl-bytegnn-sancus.txt"       # the text that the lines below are of
//!
//! [[item]]
//! number = "Table 6"
//! caption = "Cache Memory Footprints with configuration(1)"
//! unit = "memory of the cache of one GPU"
//! lines = "614-620"                         # where every number of it stands
//! labels = ["dataset"]                      # columns that name a row
//! columns = ["2 GPUs", "4 GPUs", "8 GPUs"]
//! rows = """
//! Flickr | 170.2 MB | 255.3 MB | 297.9 MB
//! """
//! ```
//!
//! Cells are written as printed, `OOM` and `-` too: those have no number. What a figure draws and the
//! text does not say is `curves = "not given"`.

use std::path::PathBuf;

use gnn_core::error::nearest;
use launcher::{Error, Result};
use serde::Deserialize;

use super::table::Table;
use crate::in_words::or_end;

/// The folder of this library's papers in the tree that it was built from.
const TREE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../notebooks/papers/published"
);

/// The tables and figures of a paper.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    /// Authors, title, venue, year.
    pub paper: String,
    /// Name of the file with the paper's text.
    pub text: String,
    /// What its tables and figures give, in their order.
    pub items: Vec<Table>,
}

/// As the file is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    paper: String,
    text: String,
    item: Vec<Item>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Item {
    number: String,
    caption: String,
    unit: String,
    lines: String,
    curves: Option<String>,
    #[serde(default)]
    labels: Vec<String>,
    #[serde(default)]
    columns: Vec<String>,
    #[serde(default)]
    rows: String,
}

/// The published numbers of a paper: `sancus`, `neutrontp`, `distdgl`, or whichever file there is, in
/// `published/` beside the notebook or in the tree of this library; a path that ends in `.toml` is one too.
///
/// ```
/// use halobook::prelude::*;
/// let sancus = published("sancus");
/// assert_eq!(sancus.table("Table 6").at(&["Flickr"], "8 GPUs"), 297.9);
/// ```
///
/// # Panics
/// When there is no such file, or it is not as it should be.
#[track_caller]
pub fn published(name: &str) -> Published {
    or_end(Published::find(name))
}

impl Published {
    /// Like [`published`].
    ///
    /// # Errors
    /// [`Error::Refused`] when there is no such file, or it is not as it should be.
    pub fn find(name: &str) -> Result<Published> {
        let file = format!("{name}.toml");
        let places: Vec<PathBuf> = match name.ends_with(".toml") {
            true => vec![name.into()],
            false => vec![
                PathBuf::from("published").join(&file),
                PathBuf::from(TREE).join(&file),
            ],
        };
        let Some(path) = places.iter().find(|path| path.is_file()) else {
            let looked: Vec<String> = places.iter().map(|p| p.display().to_string()).collect();
            return Err(Error::refused(
                format!("there are no published numbers of {name:?}"),
                format!("looked for {}", looked.join(" and ")),
            ));
        };
        let text = std::fs::read_to_string(path).map_err(Error::io(path))?;
        Published::read(&text).map_err(|error| {
            Error::refused(
                format!("{}: {error}", path.display()),
                "it is written as halobook::paper::Published says",
            )
        })
    }

    /// Reads what such a file says.
    ///
    /// # Errors
    /// [`Error::Refused`] with what is wrong.
    pub fn read(text: &str) -> Result<Published> {
        let wrong =
            |what: String| Error::refused(what, "a row has a cell for every label and column");
        let written: Written = toml::from_str(text).map_err(|e| wrong(e.to_string()))?;
        let item = |item: Item| {
            let width = item.labels.len() + item.columns.len();
            let rows = item.rows.lines().filter(|row| !row.trim().is_empty());
            let rows = rows.map(|row| {
                let cells: Vec<String> = row.split('|').map(|cell| cell.trim().into()).collect();
                match cells.len() == width {
                    true => Ok(cells),
                    false => Err(wrong(format!(
                        "{}: {width} cells make a row, and {row:?} has {}",
                        item.number,
                        cells.len()
                    ))),
                }
            });
            let rows = rows.collect::<Result<Vec<_>>>()?;
            if rows.is_empty() && item.curves.is_none() {
                let number = &item.number;
                return Err(wrong(format!("{number} has neither rows nor curves")));
            }
            Ok(Table {
                number: item.number,
                caption: item.caption,
                unit: item.unit,
                lines: item.lines,
                curves: item.curves,
                labels: item.labels,
                columns: item.columns,
                rows,
            })
        };
        Ok(Published {
            items: written.item.into_iter().map(item).collect::<Result<_>>()?,
            paper: written.paper,
            text: written.text,
        })
    }

    /// The table or figure of that number, such as `Table 6` or `Figure 21`.
    ///
    /// # Panics
    /// When the file has none of it.
    #[track_caller]
    pub fn table(&self, number: &str) -> &Table {
        or_end(self.try_table(number))
    }

    /// Like [`Published::table`].
    ///
    /// # Errors
    /// [`Error::Refused`] when the file has none of it.
    pub fn try_table(&self, number: &str) -> Result<&Table> {
        let found = self.items.iter().find(|item| item.number == number);
        found.ok_or_else(|| {
            let known: Vec<&str> = self.items.iter().map(|item| &*item.number).collect();
            let near = nearest(number, known.iter().copied());
            let near = near.map_or(String::new(), |near| format!("; did you mean {near:?}?"));
            Error::refused(
                format!("{} has no {number:?}{near}", self.paper),
                format!("there are {}", known.join(", ")),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ITEM: &str = "paper = 'P'\ntext = 'p.txt'\n[[item]]\nnumber = 'Table 1'\ncaption = 'C'\n\
                        unit = 's'\nlines = '1'\nlabels = ['a']\ncolumns = ['x', 'y']\n";

    #[test]
    fn rows_have_a_cell_for_every_column() {
        let read = |rows: &str| Published::read(&format!("{ITEM}rows = '''\n{rows}\n'''"));
        let good = read("r | 1.50 | OOM").expect("a row of three cells");
        assert_eq!(good.table("Table 1").at(&["r"], "x"), 1.5);
        let error = read("r | 1").expect_err("a cell is missing").to_string();
        assert!(error.contains("3 cells make a row"), "{error}");
        let error = read("").expect_err("nothing is published").to_string();
        assert!(error.contains("neither rows nor curves"), "{error}");
    }

    #[test]
    fn an_unknown_number_names_the_nearest() {
        let one = Published::read(&format!("{ITEM}rows = 'r | 1 | 2'")).expect("a table");
        let error = one.try_table("Table 2").expect_err("there is one only");
        assert!(
            error.to_string().contains("did you mean \"Table 1\""),
            "{error}"
        );
        assert!(Published::find("no-such-paper").is_err());
    }
}
