//! Compressed sparse rows as files store them, checked before anybody trusts them.

use kernels::CsrBuf;

use crate::Result;
use crate::dataset::bad;

/// The three arrays of compressed rows, as stored.
pub(super) struct Csr {
    pub(super) indptr: Vec<i64>,
    pub(super) indices: Vec<i64>,
    pub(super) shape: Vec<i64>,
}

impl Csr {
    /// The rows without values; `places` names the row starts, the columns and the shape.
    ///
    /// # Errors
    /// [`crate::Error::Data`] for a shape that does not fit, row starts that go back or beyond the
    /// end, and columns outside the shape.
    pub(super) fn checked(self, file: &str, places: [&str; 3]) -> Result<CsrBuf> {
        let help = "save the compressed rows of one matrix again";
        let wrong = |k: usize, at: Option<usize>, reason: String| {
            let place = match at {
                None => places[k].to_owned(),
                Some(at) => format!("{}[{at}]", places[k]),
            };
            Err(bad(file, place, reason, help))
        };
        if self.indptr.is_empty() {
            return wrong(0, None, "is empty".into());
        }
        let rows = self.indptr.len() as i64 - 1;
        let cols = match self.shape[..] {
            [r, cols] if r == rows && (0..i64::from(u32::MAX)).contains(&cols) => cols,
            _ => {
                let reason = format!("expected ({rows}, columns), got {:?}", self.shape);
                return wrong(2, None, reason);
            }
        };
        if self.indptr[0] != 0 {
            return wrong(0, Some(0), format!("is {}, not 0", self.indptr[0]));
        }
        if let Some(v) = self.indptr.windows(2).position(|w| w[0] > w[1]) {
            let reason = format!("{} follows {}", self.indptr[v + 1], self.indptr[v]);
            return wrong(0, Some(v + 1), reason);
        }
        if self.indptr[rows as usize] != self.indices.len() as i64 {
            let reason = format!(
                "ends at {} of {} elements",
                self.indptr[rows as usize],
                self.indices.len()
            );
            return wrong(0, Some(rows as usize), reason);
        }
        if let Some(e) = self.indices.iter().position(|c| !(0..cols).contains(c)) {
            let reason = format!("column {} is outside 0..{cols}", self.indices[e]);
            return wrong(1, Some(e), reason);
        }
        Ok(CsrBuf {
            indptr: self.indptr.into_iter().map(|p| p as u64).collect(),
            indices: self.indices.into_iter().map(|c| c as u32).collect(),
            weights: None,
            n_cols: cols as usize,
        })
    }
}
