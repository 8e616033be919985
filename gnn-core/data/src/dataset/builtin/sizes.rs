//! Generated data at other sizes: what a forecast extrapolates from.

use super::{like, rmat, sbm};

/// How large a generated data set is, known without making it, and smaller ones of the same kind.
pub struct Sizes {
    /// Edges, each direction counted.
    pub edges: f64,
    /// Numbers that its features are stored as.
    pub elements: f64,
    /// The smallest share of it that has its degrees and classes.
    pub least: f64,
    pub(super) part: Box<dyn Fn(f64) -> String>,
}

impl Sizes {
    /// Those of the data set of that name; none of files, of `karate`, and of names with a mistake.
    pub fn of(name: &str) -> Option<Sizes> {
        let (kind, rest) = name.split_once(':')?;
        match kind.trim() {
            "like" => like::sizes(rest),
            "rmat" => rmat::sizes(rest),
            "sbm" => sbm::sizes(rest),
            _ => None,
        }
    }

    /// The name of the data set of that share of the vertices, with the same degrees and widths.
    pub fn part(&self, share: f64) -> String {
        (self.part)(share)
    }
}

/// What follows in a name when `key` is given anew.
pub(super) fn others(spec: &str, key: &str) -> String {
    let pairs = spec.split(',').map(str::trim);
    let kept = pairs.filter(|pair| {
        let name = pair.split('=').next().unwrap_or_default().trim();
        !name.is_empty() && name != key
    });
    kept.map(|pair| format!(",{pair}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::load;

    #[test]
    fn a_part_has_that_share_of_vertices_and_edges() {
        for name in [
            "sbm:classes=4,nodes=4000,degree=12",
            "rmat:scale=13,feat=8",
            "like:flickr,scale=0.2",
        ] {
            let sizes = Sizes::of(name).expect("a generator");
            assert!(sizes.least < 0.25, "{name}: {}", sizes.least);
            let whole = load(name, 0).expect("loads");
            let part = load(&sizes.part(0.25), 0).expect("loads");
            let share = part.n() as f64 / whole.n() as f64;
            assert!(
                (share - 0.25).abs() < 0.01,
                "{name}: {share} of the vertices"
            );
            let edges = whole.graph.n_edges() as f64 / sizes.edges;
            assert!((0.6..1.3).contains(&edges), "{name}: {edges}");
            assert_eq!(part.features.dim(), whole.features.dim());
        }
    }

    #[test]
    fn what_is_read_has_no_sizes() {
        for name in ["karate", "sbm:nodes=x", "like:nothing", "folder/of:mine"] {
            assert!(Sizes::of(name).is_none(), "{name}");
        }
    }
}
