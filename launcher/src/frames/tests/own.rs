//! Frames that strategies add, of strategies that nobody here knows and of ones that never wrote them down.

use super::*;
use gnn_core::record::frame::{Column, Schema};
use std::fs::File;

const SCHEMA: &str = r#"[{
    "name": "drift", "doc": "How far rows have moved.", "sort": ["epoch", "rank", "layer"],
    "columns": [
        {"name": "epoch", "type": "u32", "unit": "", "doc": "Epoch, from 0."},
        {"name": "rank", "type": "u32", "unit": "", "doc": ""},
        {"name": "layer", "type": "u16", "unit": "", "doc": "Layer, from 0."},
        {"name": "kind", "type": "str", "unit": "", "doc": "Of what."},
        {"name": "move_pct", "type": "f64", "unit": "%", "doc": "By how much."}
    ]
}]"#;

fn append(dir: &Path, rank: u32, lines: &[&str]) {
    let path = dir.join(format!("rows/rank-{rank}.jsonl"));
    let mut file = File::options().append(true).open(path).expect("rows");
    for line in lines {
        writeln!(file, "{line}").expect("appends");
    }
}

/// A run of two whole epochs whose strategy added the frame `drift`.
fn drifting() -> tempfile::TempDir {
    let dir = folder();
    std::fs::write(dir.path().join("frames.json"), SCHEMA).expect("writes");
    append(
        dir.path(),
        1,
        &[
            r#"{"epoch":0,"rank":1,"layer":1,"kind":"b","move_pct":2.5,"frame":"drift"}"#,
            r#"{"epoch":0,"rank":1,"layer":0,"kind":"a","move_pct":null,"frame":"drift"}"#,
        ],
    );
    append(
        dir.path(),
        0,
        &[
            r#"{"epoch":1,"rank":0,"layer":0,"kind":"a","move_pct":1,"frame":"drift"}"#,
            r#"{"epoch":0,"rank":0,"layer":0,"kind":"a","move_pct":0.5,"frame":"drift"}"#,
            r#"{"epoch":2,"rank":0,"layer":0,"kind":"a","move_pct":9.5,"frame":"drift"}"#,
        ],
    );
    dir
}

#[test]
fn a_frame_is_read_by_what_the_run_folder_says_of_it() {
    let dir = drifting();
    let lines = [
        r#""epoch":0,"rank":0,"layer":0,"kind":"a","move_pct":0.5"#,
        r#""epoch":0,"rank":1,"layer":0,"kind":"a","move_pct":null"#,
        r#""epoch":0,"rank":1,"layer":1,"kind":"b","move_pct":2.5"#,
        r#""epoch":1,"rank":0,"layer":0,"kind":"a","move_pct":1.0"#,
    ];
    let check = |frame: &DataFrame| {
        let got = json_lines(frame);
        assert_eq!(got.len(), lines.len(), "epoch 2 is not whole: {got:?}");
        for (got, wanted) in got.iter().zip(lines) {
            assert!(got.contains(wanted), "{got}");
        }
    };
    check(&load(dir.path(), "drift").expect("builds"));
    let names = names_of(dir.path()).expect("reads");
    assert_eq!(names[3..6], ["comm", "drift", "spans"]);
    let mut manifest = sample("20260102-030405-abcd");
    write_all(dir.path(), &mut manifest).expect("writes");
    std::fs::remove_dir_all(dir.path().join("rows")).expect("only Parquet is left");
    check(&load(dir.path(), "drift").expect("loads"));
    assert!(
        !path(dir.path(), "stale").exists(),
        "this strategy has no such frame"
    );
}

#[test]
fn frames_of_other_strategies_are_empty_and_unknown_ones_refused() {
    let dir = drifting();
    append(dir.path(), 0, &[r#"{"epoch":0,"rank":0,"frame":"hops"}"#]);
    for (frame, column) in [
        ("stale", "bytes_saved"),
        ("batches", "seeds"),
        ("hops", "columns"),
    ] {
        let frame = load(dir.path(), frame).expect("a frame of a built-in strategy");
        let names = frame.get_column_names();
        assert!(frame.height() == 0 && names.iter().any(|name| *name == column));
        assert_eq!(names[..3], ["run_id", "epoch", "rank"]);
        assert_eq!(names[names.len() - 3..], ["synthetic", "link", "slow"]);
    }
    assert!(load(dir.path(), "drifts").is_err() && load(dir.path(), "../drift").is_err());
    assert!(load(folder().path(), "drift").is_err(), "of another run");
}

#[test]
fn runs_without_schemas_have_those_of_built_in_strategies() {
    let dir = folder();
    let row = r#"{"epoch":0,"rank":1,"layer":0,"rows":4,"columns":9,"edges":12,"distinct_rows":4,"redundancy":1.0,"frame":"hops"}"#;
    append(
        dir.path(),
        1,
        &[&row.replace(r#""layer":0"#, r#""layer":1"#), row],
    );
    let hops = load(dir.path(), "hops").expect("builds");
    let layers = hops.column("layer").expect("there").u16().expect("u16");
    assert_eq!(layers.iter().collect::<Vec<_>>(), [Some(0), Some(1)]);
    assert_eq!(float(&hops, "redundancy", 1), 1.0);
}

#[test]
fn a_cell_of_another_type_is_found_and_named() {
    let dir = drifting();
    append(
        dir.path(),
        0,
        &[r#"{"epoch":0,"rank":0,"layer":-1,"frame":"drift"}"#],
    );
    let error = load(dir.path(), "drift").unwrap_err();
    assert!(
        error
            .to_string()
            .contains("column layer of frame drift: -1"),
        "{error}"
    );
    load(dir.path(), "epochs").expect("other frames do not look at it");
}

#[test]
fn every_frame_is_listed_with_words() {
    let dir = drifting();
    let schemas = schemas(Some(dir.path())).expect("reads");
    let names: Vec<&str> = schemas.iter().map(|schema| schema.name.as_str()).collect();
    assert_eq!(names, names_of(dir.path()).expect("reads"));
    let text = listed(&schemas);
    assert!(text.contains("drift: How far rows have moved.\n"), "{text}");
    assert!(
        text.contains("  move_pct      f64   %       By how much.\n"),
        "{text}"
    );
    let all = super::super::schemas(None).expect("those there are");
    for Schema { name, columns, .. } in &all {
        for column in columns {
            assert!(!column.doc.is_empty(), "{} of {name}", column.name);
        }
        let frame = load(dir.path(), name).expect(name);
        let listed = columns.iter().map(|column| column.name.as_str());
        let built = frame
            .get_column_names()
            .into_iter()
            .map(|name| name.as_str());
        let built: Vec<&str> = built
            .filter(|name| columns.iter().any(|c| c.name == *name))
            .collect();
        assert!(listed.eq(built), "{name}");
        let of_time = |name: &str| name.ends_with("_ms");
        let mut times = columns.iter().filter(|column| of_time(&column.name));
        assert!(times.all(|column| column.unit == "ms" && column.kind == Column::F64));
    }
}
