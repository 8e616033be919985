//! Parquet and Arrow files cut short or with a byte changed, given to `halobook convert`: converted, or refused
//! with the file's name, and never the end of the process. Cannot catch what only larger files, or several
//! changes at once, bring about. With `HALOBOOK_SOAK=1` every byte is changed, else every eleventh.

use polars::prelude::{
    Column, DataFrame, IpcCompression, IpcWriter, NamedFrom, ParquetWriter, SerWriter, Series,
};
use std::path::Path;
use std::process::{Command, Output};

/// A table of 20 edges and a column of names.
fn table(ending: &str) -> Vec<u8> {
    let ids = |name: &str, by: i64| {
        let list: Vec<i64> = (0..20).map(|k| k * by % 20).collect();
        Column::from(Series::new(name.into(), list))
    };
    let names: Vec<String> = (0..20).map(|k| format!("edge {k}")).collect();
    let names = Column::from(Series::new("name".into(), names));
    let columns = vec![ids("src", 3), ids("dst", 1), names];
    let mut frame = DataFrame::new(20, columns).expect("equal lengths");
    let mut bytes = Vec::new();
    if ending == "parquet" {
        let to = ParquetWriter::new(&mut bytes);
        to.finish(&mut frame).expect("memory");
    } else {
        let compression = Some(IpcCompression::ZSTD(Default::default()));
        let mut to = IpcWriter::new(&mut bytes).with_compression(compression);
        to.finish(&mut frame).expect("memory");
    }
    bytes
}

/// `whole` cut short, and with single bytes changed: each with what was done to it.
fn damaged(whole: &[u8], step: usize) -> Vec<(String, Vec<u8>)> {
    let cut = (0..whole.len()).step_by(8 * step).map(|end| {
        let what = format!("cut to {end} bytes");
        (what, whole[..end].to_vec())
    });
    let changed = (0..whole.len()).step_by(step).flat_map(|at| {
        [0x01u8, 0x80, 0xff].into_iter().map(move |flip| {
            let mut bytes = whole.to_vec();
            bytes[at] ^= flip;
            (format!("byte {at} changed by {flip:#04x}"), bytes)
        })
    });
    cut.chain(changed).collect()
}

fn convert(words: &[&Path]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_halobook"));
    // Ids that are far apart shall not make a large file.
    let flags = ["convert", "--quiet", "--relabel", "compact"];
    command.args(flags).args(words);
    command.output().expect("built with this test")
}

/// Whether a conversion ended as it may: well, or with two lines that name `file`.
fn ended(done: &Output, file: &Path) -> Result<bool, String> {
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    match done.status.code() {
        Some(0) => Ok(true),
        Some(1 | 2) if said.contains(&*file.to_string_lossy()) && said.lines().count() == 2 => {
            Ok(false)
        }
        _ => Err(format!("{}: {said}", done.status)),
    }
}

#[test]
fn a_damaged_table_is_refused_or_read_and_ends_no_process() {
    let soak = std::env::var_os("HALOBOOK_SOAK").is_some();
    let folder = tempfile::tempdir().expect("a temporary folder");
    for ending in ["parquet", "arrow"] {
        let whole = table(ending);
        let cases = damaged(&whole, if soak { 1 } else { 11 });
        let (mut read, mut refused, mut wrong) = (0, 0, Vec::new());
        for (k, (what, bytes)) in cases.iter().enumerate() {
            let edges = folder.path().join(format!("edges{k}.{ending}"));
            std::fs::write(&edges, bytes).expect("space");
            let to = folder.path().join("out.halo");
            match ended(&convert(&[&edges, &to]), &edges) {
                Ok(true) => read += 1,
                Ok(false) => refused += 1,
                Err(how) => wrong.push(format!("{what}: {how}")),
            }
            std::fs::remove_file(&edges).expect("just written");
        }
        assert!(wrong.is_empty(), "{ending}: {}", wrong.join("\n"));
        assert!(
            read > 0 && refused > 0,
            "{ending}: {read} read, {refused} refused"
        );
    }
}

/// A table of vertices is read whole, and by another process first as well.
#[test]
fn a_damaged_table_of_vertices_is_refused_or_read() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let edges = folder.path().join("edges.parquet");
    std::fs::write(&edges, table("parquet")).expect("space");
    let ids: Vec<i64> = (0..20).collect();
    let column = |name: &str| Column::from(Series::new(name.into(), ids.clone()));
    let mut frame = DataFrame::new(20, vec![column("id"), column("label")]).expect("equal lengths");
    let mut whole = Vec::new();
    let to = ParquetWriter::new(&mut whole);
    to.finish(&mut frame).expect("memory");
    let with = |bytes: &[u8]| {
        let table = folder.path().join("vertices.parquet");
        std::fs::write(&table, bytes).expect("space");
        let to = folder.path().join("out.halo");
        let flag = Path::new("--vertex-table");
        ended(&convert(&[&edges, &to, flag, &table]), &table)
    };
    assert_eq!(with(&whole), Ok(true));
    for (what, bytes) in damaged(&whole, 29) {
        let how = with(&bytes);
        assert!(how.is_ok(), "{what}: {how:?}");
    }
}
