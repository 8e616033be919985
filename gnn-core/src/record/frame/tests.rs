//! Declarations and what is refused. What real runs write is compared with them in the registry's tests.

use super::*;
use crate::record::{Direction, Op};

crate::frame! {
    /// Something of a layer,
    /// in two lines.
    Sample in "sample_of" by layer, peer {
        /// Layer, from 0.
        layer: u16,
        /// Whom it is about.
        peer: u32,
        /// Which way.
        direction: Direction,
        /// Time of it.
        time_ms: f64,
        bytes_sent: Option<u64>,
    }
}

fn sample(time_ms: f64) -> Sample {
    Sample {
        layer: 1,
        peer: 2,
        direction: Direction::Forward,
        time_ms,
        bytes_sent: None,
    }
}

#[test]
fn a_declaration_says_all_of_a_frame() {
    let frame = Sample::FRAME;
    assert_eq!(frame.name, "sample_of");
    assert_eq!(frame.doc, "Something of a layer, in two lines.");
    assert_eq!(frame.sort, ["epoch", "rank", "layer", "peer"]);
    let columns: Vec<_> = frame
        .columns
        .iter()
        .map(|c| (c.name, c.kind, c.unit))
        .collect();
    let expected = [
        ("epoch", Column::U32, ""),
        ("rank", Column::U32, ""),
        ("layer", Column::U16, ""),
        ("peer", Column::U32, ""),
        ("direction", Column::Str, ""),
        ("time_ms", Column::F64, "ms"),
        ("bytes_sent", Column::U64, "bytes"),
    ];
    assert_eq!(columns, expected);
    assert_eq!(frame.columns[2].doc, "Layer, from 0.");
    assert_eq!(frame.columns[6].doc, "");
    frame.check().expect("a frame");
}

#[test]
fn a_row_is_written_with_its_epoch_rank_and_frame() {
    let row = Noted::new(3, 1, sample(0.5)).into_json();
    let expected = r#"{"epoch":3,"rank":1,"layer":1,"peer":2,"direction":"forward","time_ms":0.5,"bytes_sent":null,"frame":"sample_of"}"#;
    assert_eq!(row.to_string(), expected);
    let row = Noted::new(0, 0, sample(f64::NAN)).into_json();
    assert!(row["time_ms"].is_null(), "{row}");
}

#[test]
fn schemas_survive_the_run_folder() {
    let dir = tempfile::tempdir().expect("temporary folder");
    assert_eq!(read(dir.path()).expect("no file"), None);
    write(dir.path(), &[Sample::FRAME]).expect("writes");
    let schemas = read(dir.path()).expect("reads").expect("there");
    assert_eq!(schemas, [Sample::FRAME.schema()]);
    assert_eq!(schemas[0].clone().leak(), Sample::FRAME);
    let text = std::fs::read_to_string(dir.path().join(FILE)).expect("reads");
    assert!(text.contains(r#""type": "u16""#), "{text}");
    let elsewhere = text.replace("sample_of", "../sample");
    std::fs::write(dir.path().join(FILE), elsewhere).expect("writes");
    let error = read(dir.path()).unwrap_err().to_string();
    assert!(error.contains("../sample"), "{error}");
}

#[test]
fn what_cannot_be_a_frame_is_refused() {
    let with = |name: &'static str| FrameDef {
        columns: [EPOCH, RANK, ColumnDef::new::<u32>(name, "")]
            .to_vec()
            .leak(),
        ..Sample::FRAME
    };
    let cases = [
        (
            FrameDef {
                name: "ranks",
                ..with("x")
            },
            "every run has",
        ),
        (
            FrameDef {
                name: "Up",
                ..with("x")
            },
            "none of a table",
        ),
        (
            FrameDef {
                name: "../up",
                ..with("x")
            },
            "none of a table",
        ),
        (
            FrameDef {
                sort: &["epoch", "layer"],
                ..with("x")
            },
            "sorted by \"layer\"",
        ),
        (
            FrameDef {
                sort: &[],
                ..with("rank")
            },
            "column \"rank\"",
        ),
        (
            FrameDef {
                sort: &[],
                ..with("run_id")
            },
            "column \"run_id\"",
        ),
    ];
    for (frame, said) in cases {
        let error = frame.check().unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
    let twice = [
        EPOCH,
        RANK,
        ColumnDef::new::<u32>("x", ""),
        ColumnDef::new::<f64>("x", ""),
    ];
    let frame = FrameDef {
        columns: twice.to_vec().leak(),
        sort: &[],
        ..Sample::FRAME
    };
    assert!(
        frame
            .check()
            .unwrap_err()
            .to_string()
            .contains("two columns")
    );
}

#[test]
fn numbers_and_words_are_columns() {
    assert_eq!(Op::Allreduce.value(), Value::from("allreduce"));
    assert_eq!(
        (3usize.value(), usize::COLUMN),
        (Value::from(3), Column::U64)
    );
    assert_eq!(
        (0.5f32.value(), f32::COLUMN),
        (Value::from(0.5), Column::F64)
    );
    assert_eq!(Some(true).value(), Value::from(true));
}
