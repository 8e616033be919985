//! The order of vertices in memory is nobody's business but the caches'.

use super::*;

/// Sums are rounded in another order; that is all.
#[test]
fn sorting_vertices_changes_rounding_alone() {
    let plain = Arc::new(random_dataset(70, 300, 6, 3, false, 8));
    let typed = random_dataset(70, 300, 6, 3, false, 8);
    let typed = Arc::new(with_relations(typed, 3, 2));
    let single = &STRATEGIES[0];
    for model in coupled(single) {
        let data = if model == ModelKind::Rgcn {
            &typed
        } else {
            &plain
        };
        let run = |order: VertexOrder| {
            let mut spec = spec(single, model, 2, 8);
            spec.vertex_order = order;
            train(single, &spec, data, None, 1).swap_remove(0)
        };
        let given = run(VertexOrder::Given);
        for order in [VertexOrder::Degree, VertexOrder::Community] {
            let what = format!("{model} by {}", order.name());
            assert_same_but_rounding(&what, &given, &run(order));
        }
    }
}

fn assert_same_but_rounding(what: &str, given: &Trained, sorted: &Trained) {
    assert_ne!(given.ids, sorted.ids);
    for (a, b) in given.losses.iter().zip(&sorted.losses) {
        assert!(close(*a, *b, 0.0, 1e-5), "{what}: {a} and {b}");
    }
    let scale = largest(&given.logits);
    for (row, &v) in sorted.ids.iter().enumerate() {
        let expected = given.logits.row(v as usize);
        for (a, b) in sorted.logits.row(row).iter().zip(expected) {
            let (a, b) = (f64::from(*a), f64::from(*b));
            assert!(close(a, b, scale, 1e-4), "{what}: {a} and {b}");
        }
    }
}
