//! Stored graphs: what is written comes back; damage is found or harmless, and never a panic.
//! Not caught here: a file that another process changes while it is mapped.

use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::*;
use crate::dataset::{About, DataSpec, Dataset, Features, TaskKind, TypeCount};
use crate::load::{load, load_for};
use crate::testing::{random_dataset, with_relations};

/// A folder with a stored graph that is removed when dropped.
fn stored(data: &Dataset) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = dir.path().join("a.halo");
    save(data, "test", None, &path).expect("a valid data set");
    (dir, path)
}

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary paths are UTF-8")
}

/// The same but for where features and graph lie.
fn same(a: &Dataset, b: &Dataset) {
    assert_eq!(a.graph, b.graph);
    assert_eq!(
        a.features.clone().into_memory(),
        b.features.clone().into_memory()
    );
    assert_eq!(
        (&a.labels, &a.train, &a.val, &a.test),
        (&b.labels, &b.train, &b.val, &b.test)
    );
    assert_eq!(
        (&a.name, a.n_classes, a.synthetic, a.task),
        (&b.name, b.n_classes, b.synthetic, b.task)
    );
    let said = |d: &Dataset| About {
        format: "",
        ..d.about.clone()
    };
    assert_eq!(said(a), said(b));
    assert_eq!(
        (&a.multi_labels, &a.node_types, &a.links),
        (&b.multi_labels, &b.node_types, &b.links)
    );
}

#[test]
fn what_is_written_is_loaded_again() {
    let mut typed = with_relations(random_dataset(50, 300, 4, 3, false, 1), 5, 2);
    typed.node_types = Some((0..50).map(|v| v % 3).collect());
    typed.about.types.vertices = ["a", "b", "c"]
        .map(|name| TypeCount {
            name: name.into(),
            count: 17,
        })
        .into();
    typed.about.ids = Some((0..50).map(|v| format!("v\"{v}\n")).collect());
    typed.about.notes = vec!["a note".into()];
    let mut unlabelled = random_dataset(30, 80, 2, 2, false, 3);
    unlabelled.labels = vec![-1; 30];
    unlabelled.features = Features::Identity(30);
    unlabelled.train = vec![false; 30];
    (unlabelled.val, unlabelled.test) = (vec![false; 30], vec![false; 30]);
    let links = DataSpec {
        data: "sbm:nodes=60",
        task: TaskKind::Link,
        ..DataSpec::default()
    };
    for data in [
        random_dataset(40, 200, 3, 4, false, 4),
        random_dataset(40, 200, 6, 4, true, 5),
        typed,
        unlabelled,
        load("sbm:nodes=100,multilabel=true", 0).expect("built in"),
        load_for(links, &Verdicts::none()).expect("built in"),
    ] {
        let (dir, path) = stored(&data);
        let got = load(text(&path), 0).expect("just written");
        same(&data, &got);
        let dense = matches!(data.features, Features::Dense(_));
        assert_eq!(matches!(got.features, Features::Mapped { .. }), dense);
        Stored::open(&path).expect("opens").verify().expect("whole");
        // A mapped data set can be written again, over the file that it is mapped from.
        save(&got, "test", Some(&vec![7; data.n()]), &path).expect("valid");
        same(&data, &got);
        let again = Stored::open(&path).expect("opens");
        same(&data, &again.dataset().expect("valid"));
        let ids = again.vertex_ids().expect("one a vertex").expect("written");
        assert_eq!(&ids[..], &vec![7; data.n()][..]);
        let names = std::fs::read_dir(dir.path()).expect("a folder");
        assert_eq!(names.count(), 1, "nothing temporary stays");
    }
}

#[test]
fn a_folder_means_the_graph_in_it_and_rows_are_taken_from_the_map() {
    let data = random_dataset(40, 200, 3, 4, false, 6);
    let dir = tempfile::tempdir().expect("a temporary folder");
    save(&data, "test", None, &dir.path().join(IN_FOLDER)).expect("valid");
    let mut got = load(text(dir.path()), 0).expect("just written");
    same(&data, &got);
    let ids = [7, 0, 39];
    assert_eq!(
        got.features.select_rows(&ids),
        data.features.select_rows(&ids)
    );
    let mut expected = data.features.clone();
    expected.row_normalise();
    got.features.row_normalise();
    assert_eq!(got.features, expected);
    let e = crate::load::load_split(text(dir.path()), "3", 0).unwrap_err();
    assert!(e.to_string().contains("no split '3'"), "{e}");
}

