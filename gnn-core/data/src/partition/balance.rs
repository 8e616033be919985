//! What parts should have equally much of, in METIS's terms: weights of vertices.

use metis::Idx;

use crate::graph::Graph;
use crate::partition::Request;
use crate::partition::undirected::undirected;
use crate::{Error, Result};

/// Words of a balance wish: `work` alone, or any of the others joined by `+`.
pub const BALANCES: &[&str] = &[
    "work",
    "vertices",
    "edges",
    "train",
    "val",
    "test",
    "types",
    "type-edges",
];

/// Whether a text is a wish: `work`, or words joined by `+`.
pub(super) fn is_wish(text: &str) -> bool {
    text == "work" || text.split('+').all(|word| BALANCES[1..].contains(&word))
}

/// Weights of the vertices, one column a constraint, `[n · constraints]`, and how many there are.
/// A constraint that no vertex has weight in is left out. `graph` is the undirected one, with
/// `edges` directed edges.
pub(super) fn weights(request: &Request, graph: &Graph, edges: Idx) -> Result<(Vec<Idx>, usize)> {
    if request.word("balance") == "work" {
        return Ok((work(graph, edges), 1));
    }
    let columns = columns(request, graph, edges)?;
    let constraints = columns.len();
    let mut weights = Vec::with_capacity(graph.n() * constraints);
    (0..graph.n()).for_each(|v| weights.extend(columns.iter().map(|(_, c)| c[v])));
    Ok((weights, constraints))
}

/// The weights of each constraint of a wish, with its name: `[n]` each.
fn columns(request: &Request, graph: &Graph, edges: Idx) -> Result<Vec<(String, Vec<Idx>)>> {
    let words: Vec<&str> = request.word("balance").split('+').collect();
    let n = graph.n();
    let all = |v: usize| v < n;
    let mut columns: Vec<(String, Vec<Idx>)> = Vec::new();
    // The types share all vertices among them, so balancing each balances all.
    if !words.contains(&"types") {
        columns.push(("vertices".into(), counts(n, all)));
    }
    if words.contains(&"edges") {
        columns.push(("edges".into(), incident(graph, edges, all)));
    }
    for (word, mask) in [
        ("train", request.train),
        ("val", request.val),
        ("test", request.test),
    ] {
        if words.contains(&word) {
            known(request, word, mask.len())?;
            columns.push((word.into(), counts(n, |v| mask[v])));
        }
    }
    for (word, by_edges) in [("types", false), ("type-edges", true)] {
        if !words.contains(&word) {
            continue;
        }
        known(request, word, request.node_types.len())?;
        let of = |t: u16| move |v: usize| request.node_types[v] == t;
        for t in 0..=request.node_types.iter().copied().max().unwrap_or(0) {
            let weights = if by_edges {
                incident(graph, edges, of(t))
            } else {
                counts(n, of(t))
            };
            columns.push((format!("{word} {t}"), weights));
        }
    }
    columns.retain(|(_, c)| c.iter().any(|&w| w > 0));
    Ok(columns)
}

/// What of a wish a cut misses: every balance of which some part has more than `1 + slack` of the
/// mean and the heaviest vertex, as a sentence. METIS aims at that, but promises it for no balance
/// when there are several.
pub(super) fn missed(request: &Request, owner: &[u32]) -> Result<Vec<String>> {
    if request.method.entry.name != "metis" || request.word("balance") == "work" {
        return Ok(Vec::new());
    }
    let simple = undirected(request.graph)?;
    let edges = Idx::try_from(simple.n_edges()).unwrap_or(Idx::MAX);
    let slack = request.number("slack");
    let mut missed = Vec::new();
    for (name, weights) in columns(request, &simple, edges)? {
        let mut load = vec![0i64; request.parts];
        for (&p, &w) in owner.iter().zip(&weights) {
            load[p as usize] += i64::from(w);
        }
        let mean = load.iter().sum::<i64>() as f64 / request.parts as f64;
        let heaviest = f64::from(weights.iter().copied().max().unwrap_or(0));
        let largest = load.into_iter().max().unwrap_or(0) as f64;
        if largest > (1.0 + slack) * mean + heaviest {
            missed.push(format!(
                "balance of {name} is missed: the largest part has {:.3} of the mean, {:.3} and one vertex was the aim",
                largest / mean,
                1.0 + slack
            ));
        }
    }
    Ok(missed)
}

/// How many constraints the wish makes, at most.
pub(super) fn constraints(request: &Request) -> usize {
    let types = usize::from(request.node_types.iter().copied().max().unwrap_or(0)) + 1;
    let wish = request.word("balance");
    if wish == "work" {
        return 1;
    }
    let words: Vec<&str> = wish.split('+').collect();
    let all = usize::from(!words.contains(&"types"));
    let of = |word: &&str| match *word {
        "types" | "type-edges" => types,
        "vertices" => 0,
        _ => 1,
    };
    all + words.iter().map(of).sum::<usize>()
}

fn known(request: &Request, word: &str, len: usize) -> Result<()> {
    if len == request.graph.n() {
        return Ok(());
    }
    Err(Error::Unsupported {
        what: format!("balance of {word}"),
        reason: "the data set does not say which vertices those are".into(),
        help: "balance vertices or edges, or choose another data set".into(),
    })
}

fn counts(n: usize, of: impl Fn(usize) -> bool) -> Vec<Idx> {
    (0..n).map(|v| Idx::from(of(v))).collect()
}

/// Incident edges of some vertices.
fn incident(graph: &Graph, edges: Idx, of: impl Fn(usize) -> bool) -> Vec<Idx> {
    let scale = (f64::from(Idx::MAX) / 4.0 / f64::from(edges.max(1))).min(1.0);
    let weight = |v: usize| (graph.in_degree(v) as f64 * scale) as Idx;
    (0..graph.n())
        .map(|v| if of(v) { weight(v) } else { 0 })
        .collect()
}

/// Incident edges plus their mean, scaled down where the sum would not fit into METIS's integers.
fn work(graph: &Graph, edges: Idx) -> Vec<Idx> {
    let n = graph.n();
    let mean = edges as usize / n + 1;
    let total = (edges as usize + n * mean) as f64;
    let scale = (f64::from(Idx::MAX) / 4.0 / total).min(1.0);
    (0..n)
        .map(|v| (((graph.in_degree(v) + mean) as f64 * scale) as Idx).max(1))
        .collect()
}

/// Moves vertices, lowest ids first, from parts above `1 + slack` of the mean weight plus the
/// heaviest vertex to the lightest parts. METIS stays below that on all but tiny graphs, and then
/// nothing moves. `weights: [n]`.
pub(super) fn relieve(owner: &mut [u32], weights: &[Idx], parts: usize, slack: f64) {
    let mut load = vec![0i64; parts];
    for (&p, &w) in owner.iter().zip(weights) {
        load[p as usize] += i64::from(w);
    }
    let total: i64 = load.iter().sum();
    let heaviest = i64::from(weights.iter().copied().max().unwrap_or(0));
    let most = ((1.0 + slack) * total as f64 / parts as f64) as i64 + heaviest;
    if load.iter().all(|&l| l <= most) {
        return;
    }
    for (p, &w) in owner.iter_mut().zip(weights) {
        if load[*p as usize] > most {
            let lightest = (0..parts)
                .min_by_key(|&q| load[q])
                .expect("at least one part");
            load[*p as usize] -= i64::from(w);
            load[lightest] += i64::from(w);
            *p = lightest as u32;
        }
    }
}
