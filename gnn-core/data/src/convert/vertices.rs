//! What belongs to the vertices of an edge list: labels, a split, features.

use crate::Result;
use crate::store::Writer;

/// Labels, parts of the split and features by id in the source, held in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Vertices {
    /// Ids that have a row, ascending, and which row; none when the id is the row.
    rows: Option<Vec<(u64, usize)>>,
    labels: Vec<i32>,
    split: Vec<u8>,
    features: Vec<f32>,
    width: usize,
}

impl Vertices {
    /// Rows of vertices: their `ids` (without them the row's number), `labels` (-1 unlabelled),
    /// `split` (0 none, 1 training, 2 validation, 3 test) and `features`: `[rows · width]`.
    ///
    /// # Errors
    /// A line about an id that comes twice.
    ///
    /// # Panics
    /// When the lists have not one entry a row.
    pub fn new(
        ids: Option<Vec<u64>>,
        labels: Vec<i32>,
        split: Vec<u8>,
        features: Vec<f32>,
        width: usize,
    ) -> std::result::Result<Vertices, String> {
        let count = labels.len();
        assert_eq!(
            (split.len(), features.len()),
            (count, count * width),
            "one entry a row"
        );
        let rows = ids.map(|ids| {
            assert_eq!(ids.len(), count, "one id a row");
            let mut rows: Vec<(u64, usize)> = ids.into_iter().zip(0..).collect();
            rows.sort_unstable();
            rows
        });
        let mut pairs = rows.iter().flat_map(|rows| rows.windows(2));
        if let Some(pair) = pairs.find(|pair| pair[0].0 == pair[1].0) {
            return Err(format!("vertex {} has a second row", pair[0].0));
        }
        Ok(Vertices {
            rows,
            labels,
            split,
            features,
            width,
        })
    }

    fn row(&self, id: u64) -> Option<usize> {
        match &self.rows {
            None => usize::try_from(id)
                .ok()
                .filter(|&row| row < self.labels.len()),
            Some(rows) => {
                let at = rows.binary_search_by_key(&id, |r| r.0).ok()?;
                Some(rows[at].1)
            }
        }
    }

    /// One more than the largest id.
    pub fn end(&self) -> u64 {
        match &self.rows {
            None => self.labels.len() as u64,
            Some(rows) => rows.last().map_or(0, |r| r.0 + 1),
        }
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.labels.iter().max().map_or(0, |&c| c + 1) as usize
    }

    /// Number of features of a vertex.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The class of a vertex, -1 when it is unlabelled or has no row.
    pub fn label(&self, id: u64) -> i32 {
        self.row(id).map_or(-1, |row| self.labels[row])
    }

    /// 1 training, 2 validation, 3 test, 0 none.
    pub fn part(&self, id: u64) -> u8 {
        self.row(id).map_or(0, |row| self.split[row])
    }

    /// The features of a vertex, where it has a row.
    pub fn features(&self, id: u64) -> Option<&[f32]> {
        let row = self.row(id)?;
        Some(&self.features[row * self.width..][..self.width])
    }

    /// Writes the sections of `n` vertices whose ids in the source are `ids`, or their numbers.
    pub(super) fn write(&self, out: &mut Writer, n: u64, ids: Option<&[u64]>) -> Result<()> {
        let id = |v: u64| ids.map_or(v, |ids| ids[v as usize]);
        if self.width > 0 {
            let mut section = out.section::<f32>("feat", n * self.width as u64);
            let zeros = vec![0.0; self.width];
            for v in 0..n {
                let row = self.features(id(v)).unwrap_or(&zeros);
                row.iter().try_for_each(|&x| section.push(x))?;
            }
            out.close(section)?;
        }
        let mut section = out.section::<i32>("label", n);
        (0..n).try_for_each(|v| section.push(self.label(id(v))))?;
        out.close(section)?;
        let mut section = out.section::<u8>("split", n);
        (0..n).try_for_each(|v| section.push(self.part(id(v))))?;
        out.close(section)
    }
}
