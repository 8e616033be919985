//! Figures that a front end draws itself, with zoom and values under the pointer: Vega-Lite, which JupyterLab has
//! without an extension. Where nothing knows it, the static figure stands.

use serde_json::{Value, json};

use super::curve::Track;
use super::gantt_lanes::{KINDS, read_epoch};
use super::ink::Ink;
use super::setting::labels;
use super::{Axis, Case, Kind, PlotError, Setting, View};

/// What a front end knows it by.
pub const MIME: &str = "application/vnd.vegalite.v5+json";

/// Marks at most: more make a notebook heavy.
const MOST: usize = 20_000;

/// The specification of `kind` for `cases`: curves of any number of runs, the spans of one epoch of one run.
///
/// # Errors
/// Another kind, a frame that lacks what the kind reads, or more than can be drawn so.
pub fn interactive(kind: Kind, cases: &[Case], view: View) -> Result<Value, PlotError> {
    match (kind, cases) {
        (Kind::Curve, _) => curves(cases, Axis::Epoch),
        (Kind::CurveSeconds, _) => curves(cases, Axis::Seconds),
        (Kind::Gantt, [case]) => spans(case, view),
        (Kind::Gantt, _) => Err(PlotError::OneRun {
            kind: "gantt",
            got: cases.len(),
        }),
        _ => Err(PlotError::Run(
            "an interactive figure is of curve, curve-seconds or gantt\nhelp: leave --interactive out".into(),
        )),
    }
}

fn limited(values: Vec<Value>) -> Result<Vec<Value>, PlotError> {
    match values.len() {
        n if n > MOST => Err(PlotError::Run(format!(
            "{n} marks are more than an interactive figure has room for, {MOST}\nhelp: leave --interactive out, or \
             show a part of it"
        ))),
        _ => Ok(values),
    }
}

fn curves(cases: &[Case], axis: Axis) -> Result<Value, PlotError> {
    let settings: Vec<&Setting> = cases.iter().map(|case| &case.setting).collect();
    let mut values = Vec::new();
    for (case, name) in cases.iter().zip(labels(&settings)) {
        let track = Track::read(case, axis)?;
        for i in 0..track.epoch.len() {
            let known = |v: &[f64]| v.get(i).copied().filter(|v| v.is_finite());
            values.push(json!({
                "run": name, "epoch": track.epoch[i], "x": track.x[i],
                "loss": known(&track.loss), "val": known(&track.val), "test": known(&track.test),
            }));
        }
    }
    let x = match axis {
        Axis::Epoch => "epoch",
        Axis::Seconds => "training time (s)",
    };
    let panel = |field: &str, title: &str| {
        json!({
            "width": 380, "height": 260,
            "mark": {"type": "line", "point": true, "tooltip": true},
            "params": [{"name": format!("zoom_{field}"), "select": "interval", "bind": "scales"}],
            "encoding": {
                "x": {"field": "x", "type": "quantitative", "title": x},
                "y": {"field": field, "type": "quantitative", "title": title, "scale": {"zero": false}},
                "color": {"field": "run", "type": "nominal", "title": null},
                "tooltip": [
                    {"field": "run"}, {"field": "epoch"},
                    {"field": "loss", "format": ".4f"}, {"field": "val", "format": ".4f"},
                    {"field": "test", "format": ".4f"},
                ],
            },
        })
    };
    Ok(json!({
        "data": {"values": limited(values)?},
        "hconcat": [panel("loss", "training loss"), panel("val", "validation score")],
    }))
}

fn spans(case: &Case, view: View) -> Result<Value, PlotError> {
    let frame = &case.frame;
    let shown = match frame.height() {
        0 => None,
        _ => read_epoch(frame, view.epoch)?,
    };
    let Some(shown) = shown else {
        return Err(PlotError::Run(
            "no spans were kept\nhelp: train with trace = true (--trace)".into(),
        ));
    };
    let shown = match view.zoom {
        Some((from, to)) => shown.part(from, to),
        None => shown,
    };
    let since = shown.zoomed.unwrap_or(0.0);
    let mut values = Vec::new();
    let mut put = |lane: String, what: &str, from: f64, to: f64| {
        values.push(json!({
            "lane": lane, "what": what, "from": since + from, "to": since + to, "ms": to - from,
        }));
    };
    for lane in &shown.lanes {
        for (name, pieces) in [
            ("", &lane.host),
            (" · device", &lane.device),
            (" · batches", &lane.beside),
        ] {
            for piece in pieces {
                put(
                    format!("rank {}{name}", lane.rank),
                    KINDS[piece.kind].0,
                    piece.from,
                    piece.to,
                );
            }
        }
        for (from, to) in &lane.hidden {
            put(
                format!("rank {} · hidden comm", lane.rank),
                "hidden comm",
                *from,
                *to,
            );
        }
    }
    let kinds = KINDS.iter().copied().chain([("hidden comm", Ink::OTHER)]);
    let (names, colours): (Vec<&str>, Vec<&str>) =
        kinds.map(|(name, ink)| (name, ink.tone().light)).unzip();
    Ok(json!({
        "data": {"values": limited(values)?},
        "width": 780, "height": {"step": 30},
        "title": format!("epoch {}", shown.number),
        "mark": {"type": "bar", "tooltip": true},
        "params": [{"name": "zoom", "select": {"type": "interval", "encodings": ["x"]}, "bind": "scales"}],
        "encoding": {
            "x": {"field": "from", "type": "quantitative", "title": "ms"},
            "x2": {"field": "to"},
            "y": {"field": "lane", "type": "nominal", "title": null},
            "color": {"field": "what", "type": "nominal", "title": null, "scale": {"domain": names, "range": colours}},
            "tooltip": [
                {"field": "lane"}, {"field": "what"}, {"field": "ms", "format": ".3f"},
                {"field": "from", "format": ".3f"},
            ],
        },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use polars::prelude::*;

    #[test]
    fn curves_carry_every_epoch_and_others_are_refused() {
        let frame =
            df!("epoch" => [0_u32, 1], "train_loss" => [1.0, f64::NAN], "val_acc" => [0.1, 0.2]);
        let case = Case {
            setting: Setting::default(),
            frame: frame.expect("columns have equal lengths"),
            cut: None,
        };
        let drawn = interactive(Kind::Curve, std::slice::from_ref(&case), View::default())
            .expect("a curve");
        let values = drawn["data"]["values"].as_array().expect("rows");
        assert_eq!(
            (values.len(), &values[1]["loss"], &values[1]["val"]),
            (2, &Value::Null, &json!(0.2))
        );
        let refused = interactive(Kind::Stack, &[case], View::default()).expect_err("no curve");
        assert!(refused.to_string().contains("--interactive"), "{refused}");
    }
}