#[test]
fn what_was_let_go_is_read_again() {
    let data = with_relations(random_dataset(400, 3000, 30, 4, false, 6), 3, 1);
    let (_dir, path) = stored(&data);
    let got = load(text(&path), 0).expect("just written");
    for rows in [0..400, 5..5, 17..399, 0..1] {
        got.graph.release(rows);
        same(&data, &got);
    }
    let Features::Mapped { values, .. } = &got.features else {
        panic!("dense features are mapped");
    };
    // Nothing happens to what is not there.
    values.release(7..values.len() + 1);
    values.release(0..values.len());
    let ids: Vec<u32> = (0..400).rev().chain([3, 3]).collect();
    assert_eq!(
        got.features.select_rows(&ids),
        data.features.select_rows(&ids)
    );
}

#[test]
fn nothing_to_train_on_is_refused_when_a_run_asks_for_it() {
    let mut data = random_dataset(30, 80, 2, 2, false, 3);
    data.train.fill(false);
    let (_dir, path) = stored(&data);
    let spec = DataSpec {
        data: text(&path),
        ..DataSpec::default()
    };
    assert!(load(spec.data, 0).is_ok());
    let e = load_for(spec, &Verdicts::none()).unwrap_err();
    assert!(e.to_string().contains("selects no vertex"), "{e}");
}

/// The file with its header changed and every checksum of it right again.
fn forged(path: &Path, change: impl FnOnce(&mut Header)) -> Result<Dataset, Error> {
    let mut bytes = std::fs::read(path).expect("just written");
    let mut header = Header::decode("f", &bytes).expect("just written");
    change(&mut header);
    let first = header.encode("f", bytes.len() as u64).expect("short");
    bytes[..first.len()].copy_from_slice(&first);
    let other = path.with_file_name("forged.halo");
    std::fs::write(&other, bytes).expect("a writable folder");
    load(text(&other), 0)
}

#[test]
fn what_a_header_claims_falsely_is_refused_with_its_place() {
    let data = with_relations(random_dataset(40, 200, 3, 4, false, 7), 3, 1);
    let (_dir, path) = stored(&data);
    type Change = fn(&mut Header);
    let cases: [(Change, &str); 12] = [
        (|h| h.vertices = 41, "indptr: expected 42 elements"),
        (|h| h.vertices = 0, "no vertices"),
        (|h| h.vertices = u64::MAX, "more than training takes"),
        (
            |h| h.edges = 1 << 61,
            "indices: expected 2305843009213693952",
        ),
        (|h| h.feature_width = u64::MAX / 2, "header: features of"),
        (|h| h.feature_width = 4, "feat: expected 160 elements"),
        (|h| h.classes = 1, "outside 0..1"),
        (|h| h.classes = 1 << 40, "classes, more than"),
        (|h| h.relations = Some(1), "edge_type: expected types["),
        (|h| h.sections[0].offset += 8, "not aligned"),
        (|h| h.sections[0].bytes = u64::MAX - 7, "outside the file"),
        (|h| h.sections[0].kind = "f64".into(), "unknown type 'f64'"),
    ];
    for (change, part) in cases {
        let e = forged(&path, change).expect_err(part);
        assert!(e.to_string().contains(part), "{part}: {e}");
        assert!(!e.help().is_empty() && !e.to_string().contains('\n'));
    }
    let swapped = forged(&path, |h| h.sections.swap(0, 1));
    same(&data, &swapped.expect("order does not matter"));
}

#[test]
fn structure_out_of_range_is_refused_at_opening() {
    let data = random_dataset(40, 200, 3, 4, false, 8);
    let (_dir, path) = stored(&data);
    let whole = std::fs::read(&path).expect("just written");
    let header = Header::decode("f", &whole).expect("just written");
    let cases: [(&str, usize, u8, &str); 5] = [
        ("indices", 3, 200, "sources below 40"),
        ("indptr", 8 * 5 + 6, 1, "indptr[6] >= "),
        ("indptr", 0, 1, "row starts from 0"),
        ("label", 3, 0x7f, "class 21"),
        ("split", 2, 9, "9 of vertex 2"),
    ];
    for (name, at, value, part) in cases {
        let mut bytes = whole.clone();
        let section = header.section(name).expect("written");
        bytes[section.offset as usize + at] = value;
        std::fs::write(&path, bytes).expect("a writable folder");
        let e = load(text(&path), 0).expect_err(part);
        assert!(e.to_string().contains(part), "{part}: {e}");
        assert!(
            e.to_string().contains(name) || e.to_string().contains("graph"),
            "{e}"
        );
    }
}

