//! Look-alikes at small scales against the published numbers.

use super::*;
use crate::load::load;

/// The smallest scale that is quick and still has a tail.
fn small(like: &Published) -> f64 {
    let by_edges = 60_000.0 / like.edges() as f64;
    let least = 1.2 * 16.0 / like.split[0] / like.types[0].count as f64;
    let room = 4.5 * like.edges() as f64 / (like.vertices() as f64).powi(2);
    let classes = 8.0 * like.classes as f64 / like.vertices() as f64;
    by_edges.max(least).max(room).max(classes).min(1.0)
}

#[test]
fn every_look_alike_has_the_published_shape() {
    for like in &ALL {
        let scale = small(like);
        let name = format!("like:{},scale={scale}", like.name);
        let d = load(&name, 1).expect(&name);
        assert!(d.synthetic && d.name.contains("synthetic"), "{}", d.name);
        let near = |got: f64, want: f64, within: f64, what: &str| {
            let off = (got / want - 1.0).abs();
            assert!(off < within, "{name}: {what} {got}, published {want}");
        };
        let doubled = if like.is_typed() { 2.0 } else { 1.0 };
        let ratio = d.graph.n_edges() as f64 / doubled / d.n() as f64;
        let want = like.edges() as f64 / like.vertices() as f64;
        near(ratio, want, 0.06, "edges a vertex");
        near(
            d.n() as f64,
            like.vertices() as f64 * scale,
            0.01,
            "vertices",
        );
        let (width, dense) = match like.width {
            Width::Dense(width) => (width, true),
            Width::Words(width, _) => (width, false),
        };
        assert_eq!((d.features.dim(), d.n_classes), (width, like.classes));
        assert_eq!(matches!(d.features, Features::Dense(_)), dense);
        assert_eq!(d.task == Task::MultiLabel, like.several);
        let share = |mask: &[bool]| {
            let first =
                (d.n() as f64 * like.types[0].count as f64 / like.vertices() as f64).round();
            (mask.iter().filter(|&&m| m).count() as f64, first)
        };
        for (mask, want) in [&d.train, &d.val, &d.test].into_iter().zip(like.split) {
            let (got, of) = share(mask);
            let deviation = (of * want * (1.0 - want)).sqrt();
            assert!(
                (got - of * want).abs() < 5.0 * deviation + 1.0,
                "{name}: {got} of {of}"
            );
        }
        if !like.is_typed() {
            assert_eq!(d.graph.relations(), None);
            assert_eq!(d.graph.is_symmetric(), like.both_directions, "{name}");
            // The tail at this scale: what n^-(1-s) of the edges is here.
            let most = (0..d.n())
                .map(|v| d.graph.in_degree(v))
                .max()
                .expect("vertices") as f64;
            let slope =
                -(like.largest as f64 / like.edges() as f64).ln() / (like.vertices() as f64).ln();
            let want = d.graph.n_edges() as f64 * (d.n() as f64).powf(-slope);
            assert!(
                most > 0.2 * want.min(d.n() as f64) && most < 3.0 * want,
                "{name}: largest degree {most}, expected about {want}"
            );
        } else {
            let relations = d.graph.relations().expect("typed");
            assert_eq!(relations.count(), 2 * like.relations.len());
            let types = d.node_types.as_ref().expect("typed");
            for (t, kind) in like.types.iter().enumerate() {
                let count = types.iter().filter(|&&x| usize::from(x) == t).count() as f64;
                near(count, (kind.count as f64 * scale).max(1.0), 0.2, kind.name);
            }
            for v in 0..d.n() {
                let start = d.graph.indptr()[v] as usize;
                for (e, &s) in (start..).zip(d.graph.neighbours(v)) {
                    let r = usize::from(relations.types()[e]);
                    let (relation, inverse) = (
                        &like.relations[r % like.relations.len()],
                        r >= like.relations.len(),
                    );
                    let ends = if inverse {
                        (relation.to, relation.from)
                    } else {
                        (relation.from, relation.to)
                    };
                    assert_eq!(ends, (types[s as usize].into(), types[v].into()), "{name}");
                }
            }
        }
    }
}

#[test]
fn classes_are_communities_as_far_as_published() {
    for (name, within) in [
        ("physics,scale=0.3", 0.931),
        ("flickr,scale=0.2", 0.32),
        ("squirrel", 0.222),
    ] {
        let d = load(&format!("like:{name}"), 0).expect("valid");
        let same = (0..d.n()).map(|v| {
            let row = d.graph.neighbours(v).iter();
            row.filter(|&&u| d.labels[u as usize] == d.labels[v])
                .count()
        });
        let share = same.sum::<usize>() as f64 / d.graph.n_edges() as f64;
        assert!((share - within).abs() < 0.06, "{name}: {share}");
    }
}

#[test]
fn classes_with_few_to_train_on_have_about_as_many_each() {
    for (name, few) in [
        ("ogbn-papers100M,scale=0.0002", true),
        ("flickr,scale=0.02", false),
    ] {
        let d = load(&format!("like:{name}"), 3).expect("valid");
        let of = |mask: &[bool]| {
            let mut counts = vec![0usize; d.n_classes];
            let chosen = (0..d.n()).filter(|&v| mask[v]);
            chosen.for_each(|v| counts[d.labels[v] as usize] += 1);
            let (least, most) = (counts.iter().min(), counts.iter().max());
            (*least.expect("classes"), *most.expect("classes"))
        };
        // 22 212 vertices of 172 classes, of which 1.1 % train: 1.4 of each.
        let (least, most) = of(&d.train);
        assert_eq!(least >= 1 && most <= 3, few, "{name}: {least} to {most}");
        let parts = [&d.train, &d.val, &d.test];
        let twice = (0..d.n()).filter(|&v| parts.iter().filter(|m| m[v]).count() > 1);
        assert_eq!(twice.count(), 0);
    }
}

#[test]
fn look_alikes_depend_on_seed_and_name_only_and_wrong_ones_are_helped() {
    let of = |seed| load("like:flickr,scale=0.02", seed).expect("valid");
    let (a, b, c) = (of(1), of(1), of(2));
    assert_eq!(
        (&a.graph, &a.features, &a.labels, &a.train),
        (&b.graph, &b.features, &b.labels, &b.train)
    );
    assert_ne!(a.graph, c.graph);
    let error = |name: &str| load(name, 0).unwrap_err();
    assert_eq!(
        error("like:redit").to_string(),
        "unknown look-alike 'redit'; did you mean 'reddit'?"
    );
    assert!(error("like:friendster").help().contains("scale="));
    assert!(
        error("like:reddit,scale=0.0001")
            .help()
            .contains("at least")
    );
    assert!(error("like:reddit,size=2").to_string().contains("size"));
    assert!(
        error("like:reddit,scale=2")
            .to_string()
            .contains("out of range")
    );
}

#[test]
fn an_order_is_a_bijection() {
    for n in [1, 2, 3, 5, 64, 100, 1000] {
        let order = Order::new(n, 7);
        let mut ids: Vec<u64> = (0..n).map(|r| order.id(r)).collect();
        ids.sort_unstable();
        assert_eq!(ids, (0..n).collect::<Vec<_>>());
    }
}
