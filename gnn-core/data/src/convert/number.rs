//! Which vertices stay, and their new numbers.

use std::path::Path;

use rayon::prelude::*;

use super::sort::Sorter;
use super::{EdgeSource, Options, Relabel, Step, each_block};
use crate::{Error, Result};

/// The new number of every vertex.
pub(super) enum Numbers {
    /// As in the source.
    Same,
    /// Their place among these ids, which ascend; the others are left out.
    Among(Vec<u64>),
    /// Their place in an order of all vertices.
    Ordered {
        /// New number of each: `[n]`.
        number: Vec<u32>,
        /// Id in the source by new number: `[n]`.
        ids: Vec<u64>,
    },
}

impl Numbers {
    /// What `options` ask for, before the degrees are known.
    pub(super) fn choose(
        source: &mut dyn EdgeSource,
        folder: &Path,
        options: &Options,
        tell: &mut dyn FnMut(Step),
    ) -> Result<Numbers> {
        if let Some(ids) = &options.induce {
            let mut ids = ids.clone();
            ids.par_sort_unstable();
            ids.dedup();
            return Ok(Numbers::Among(ids));
        }
        if options.relabel != Relabel::Compact {
            return Ok(Numbers::Same);
        }
        let half = options.working()? / 2;
        let mut sorter = Sorter::<u64>::new(half / 2, true, folder);
        each_block(source, "reading vertices", tell, |_, block| {
            for &[s, d] in block {
                sorter.push(s)?;
                sorter.push(d)?;
            }
            Ok(())
        })?;
        source.rewind()?;
        let mut ids = Vec::new();
        sorter.drain(|part| {
            if (ids.len() + part.len()) * 8 > half {
                return Err(too_many(ids.len(), half / 8));
            }
            if ids.capacity() < ids.len() + part.len() {
                ids.reserve_exact((ids.len() / 4).max(part.len()));
            }
            ids.extend_from_slice(part);
            Ok(())
        })?;
        Ok(Numbers::Among(ids))
    }

    /// By falling degree: `degrees: [n]`, in these numbers.
    pub(super) fn by_degree(self, degrees: Vec<u32>, working: usize) -> Result<Numbers> {
        let n = degrees.len();
        if n * 24 > working / 2 {
            return Err(too_many(n, working / 48));
        }
        // Falling degree, then rising number.
        let key = |v: usize| u64::from(!degrees[v]) << 32 | v as u64;
        let mut order: Vec<u64> = (0..n).into_par_iter().map(key).collect();
        drop(degrees);
        order.par_sort_unstable();
        let mut number = vec![0u32; n];
        for (new, key) in order.iter_mut().enumerate() {
            let old = (*key & 0xffff_ffff) as usize;
            number[old] = new as u32;
            *key = match &self {
                Numbers::Among(ids) => ids[old],
                _ => old as u64,
            };
        }
        Ok(Numbers::Ordered { number, ids: order })
    }

    /// The new number of a vertex; none when it is left out.
    #[inline]
    pub(super) fn of(&self, id: u64) -> Option<u64> {
        match self {
            Numbers::Same => Some(id),
            Numbers::Among(ids) => ids.binary_search(&id).ok().map(|k| k as u64),
            Numbers::Ordered { number, .. } => number.get(id as usize).map(|&v| v.into()),
        }
    }

    /// The number of vertices, where it does not depend on the edges.
    pub(super) fn count(&self) -> Option<u64> {
        self.ids().map(|ids| ids.len() as u64)
    }

    /// The ids in the source by new number, where they are others.
    pub(super) fn ids(&self) -> Option<&[u64]> {
        match self {
            Numbers::Same => None,
            Numbers::Among(ids) | Numbers::Ordered { ids, .. } => Some(ids),
        }
    }
}

fn too_many(vertices: usize, most: usize) -> Error {
    Error::Spec {
        key: "mem".into(),
        reason: format!(
            "numbering more than {vertices} vertices anew does not fit (at most {most} would)"
        ),
        help: "allow more memory, or leave --relabel out".into(),
    }
}
