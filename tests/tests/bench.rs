//! `halobook bench` from outside, on graphs of a few hundred vertices; the Python that is compared
//! with is a shell script which answers as ours would.
//!
//! Can catch: a benchmark that does not run, leaves runs behind, gets its own answers wrong, pairs
//! the wrong forms, or whose last line is not one object. Cannot catch: a wrong time.

use anyhow::{Context as _, ensure};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;
use tests::Outcome;
use tests::runs::Store;

const DATA: &str = "sbm:nodes=300,classes=3,feat=8,degree=6";

fn bench(store: &Store, args: &str) -> anyhow::Result<Value> {
    let ended = store.halobook(&format!("bench {args} --json"))?;
    ensure!(ended.status.success(), "{ended}");
    let last = ended.stdout.lines().last().context("no output")?;
    serde_json::from_str(last).with_context(|| format!("not an object: {last}"))
}

#[test]
fn machine_measures_copy_triad_and_peaks() -> Outcome {
    let store = Store::new()?;
    let got = bench(&store, "machine --threads 1 --largest 2 --quiet")?;
    let sets = got["limits"][0]["bandwidth"].as_array().context("sets")?;
    ensure!(sets.len() == 2, "1 and 2 MiB: {got}");
    ensure!(sets.iter().all(|s| s["copy_gb_per_s"].as_f64() > Some(0.0)));
    let peaks = &got["limits"][0]["peak_gflop_per_s"];
    ensure!(peaks["scalar"].as_f64() > Some(0.0), "{got}");
    Ok(())
}

#[test]
fn a_level_that_is_named_is_the_widest() -> Outcome {
    let store = Store::new()?;
    let ended = Command::new(tests::binaries::find("halobook"))
        .args("bench machine --threads 1 --largest 1 --quiet --json".split(' '))
        .current_dir(store.home())
        .env("HALOBOOK_HOME", store.home())
        .envs([("HALOBOOK_SIMD", "scalar"), ("HALOBOOK_AMX", "0")])
        .output()?;
    let text = String::from_utf8(ended.stdout)?;
    let last = text.lines().last().context("no output")?;
    let got: Value = serde_json::from_str(last).with_context(|| last.to_string())?;
    let peaks = &got["limits"][0]["peak_gflop_per_s"];
    let peaks = peaks.as_object().context("peaks")?;
    ensure!(peaks.keys().eq(["scalar"]), "{got}");
    Ok(())
}

#[test]
fn kernels_are_right_and_have_their_limits() -> Outcome {
    let store = Store::new()?;
    let args = format!("kernels --data {DATA} --width 16 --heads 2 --head-width 8 --rounds 1");
    let got = bench(&store, &args)?;
    let kernels = got["kernels"].as_array().context("kernels")?;
    ensure!(kernels.len() > 20, "{}", kernels.len());
    for kernel in kernels {
        ensure!(kernel["right"] == true, "{kernel}");
        ensure!(kernel["least_ms"].as_f64() > Some(0.0), "{kernel}");
        ensure!(kernel["ms"]["median"].as_f64() > Some(0.0), "{kernel}");
    }
    let ended = store.halobook(&format!("{} --only spmm", &format!("bench {args}")))?;
    ensure!(ended.stdout.contains("share of limit"), "{ended}");
    ensure!(!ended.stdout.contains("softmax_xent"), "{ended}");
    Ok(())
}

