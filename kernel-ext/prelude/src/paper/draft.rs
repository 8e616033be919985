//! Drafts: every run of a reproduction shortened and on less of its graph, to see in minutes that all of its cells
//! work.

use gnn_core::dataset::Sizes;
use gnn_core::spec::Value;
use launcher::check::Verdict;
use launcher::request::Pair;

/// Set to `1`, it makes every reproduction a draft.
const ASKED: &str = "HALOBOOK_DRAFT";
/// Epochs of a run: the warm-up, and one behind it.
const EPOCHS: i64 = 2;
/// What is left of a generated graph's vertices.
const PART: f64 = 0.5;

/// Whether a draft was asked for.
pub(super) fn asked() -> bool {
    std::env::var(ASKED).is_ok_and(|said| said == "1")
}

/// Leaves a request half of the vertices of a graph that is generated. Files are read whole; so is a graph for a
/// device of a size that was chosen for it, where less may not leave room for the weights.
pub(super) fn shrink(pairs: &mut [Pair]) {
    if !pairs.iter().any(|(key, _)| key == "device_mem") {
        shrink_to(PART, pairs);
    }
}

/// Leaves a request the fewest vertices that a graph of its kind can have.
pub(super) fn shrink_most(pairs: &mut [Pair]) {
    shrink_to(0.0, pairs);
}

fn shrink_to(part: f64, pairs: &mut [Pair]) {
    for (_, value) in pairs.iter_mut().filter(|(key, _)| key == "data") {
        if let Value::Str(data) = value {
            *data = smaller(data, part);
        }
    }
}

/// The same kind of graph with that part of the vertices, or with as few as it can have; files stay.
fn smaller(data: &str, part: f64) -> String {
    match Sizes::of(data) {
        // A little more than the least: a size is a rounded number.
        Some(sizes) => sizes.part((1.05 * sizes.least).clamp(part, 1.0)),
        None => data.to_owned(),
    }
}

/// Leaves a request no more than a draft's epochs, and no evaluation but behind the last.
pub(super) fn shorten(pairs: &mut Vec<Pair>) {
    let few =
        |(key, value): &Pair| key == "epochs" && value.as_f64().is_some_and(|n| n < EPOCHS as f64);
    if !pairs.iter().any(few) {
        let long = ["epochs", "eval_every"];
        pairs.retain(|(key, _)| !long.contains(&key.as_str()));
        pairs.extend(long.map(|key| (key.to_owned(), Value::Int(EPOCHS))));
    }
}

/// Only shows what does not hold: so short a run decides nothing.
pub(super) fn forgive(verdicts: &mut [Verdict]) {
    for verdict in verdicts.iter_mut().filter(|v| v.fails()) {
        verdict.shown = Some(format!("a draft of {EPOCHS} epochs on smaller graphs"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use launcher::check::Relation;
    use launcher::request::parse_body;

    fn shortened(body: &str) -> String {
        let mut pairs = parse_body(body).expect("a body");
        shorten(&mut pairs);
        let pairs: Vec<String> = pairs.iter().map(|(k, v)| format!("{k} = {v}")).collect();
        pairs.join("; ")
    }

    #[test]
    fn a_run_has_a_few_epochs_and_keeps_fewer() {
        let short = "ranks = 2; epochs = 2; eval_every = 2";
        assert_eq!(shortened("epochs = 200; ranks = 2"), short);
        assert_eq!(shortened("eval_every = 1; ranks = 2"), short);
        assert_eq!(shortened("epochs = 1; ranks = 2"), "epochs = 1; ranks = 2");
    }

    #[test]
    fn a_generated_graph_has_half_of_its_vertices() {
        assert_eq!(smaller("like:flickr", PART), "like:flickr,scale=0.5");
        assert_eq!(
            smaller("sbm:nodes=2000,classes=4", PART),
            "sbm:nodes=1000,classes=4"
        );
        assert_eq!(
            smaller("rmat:scale=14,feat=8", PART),
            "rmat:scale=13,feat=8"
        );
        for kept in ["karate", "/data/cora", "rmat:scale=x"] {
            assert_eq!(smaller(kept, PART), kept);
        }
        let mut pairs = parse_body("data = \"like:flickr\"; device_mem = 4MB").expect("a body");
        let before = pairs.clone();
        shrink(&mut pairs);
        assert_eq!(pairs, before);
        // As few vertices as its degrees need.
        let dense = smaller("like:reddit,scale=0.01", PART);
        let scale = dense.rsplit('=').next().and_then(|n| n.parse().ok());
        assert!(
            scale.is_some_and(|scale: f64| (0.0084..0.01).contains(&scale)),
            "{dense}"
        );
    }

    #[test]
    fn what_fails_is_shown_and_what_holds_stays() {
        let mut all = [1.0, 3.0].map(|left| Verdict::of(left, Relation::Less, 2.0, 0.0));
        forgive(&mut all);
        assert_eq!(all[0].shown, None);
        assert!(all[1].shown.is_some() && !all[1].fails());
    }
}
