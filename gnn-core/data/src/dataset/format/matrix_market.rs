//! Matrix Market files (`.mtx`), the form of SuiteSparse and of the Network Repository.
//!
//! `%%MatrixMarket matrix coordinate pattern|real|integer general|symmetric|skew-symmetric`: a line
//! of rows, columns and entries, then one entry a line, from 1; entry `(i, j)` is an edge `i → j`.
//! Values are ignored. Symmetric matrices store one triangle, so the other direction is added; of
//! general ones too, unless `meta.json` beside the file says `"directed": true`. Repeats and self
//! loops are dropped.
//!
//! <https://math.nist.gov/MatrixMarket/formats.html>

use std::path::Path;

use super::{Ask, stem};
use crate::Result;
use crate::dataset::meta::Meta;
use crate::dataset::source::{Lines, shown};
use crate::dataset::{Dataset, split};
use crate::graph::{EdgeOptions, Graph};

/// Loads the file `at`.
pub(super) fn load(ask: &Ask, at: &Path) -> Result<Dataset> {
    split::only_standard(ask.split, "a Matrix Market file")?;
    let meta = Meta::beside(at)?;
    let mut lines = Lines::open(at, ask.limit)?;
    let header = lines.next()?.unwrap_or("").to_lowercase();
    let words: Vec<&str> = header.split_whitespace().collect();
    let help = "save a sparse matrix in coordinate form";
    let [tag, "matrix", form, field, symmetry] = words[..] else {
        let reason = format!("{} is not the first line of a matrix", shown(&header));
        return Err(lines.bad(reason, help));
    };
    let values = match field {
        "pattern" => 0,
        "real" | "integer" | "double" => 1,
        _ => return Err(lines.bad(format!("holds values of kind {}", shown(field)), help)),
    };
    let symmetric = match symmetry {
        "general" => false,
        "symmetric" | "skew-symmetric" => true,
        _ => return Err(lines.bad(format!("has the symmetry {}", shown(symmetry)), help)),
    };
    if tag != "%%matrixmarket" || form != "coordinate" {
        return Err(lines.bad(format!("{} is not a sparse matrix", shown(&header)), help));
    }
    let size = numbers::<3>(&mut lines)?;
    let Some([rows, cols, entries]) = size else {
        return Err(lines.bad("has no line of sizes", "is the file truncated?"));
    };
    if rows != cols || rows >= u64::from(u32::MAX) {
        let reason = format!("is {rows} x {cols}; expected a square of less than 4294967295 rows");
        return Err(lines.bad(reason, "save the adjacency matrix of a graph"));
    }
    ask.limit.graph(rows, entries, &lines.file)?;
    ask.limit
        .take(entries.saturating_mul(8), &lines.file, "entries")?;
    let (mut src, mut dst) = (Vec::new(), Vec::new());
    while let Some([i, j]) = numbers::<2>(&mut lines)? {
        if !(1..=rows).contains(&i) || !(1..=rows).contains(&j) {
            let reason = format!("entry ({i}, {j}) is outside 1..={rows}");
            return Err(lines.bad(reason, "number rows and columns from 1"));
        }
        if src.len() as u64 == entries {
            let reason = format!("is one entry more than the {entries} declared");
            return Err(lines.bad(reason, "correct the number of entries"));
        }
        let width = lines.line().split_whitespace().count();
        if width != 2 + values {
            let reason = format!("expected {} fields, got {width}", 2 + values);
            return Err(lines.bad(reason, "complete the line; is the file truncated?"));
        }
        src.push((i - 1) as u32);
        dst.push((j - 1) as u32);
    }
    if (src.len() as u64) < entries {
        let reason = format!("the file ends after {} of {entries} entries", src.len());
        return Err(lines.bad(reason, "copy or download the file again"));
    }
    let options = EdgeOptions {
        symmetrise: symmetric || !meta.directed,
        ..EdgeOptions::SIMPLE
    };
    let graph = Graph::from_edges(rows as usize, &src, &dst, options)?;
    let mut dataset = Dataset::unlabelled(stem(at), graph);
    dataset.about.format = "Matrix Market";
    if values > 0 {
        dataset
            .about
            .notes
            .push("values of the matrix ignored".into());
    }
    Ok(dataset)
}

/// The first `N` numbers of the next record, or none at the end.
fn numbers<const N: usize>(lines: &mut Lines) -> Result<Option<[u64; N]>> {
    if lines.record(&['%'])?.is_none() {
        return Ok(None);
    }
    let mut out = [0; N];
    let mut fields = lines.line().split_whitespace();
    for slot in &mut out {
        let field = fields.next().unwrap_or("");
        *slot = field.parse().map_err(|_| {
            let reason = format!("{} is not a whole number", shown(field));
            lines.bad(reason, format!("write {N} whole numbers first in the line"))
        })?;
    }
    Ok(Some(out))
}