#[test]
fn a_profile_holds_every_operation_of_an_epoch_against_the_limit() -> Outcome {
    let store = Store::new()?;
    let args = format!(
        "epoch --profile --data {DATA} --hidden 16 --epochs 4 --warmup 1 --threads 1 --largest 2"
    );
    let got = bench(&store, &format!("{args} --quiet"))?;
    let ops = got["ops"].as_array().context("operations")?;
    for name in ["spmm", "linear", "weight_gradients", "softmax_xent", "adam"] {
        ensure!(ops.iter().any(|op| op["op"] == name), "{name}: {got}");
    }
    let least: Option<f64> = ops.iter().map(|op| op["least_ms"].as_f64()).sum();
    let limit = got["limit_ms"].as_f64().context("a limit")?;
    ensure!(
        (least.context("numbers")? - limit).abs() < 1e-9 + 1e-6 * limit,
        "{got}"
    );
    let median = got["epoch_ms"]["median"].as_f64().context("a time")?;
    let over = got["over_limit"].as_f64().context("a ratio")?;
    ensure!((over - median / limit).abs() < 1e-6 * over, "{got}");
    let shown = store.halobook(&format!("bench {args}"))?;
    ensure!(shown.stdout.contains("in no operation"), "{shown}");
    ensure!(store.runs().is_empty(), "{:?}", store.runs());
    Ok(())
}

#[test]
fn a_map_of_one_case_has_its_line_and_its_cell() -> Outcome {
    let store = Store::new()?;
    let args = "epoch --grid --cases 1 --largest 2 --svg map.svg --quiet";
    let got = bench(&store, args)?;
    ensure!(got["graph"] == "R-MAT" && got["model"] == "gcn", "{got}");
    ensure!(got["nodes"] == 1 << 15 && got["hidden"] == 16, "{got}");
    ensure!(got["worst"].as_array().map(Vec::len) == Some(3), "{got}");
    let map = std::fs::read_to_string(store.home().join("map.svg"))?;
    let over = format!("{:.2}", got["over_limit"].as_f64().context("a ratio")?);
    ensure!(map.contains(&format!(">{over}<")), "{over}: {map}");
    Ok(())
}

#[test]
fn making_mini_batches_is_among_what_is_profiled_and_mapped() -> Outcome {
    let store = Store::new()?;
    let args = format!(
        "epoch --profile --data {DATA} --model sage --hidden 16 --strategy distdgl --set prefetch=0 \
         --set fanout=5,5 --set batch=50 --epochs 4 --warmup 1 --largest 2 --quiet"
    );
    let got = bench(&store, &args)?;
    let ops = got["ops"].as_array().context("operations")?;
    let of = |name: &str| ops.iter().filter(|op| op["op"] == name).count();
    ensure!(
        of("draw") == 2 && of("collect") == 1 && of("linear") > 1,
        "{got}"
    );
    let (limit, epoch) = (&got["limit_ms"], &got["epoch_ms"]["median"]);
    ensure!(limit.as_f64() < epoch.as_f64(), "{got}");
    let refused = store.halobook(&format!(
        "bench {}",
        args.replace("prefetch=0", "prefetch=2")
    ))?;
    ensure!(
        !refused.status.success() && refused.stderr.contains("prefetch = 0"),
        "{refused}"
    );
    let args = "epoch --grid --batches --cases 1 --largest 2 --svg map.svg --quiet";
    let got = bench(&store, args)?;
    ensure!(got["fanout"] == "5,5" && got["batch"] == 128, "{got}");
    let map = std::fs::read_to_string(store.home().join("map.svg"))?;
    let over = format!("{:.2}", got["over_limit"].as_f64().context("a ratio")?);
    ensure!(
        map.contains(&format!(">{over}<")) && map.contains("fan-outs"),
        "{over}: {map}"
    );
    Ok(())
}

#[test]
fn epochs_are_timed_in_both_forms_and_leave_no_run() -> Outcome {
    let store = Store::new()?;
    let args = format!("epoch --data {DATA} --hidden 16 --epochs 4 --warmup 1 --rounds 2 --quiet");
    let got = bench(&store, &args)?;
    let forms = got["forms"].as_array().context("forms")?;
    ensure!(forms.len() == 2, "{got}");
    for form in forms {
        ensure!(
            form["epoch_ms"]["samples"] == 6,
            "two rounds of three: {form}"
        );
        ensure!(form["failure"].is_null() && form["phases_ms"]["forward"].is_number());
        ensure!(form["peak_bytes"].as_u64() > Some(0), "{form}");
    }
    let close = |k: &str| (forms[0][k].as_f64(), forms[1][k].as_f64());
    let (Some(every), Some(once)) = close("last_loss") else {
        anyhow::bail!("no loss: {got}");
    };
    ensure!((every - once).abs() < 1e-3, "{every} and {once}");
    ensure!(got["planned_total_bytes"].as_u64() > Some(0), "{got}");
    ensure!(store.runs().is_empty(), "left behind: {:?}", store.runs());
    Ok(())
}

