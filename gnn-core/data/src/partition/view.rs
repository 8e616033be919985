//! What one rank sees of a cut graph: its own vertices, its halo, and what its peers need of it.

use crate::graph::{Block, Relations};
use crate::partition::facts::by_owner;
use crate::{Error, Result};

/// One rank's part. Every rank computes its own from the full block and the owners, without
/// communication, and the lists of both sides agree.
#[derive(Debug, Clone)]
pub struct LocalPart {
    /// The rank.
    pub rank: u32,
    /// Owned vertices by global id: interior ones (all sources owned too), then boundary ones,
    /// each ascending.
    pub own: Vec<u32>,
    /// How many of `own` are interior.
    pub n_interior: usize,
    /// Remote sources by global id, grouped by owner rank ascending, within a group by id.
    pub halo: Vec<u32>,
    /// Where each peer's group starts in `halo`: `[ranks + 1]`; the rank's own group is empty.
    pub halo_ptr: Vec<usize>,
    /// Rows are `own`, columns are `own` followed by `halo`; weights are those of the full block.
    pub block: Block,
    /// For each peer, the rows of `own` that it needs, in the order of its halo: `[ranks]`.
    pub send: Vec<Vec<u32>>,
}

impl LocalPart {
    /// The part of `rank` of `parts`. `full: [n, n]` is the full graph's weighted block, `owner: [n]`.
    ///
    /// # Errors
    /// [`Error::Shape`] when `owner` does not fit the block or names a part that does not exist.
    pub fn new(full: &Block, owner: &[u32], rank: usize, parts: usize) -> Result<LocalPart> {
        check(full, owner, rank, parts)?;
        let me = rank as u32;
        let a = full.csr();
        let is_interior = |v: &u32| {
            a.indices[a.span(*v as usize)]
                .iter()
                .all(|&s| owner[s as usize] == me)
        };
        let mine = (0..owner.len() as u32).filter(|&v| owner[v as usize] == me);
        let (mut own, boundary): (Vec<u32>, Vec<u32>) = mine.partition(is_interior);
        let n_interior = own.len();
        own.extend(boundary);

        // Position among the columns of the local block; own rows first, then the halo.
        const ABSENT: u32 = u32::MAX;
        let mut local = vec![ABSENT; owner.len()];
        for (k, &v) in own.iter().enumerate() {
            local[v as usize] = k as u32;
        }
        let mut halo = Vec::new();
        for &v in &own[n_interior..] {
            for &s in &a.indices[a.span(v as usize)] {
                if local[s as usize] == ABSENT {
                    local[s as usize] = 0;
                    halo.push(s);
                }
            }
        }
        halo.sort_unstable_by_key(|&s| (owner[s as usize], s));
        for (k, &s) in halo.iter().enumerate() {
            local[s as usize] = (own.len() + k) as u32;
        }
        let halo_ptr = (0..=parts)
            .map(|p| halo.partition_point(|&s| (owner[s as usize] as usize) < p))
            .collect();
        let send = send_lists(full, owner, me, parts, &local);
        let shape = (own.len(), own.len() + halo.len());
        let block = cut(full, &own, &local, shape)?;
        Ok(LocalPart {
            rank: me,
            own,
            n_interior,
            halo,
            halo_ptr,
            block,
            send,
        })
    }

    /// Rows whose sources are all owned: `0..n_interior`.
    #[inline]
    pub fn interior(&self) -> std::ops::Range<usize> {
        0..self.n_interior
    }

    /// Rows with remote sources.
    #[inline]
    pub fn boundary(&self) -> std::ops::Range<usize> {
        self.n_interior..self.own.len()
    }

    /// Halo vertices of each peer: `[ranks]`.
    pub fn recv_counts(&self) -> Vec<usize> {
        self.halo_ptr.windows(2).map(|w| w[1] - w[0]).collect()
    }
}

fn check(full: &Block, owner: &[u32], rank: usize, parts: usize) -> Result<()> {
    let err = |expected: String, got: String| {
        Err(Error::Shape {
            op: "local part".into(),
            expected,
            got,
        })
    };
    if full.n_dst != full.n_src || owner.len() != full.n_dst {
        return err(
            format!("a square block with {} rows", owner.len()),
            format!("{} by {}", full.n_dst, full.n_src),
        );
    }
    if rank >= parts {
        return err(format!("a rank below {parts}"), rank.to_string());
    }
    if let Some(v) = owner.iter().position(|&p| p as usize >= parts) {
        return err(format!("owner[{v}] below {parts}"), owner[v].to_string());
    }
    Ok(())
}

/// For each peer, the owned vertices that are sources of its rows, by ascending global id, as
/// positions among the owned rows.
fn send_lists(full: &Block, owner: &[u32], me: u32, parts: usize, local: &[u32]) -> Vec<Vec<u32>> {
    let mut send = vec![Vec::new(); parts];
    // The peer (plus one) that asked for a vertex last; peers come one after the other.
    let mut asked = vec![0u32; owner.len()];
    for v in by_owner(owner, parts) {
        let peer = owner[v as usize];
        if peer == me {
            continue;
        }
        for &s in &full.csr().indices[full.csr().span(v as usize)] {
            if owner[s as usize] == me
                && std::mem::replace(&mut asked[s as usize], peer + 1) != peer + 1
            {
                send[peer as usize].push(s);
            }
        }
    }
    for list in &mut send {
        list.sort_unstable();
        list.iter_mut().for_each(|s| *s = local[*s as usize]);
    }
    send
}

/// The rows `own` of the full block with columns renamed by `local`, as a block of `n_dst` rows (the
/// others are empty) by `n_src` columns.
pub(super) fn cut(
    full: &Block,
    own: &[u32],
    local: &[u32],
    (n_dst, n_src): (usize, usize),
) -> Result<Block> {
    let a = full.csr();
    let edges = own.iter().map(|&v| a.span(v as usize).len()).sum();
    let mut indptr = Vec::with_capacity(own.len() + 1);
    let mut indices = Vec::with_capacity(edges);
    let mut weights = a.weights.map(|_| Vec::with_capacity(edges));
    let mut types = full.types().map(|_| Vec::with_capacity(edges));
    indptr.push(0);
    for &v in own {
        let span = a.span(v as usize);
        indices.extend(a.indices[span.clone()].iter().map(|&s| local[s as usize]));
        if let (Some(to), Some(from)) = (&mut weights, a.weights) {
            to.extend_from_slice(&from[span.clone()]);
        }
        if let (Some(to), Some(from)) = (&mut types, full.types()) {
            to.extend_from_slice(&from[span]);
        }
        indptr.push(indices.len() as u64);
    }
    indptr.resize(n_dst + 1, indices.len() as u64);
    let block = Block::new(n_dst, n_src, indptr, indices, weights)?;
    match types {
        Some(types) => block.with_relations(Relations::new(types, full.n_relations())?),
        None => Ok(block),
    }
}
