//! What one rank knows of its own vertices.

use std::sync::Arc;

use crate::dataset::{Dataset, Links};
use crate::kept::Kept;

/// A rank's own rows of the data set.
#[derive(Debug, Clone)]
pub struct Rows {
    /// Global vertex ids.
    pub ids: Kept<u32>,
    /// Class of each, −1 for none.
    pub labels: Kept<i32>,
    /// Which are trained on.
    pub train: Kept<bool>,
    /// Which choose the epoch.
    pub val: Kept<bool>,
    /// Which are reported.
    pub test: Kept<bool>,
    /// Terms of the loss of all ranks: training vertices, times classes where a vertex may have
    /// several, or pairs of vertices for links.
    pub train_total: usize,
    /// 1 for each class of a row that may have several, else 0: `[n_local · classes]`.
    pub multi_labels: Option<Kept<u8>>,
    /// Links to be predicted.
    pub links: Option<Arc<Links>>,
}

impl Rows {
    /// The rows `ids` of a data set.
    pub fn of(data: &Dataset, ids: &[u32]) -> Rows {
        let classes = data.n_classes;
        let multi = |of: &Vec<u8>| -> Kept<u8> {
            let row = |&v: &u32| of[v as usize * classes..][..classes].iter().copied();
            ids.iter().flat_map(row).collect::<Vec<_>>().into()
        };
        let train = data.train.iter().filter(|&&t| t).count();
        let train_total = match &data.links {
            Some(links) => links.terms(),
            None if data.multi_labels.is_some() => train * classes,
            None => train,
        };
        let pick = |mask: &[bool]| -> Kept<bool> {
            let of = |&v: &u32| mask[v as usize];
            ids.iter().map(of).collect::<Vec<_>>().into()
        };
        let label = |&v: &u32| data.labels[v as usize];
        Rows {
            ids: ids.to_vec().into(),
            labels: ids.iter().map(label).collect::<Vec<_>>().into(),
            train: pick(&data.train),
            val: pick(&data.val),
            test: pick(&data.test),
            train_total,
            multi_labels: data.multi_labels.as_ref().map(multi),
            links: data.links.clone().map(Arc::new),
        }
    }

    /// Those at `places`, all of them to be trained on, beside `total` in all ranks' parts of a batch.
    pub fn pick(&self, places: &[u32], total: usize) -> Rows {
        let classes = match (&self.multi_labels, self.ids.len()) {
            (Some(labels), n) if n > 0 => labels.len() / n,
            _ => 1,
        };
        let at = places.iter().map(|&k| k as usize);
        let multi = |of: &Kept<u8>| -> Kept<u8> {
            let row = |k: usize| of[k * classes..][..classes].iter().copied();
            at.clone().flat_map(row).collect::<Vec<_>>().into()
        };
        Rows {
            ids: at.clone().map(|k| self.ids[k]).collect::<Vec<_>>().into(),
            labels: at
                .clone()
                .map(|k| self.labels[k])
                .collect::<Vec<_>>()
                .into(),
            train: vec![true; places.len()].into(),
            val: Kept::default(),
            test: Kept::default(),
            train_total: total * classes,
            multi_labels: self.multi_labels.as_ref().map(multi),
            links: None,
        }
    }

    /// Number of training vertices among them.
    pub fn train_count(&self) -> usize {
        self.train.iter().filter(|&&t| t).count()
    }
}