#[test]
fn other_machines_and_newer_versions_are_told_apart_from_damage() {
    let (_dir, path) = stored(&random_dataset(10, 20, 2, 2, false, 9));
    let whole = std::fs::read(&path).expect("just written");
    let with = |at: usize, new: &[u8]| {
        let mut bytes = whole.clone();
        bytes[at..at + new.len()].copy_from_slice(new);
        Header::decode("f", &bytes).unwrap_err().to_string()
    };
    assert!(with(8, &[1, 2, 3, 4]).contains("other byte order"));
    assert!(with(8, &[9]).contains("byte order mark"));
    assert!(with(12, &[200]).contains("version 200"));
    assert!(with(0, b"PK").contains("does not begin"));
    assert!(with(16, &[0xff]).contains("damaged in its first"));
    assert!(with(80, &[0xff]).contains("checksum"));
    let short = Header::decode("f", &whole[..whole.len() - 1]).unwrap_err();
    assert!(short.to_string().contains("expected a file of"), "{short}");
}

#[test]
fn a_writer_that_is_given_up_leaves_what_was_there() {
    let data = random_dataset(10, 20, 2, 2, false, 9);
    let (dir, path) = stored(&data);
    let mut writer = Writer::create(&path).expect("a writable folder");
    writer.put("indptr", &[0u64; 11]).expect("space");
    drop(writer);
    same(&data, &load(text(&path), 0).expect("untouched"));
    // No process has this number: what a killed one left is removed by the next writer.
    let left = dir.path().join("a.halo.tmp-4294967295");
    std::fs::write(&left, "half").expect("a writable folder");
    save(&data, "test", None, &path).expect("valid");
    assert_eq!(std::fs::read_dir(dir.path()).expect("a folder").count(), 1);
}

#[test]
fn sections_filled_piece_by_piece_equal_those_written_at_once() {
    let values: Vec<u32> = (0..700_000).collect();
    let dir = tempfile::tempdir().expect("a temporary folder");
    let header = {
        let (_dir, path) = stored(&random_dataset(10, 20, 2, 2, false, 9));
        Stored::open(&path).expect("opens").header().clone()
    };
    let path = dir.path().join("a.halo");
    let mut writer = Writer::create(&path).expect("writable");
    let mut first = writer.section::<u32>("first", values.len() as u64);
    let mut last = writer.last_section::<u32>("last");
    for &v in &values {
        first.push(v).and_then(|()| last.push(v)).expect("space");
    }
    assert_eq!(last.count(), 700_000);
    writer
        .close(first)
        .and_then(|()| writer.close(last))
        .expect("space");
    writer.put("whole", &values).expect("space");
    writer.finish(header).expect("space");
    let got = Stored::open(&path).expect("opens");
    got.verify().expect("whole");
    let sums: Vec<u64> = got.header().sections.iter().map(|s| s.checksum).collect();
    assert!(sums.iter().all(|&s| s == sums[0]), "{sums:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn damaged_files_are_refused_or_read_but_never_panic(
        kind in 0..4usize, at in 0.0f64..1.0, bits in 1u8..=255, truncate: bool,
    ) {
        let mut data = random_dataset(20, 60, 3, 3, kind == 1, 1);
        if kind == 2 {
            data = with_relations(data, 4, 1);
        }
        if kind == 3 {
            data = load("sbm:nodes=30,multilabel=true", 0).expect("built in");
        }
        let (_dir, path) = stored(&data);
        let mut bytes = std::fs::read(&path).expect("just written");
        let k = (bytes.len() as f64 * at) as usize;
        if truncate {
            bytes.truncate(k);
        } else {
            bytes[k] ^= bits;
        }
        std::fs::write(&path, &bytes).expect("a writable folder");
        let opened = Stored::open(&path);
        prop_assert!(!truncate || opened.is_err());
        if let Ok(opened) = opened {
            // Between sections are zeros that nobody reads.
            let inside = |s: &Section| (s.offset..s.offset + s.bytes).contains(&(k as u64));
            let hit = opened.header().sections.iter().any(inside);
            prop_assert_eq!(opened.verify().is_err(), hit);
        }
        if let Ok(d) = load(text(&path), 0) {
            prop_assert_eq!(d.n(), data.n());
            let rows: usize = (0..d.n()).map(|v| d.graph.neighbours(v).len()).sum();
            prop_assert_eq!(rows, d.graph.n_edges());
            d.graph.propagation(crate::graph::Propagation::GcnSym);
        }
    }

    #[test]
    fn any_bytes_are_no_stored_graph_but_never_a_panic(mut bytes in prop::collection::vec(any::<u8>(), 1..300), real: bool) {
        if real {
            let (_dir, path) = stored(&random_dataset(5, 9, 2, 2, false, 1));
            let whole = std::fs::read(&path).expect("just written");
            bytes = [&whole[..64], &bytes, &whole[64..]].concat();
        }
        prop_assert!(Header::decode("f", &bytes).is_err());
    }
}