/// A program that answers `probe` and `epoch` as a Python with PyTorch and DGL would.
fn python(store: &Store, epoch: &str) -> anyhow::Result<PathBuf> {
    let path = store.home().join("python");
    let probe = r#"{"numpy": "1.26", "torch": "2.2.1", "torch_geometric": null, "dgl": "2.1.0"}"#;
    let body = format!(
        "#!/bin/sh\ncase \"$3\" in probe) echo '{probe}';; *) cp \"$4\" request.seen; echo '{epoch}';; esac\n"
    );
    std::fs::write(&path, body)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
    Ok(path)
}

#[test]
fn forms_of_a_python_are_paired_with_ours() -> Outcome {
    let store = Store::new()?;
    let epoch =
        r#"{"ms": [1000, 1000], "losses": [2, 1], "peak_bytes": 4000000000, "libraries_bytes": 5}"#;
    let python = python(&store, epoch)?;
    let args = format!(
        "epoch --data {DATA} --hidden 16 --epochs 4 --warmup 1 --rounds 2 --quiet --against python --python {}",
        python.display()
    );
    let got = bench(&store, &args)?;
    let ratios = got["ratios"].as_array().context("ratios")?;
    let pairs: Vec<(&str, &str)> = ratios
        .iter()
        .filter_map(|r| Some((r["ours"].as_str()?, r["theirs"].as_str()?)))
        .collect();
    let want = [
        ("halobook", "dgl"),
        ("halobook", "tuned"),
        ("halobook-once", "dgl-pre"),
        ("halobook-once", "tuned-pre"),
    ];
    ensure!(pairs == want, "{pairs:?}");
    ensure!(
        ratios.iter().all(|r| r["speed"].as_f64() > Some(1.0)),
        "{got}"
    );
    let request: Value =
        serde_json::from_slice(&std::fs::read(store.home().join("request.seen"))?)?;
    ensure!(
        request["hidden"] == 16 && request["classes"] == 3,
        "{request}"
    );
    let folder = request["folder"].as_str().context("a folder")?;
    ensure!(!std::path::Path::new(folder).exists(), "{folder} was left");
    Ok(())
}

#[test]
fn a_form_that_fails_is_named_and_the_others_go_on() -> Outcome {
    let store = Store::new()?;
    let python = python(&store, r#"{"error": "out of memory"}"#)?;
    let ended = store.halobook(&format!(
        "bench epoch --data {DATA} --epochs 3 --rounds 1 --against python --python {}",
        python.display()
    ))?;
    ensure!(ended.status.success(), "{ended}");
    ensure!(ended.stdout.contains("out of memory"), "{ended}");
    ensure!(ended.stdout.contains("planned"), "{ended}");
    Ok(())
}

#[test]
fn wrong_requests_are_refused() -> Outcome {
    let store = Store::new()?;
    for (args, part) in [
        ("bench", "machine, kernels, epoch"),
        ("bench epohc", "'epoch'"),
        ("bench kernels --only nothing", "no kernel"),
        ("bench epoch --against python --python /nowhere", "/nowhere"),
        ("bench epoch --against python", "HALOBOOK_PEERS"),
        ("bench epoch --model gnc", "gcn"),
    ] {
        let ended = store.halobook(args)?;
        ensure!(ended.status.code() == Some(2), "{args}: {ended}");
        let (wrong, help) = ended.complaint()?;
        ensure!(format!("{wrong}{help}").contains(part), "{args}: {ended}");
    }
    Ok(())
}
