//! Frames of strategies, over the registry: what an entry declares is what its rows are.

use super::*;
use crate::feed::LaunchRow;
use crate::record::frame::{Column, FrameDef};

/// Whether a cell is of a column's type, or says nothing.
fn fits(kind: Column, cell: &Json) -> bool {
    let below = |most: u64| cell.as_u64().is_some_and(|x| x <= most);
    cell.is_null()
        || match kind {
            Column::Bool => cell.is_boolean(),
            Column::U16 => below(u16::MAX.into()),
            Column::U32 => below(u32::MAX.into()),
            Column::U64 => cell.is_u64(),
            Column::I64 => cell.is_i64(),
            Column::F64 => cell.is_number(),
            Column::Str => cell.is_string(),
        }
}

#[test]
fn rows_are_those_that_entries_declare() {
    let data = Arc::new(random_dataset(50, 200, 6, 3, false, 5));
    for entry in STRATEGIES.iter().filter(|entry| !entry.frames.is_empty()) {
        let mut pairs = spec(entry, ModelKind::Gcn, 2, 5).to_pairs();
        // Without a budget nothing is copied to a device.
        if entry.knobs.iter().any(|knob| knob.name == "device_mem") {
            pairs.retain(|(key, _)| key != "device_mem");
            pairs.push(("device_mem".into(), Value::Int(1 << 20)));
        }
        // With one chunk nothing is historical, nor in the first layer.
        if entry
            .knobs
            .iter()
            .any(|knob| knob.name == "history_gradients")
        {
            pairs.retain(|(key, _)| key != "chunks");
            pairs.push(("chunks".into(), Value::Int(2)));
            pairs.push(("groups".into(), Value::Int(2)));
        }
        let request = RunSpec::from_pairs(pairs).expect("valid pairs");
        let owner = random_owner(50, 2, false, 3);
        for (rank, trained) in train(entry, &request, &data, Some(owner), 2)
            .iter()
            .enumerate()
        {
            for row in &trained.noted {
                let known = |frame: &&FrameDef| row["frame"] == frame.name;
                let frame = entry.frames.iter().find(known);
                let frame = frame.unwrap_or_else(|| panic!("{} declares no {row}", entry.name));
                let keys = row.as_object().expect("an object").keys();
                let names = frame.columns.iter().map(|column| column.name);
                assert!(keys.eq(names.chain(["frame"])), "{row}");
                for column in frame.columns {
                    let cell = &row[column.name];
                    assert!(fits(column.kind, cell), "{}: {row}", column.name);
                    assert!(!column.doc.is_empty(), "{} of {}", column.name, frame.name);
                }
                assert_eq!(row["rank"], rank, "{row}");
            }
            for frame in entry.frames {
                let of = |row: &&Json| row["frame"] == frame.name;
                let epochs = trained
                    .noted
                    .iter()
                    .filter(of)
                    .map(|row| row["epoch"].as_u64());
                let epochs: std::collections::BTreeSet<_> = epochs.flatten().collect();
                // Batches of later epochs may be begun in an earlier one.
                let ahead = frame.name == LaunchRow::FRAME.name;
                let all = epochs.iter().copied().eq(0..EPOCHS);
                let some = !epochs.is_empty() && epochs.iter().all(|epoch| *epoch < EPOCHS);
                assert!(all || ahead && some, "{}: {}", entry.name, frame.name);
            }
        }
    }
}

#[test]
fn frames_of_one_name_are_one_frame() {
    for entry in STRATEGIES {
        for model in coupled(entry).take(1) {
            entry
                .check(&spec(entry, model, 2, 4))
                .expect("declares frames");
        }
    }
    let other = FrameDef {
        columns: &STRATEGIES
            .iter()
            .find(|e| e.name == "distdgl")
            .expect("there")
            .frames[0]
            .columns[..4],
        ..STRATEGIES
            .iter()
            .find(|e| e.name == "sancus")
            .expect("there")
            .frames[0]
    };
    let like = Entry {
        name: "like",
        frames: vec![other].leak(),
        ..STRATEGIES[1]
    };
    let error = like.check(&spec(&like, ModelKind::Gcn, 2, 4)).unwrap_err();
    assert!(error.to_string().contains("it is one of sancus"), "{error}");
}
