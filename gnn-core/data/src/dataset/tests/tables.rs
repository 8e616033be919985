//! Data sets from tables: what ids become vertices, what is refused.

use super::*;
use crate::graph::EdgeOptions;

fn ints(x: &[i64]) -> Column {
    Column::Ints(x.to_vec())
}

fn texts(x: &[&str]) -> Column {
    Column::Texts(x.iter().collect())
}

fn edges(source: Column, target: Column) -> EdgeTable {
    EdgeTable {
        source,
        target,
        relation: None,
    }
}

fn made(edges: EdgeTable, vertices: Option<VertexTable>) -> Result<Dataset> {
    let limit = Limit::new(1 << 20);
    Dataset::from_tables("t", edges, vertices, EdgeOptions::SIMPLE, &limit)
}

#[test]
fn numbers_without_wide_gaps_stay_and_others_are_renumbered_in_order() {
    let d = made(edges(ints(&[0, 1, 4]), ints(&[1, 3, 1])), None).expect("valid");
    assert_eq!((d.n(), d.graph.n_edges(), d.about.ids), (5, 6, None));
    assert_eq!(d.graph.neighbours(1), [0, 3, 4]);
    let far = i64::MAX;
    let d = made(edges(ints(&[far, 100]), ints(&[100, 7])), None).expect("valid");
    assert_eq!((d.n(), d.n_classes), (3, 0));
    assert_eq!(d.graph.neighbours(1), [0, 2]);
    let ids = d.about.ids.expect("renumbered");
    assert_eq!(
        ids.iter().collect::<Vec<_>>(),
        ["7", "100", "9223372036854775807"]
    );
}

#[test]
fn names_labels_splits_types_and_relations_are_kept() {
    let table = EdgeTable {
        relation: Some(texts(&["knows", "likes", "knows"])),
        ..edges(texts(&["bo", "al", "cy"]), texts(&["al", "cy", "bo"]))
    };
    let vertices = VertexTable {
        id: Some(texts(&["al", "bo", "cy", "di"])),
        label: Some(texts(&["red", "blue", "", "red"])),
        split: Some(texts(&["train", "valid", "", "test"])),
        kind: Some(texts(&["person", "person", "cat", "cat"])),
        features: Some(Mat::from_elem((4, 2), 0.5)),
    };
    let d = made(table, Some(vertices)).expect("valid");
    assert_eq!(d.labels, [1, 0, -1, 1]);
    assert_eq!(d.about.classes, ["blue", "red"]);
    assert_eq!(
        (d.train, d.test),
        (
            vec![true, false, false, false],
            vec![false, false, false, true]
        )
    );
    let count = |name: &str, count| TypeCount {
        name: name.into(),
        count,
    };
    assert_eq!(
        d.about.types.vertices,
        [count("person", 2), count("cat", 2)]
    );
    let relations = [("knows", 2), ("likes", 1), ("knows^-1", 2), ("likes^-1", 1)];
    assert_eq!(d.about.types.relations, relations.map(|(n, c)| count(n, c)));
    assert_eq!(d.graph.neighbours(0), [1, 2]);
    let none = made(edges(texts(&["b", "a"]), texts(&["a", "c"])), None).expect("valid");
    let ids = none.about.ids.expect("names");
    assert_eq!(ids.iter().collect::<Vec<_>>(), ["b", "a", "c"]);
}

#[test]
fn wrong_tables_are_refused_with_column_and_row() {
    let says = |edges: EdgeTable, vertices: VertexTable, want: &str| {
        let e = made(edges, Some(vertices)).expect_err("a wrong table");
        assert!(matches!(e, Error::Data { .. }), "{e}");
        assert!(e.to_string().contains(want), "{e}");
    };
    let pair = || edges(ints(&[0]), ints(&[1]));
    let with = |id: Column| VertexTable {
        id: Some(id),
        ..VertexTable::default()
    };
    says(
        edges(ints(&[0, 1]), ints(&[1])),
        VertexTable::default(),
        "target: expected 2 rows",
    );
    says(pair(), with(ints(&[0, 0])), "id[1]: '0' is there twice");
    says(
        pair(),
        with(ints(&[0, 2])),
        "target[0]: no vertex has the id '1'",
    );
    says(
        edges(ints(&[0, -4]), ints(&[1, 1])),
        VertexTable::default(),
        "source[1]: vertex -4 is negative",
    );
    let short = VertexTable {
        label: Some(ints(&[0])),
        ..with(ints(&[0, 1]))
    };
    says(pair(), short, "label: expected 2 rows");
    let nan = VertexTable {
        features: Some(Mat::from_elem((2, 1), f32::NAN)),
        ..VertexTable::default()
    };
    says(pair(), nan, "feat[0, 0]: NaN");
    let small = Limit::new(1000);
    let many: Vec<i64> = (0..100).collect();
    let e = Dataset::from_tables(
        "t",
        edges(ints(&many), ints(&many)),
        None,
        EdgeOptions::SIMPLE,
        &small,
    );
    assert!(
        e.expect_err("too much")
            .to_string()
            .contains("reading may take 1000 bytes in all")
    );
}
