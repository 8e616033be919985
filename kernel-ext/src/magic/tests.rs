//! Golden cells: what each expands to. Whether the launcher accepts the keys is its own tests'
//! concern.

use super::action::Refusal;
use super::*;
use gnn_core::spec::Value;

fn train(cell: &str) -> TrainRequest {
    match expand(cell) {
        Action::Train(request) => request,
        other => panic!("{cell:?} expands to {other:?}"),
    }
}

fn refusal(cell: &str) -> Refusal {
    match expand(cell) {
        Action::Refused(refusal) => refusal,
        other => panic!("{cell:?} expands to {other:?}"),
    }
}

fn pairs(request: &TrainRequest) -> Vec<String> {
    request
        .pairs
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect()
}

#[test]
fn the_cell_of_the_manual() {
    let request = train(
        "%%gnn -n 4 -s halo -o r1\ndata = \"reddit-mini\"; model = \"sage\"; layers = 2\n\
         epochs = 60; weight_decay = 5e-4 # comment\n",
    );
    assert_eq!(
        pairs(&request),
        [
            "ranks=4",
            "strategy=halo",
            "data=reddit-mini",
            "model=sage",
            "layers=2",
            "epochs=60",
            "weight-decay=5e-4"
        ]
    );
    assert_eq!(request.output.as_deref(), Some("r1"));
}

#[test]
fn blank_lines_and_comments_may_precede() {
    let request = train("\n// first\n%%gnn -n2 --epochs=3 --set bound=variation=0.01 --dry-run\n");
    assert_eq!(
        pairs(&request),
        ["ranks=2", "epochs=3", "bound=variation=0.01"]
    );
    assert!(request.dry_run);
}

#[test]
fn runs_and_sweeps_can_be_in_the_background() {
    let request = train("%%gnn --bg -o r1\nepochs = 3");
    assert!(request.background);
    assert_eq!(pairs(&request), ["epochs=3"]);
    assert!(!train("%%gnn\nepochs = 3").background);
    let Action::Sweep(sweep) = expand("%%sweep --bg --repeat 2\nepochs = 3") else {
        panic!("no sweep")
    };
    assert!(sweep.runs.background);
    assert_eq!(sweep.own, [("repeat", "2".to_owned())]);
    assert!(refusal("%%ranks --bg").message.contains("--bg"));
}

#[test]
fn runs_are_named_one_or_many() {
    let args = |cell: &str| match expand(cell) {
        Action::Lines { mut lines, .. } => lines.remove(0),
        other => panic!("{cell:?} expands to {other:?}"),
    };
    assert_eq!(args("%wait r1 r2 r3").args, ["r1", "r2", "r3"]);
    assert!(args("%attach").args.is_empty());
    let line = args("%attach r1 -o back");
    assert_eq!(line.flag("output"), Some("back"));
    let line = args(":replay r1 --bg -o again");
    assert_eq!((line.name, line.flag("bg")), ("replay", Some("")));
    assert!(refusal("%replay r1 r2").message.contains("no place"));
    assert!(refusal("%wait r1 -o 1st").message.contains("1st"));
    assert!(refusal("%job").help.contains("%jobs"));
}

#[test]
fn quoted_semicolons_and_commas_stay() {
    let request = train("%%gnn\nname = \"a; b # c\"; data = \"sbm:nodes=10,classes=2\"");
    assert_eq!(
        pairs(&request),
        ["name=a; b # c", "data=sbm:nodes=10,classes=2"]
    );
}

#[test]
fn an_unknown_flag_is_marked_and_the_nearest_named() {
    let refusal = refusal("%%gnn -n 4 --epoch 3\n");
    assert_eq!(refusal.help, "did you mean --epochs?");
    assert_eq!(refusal.span, (11, 7));
    let failure = refusal.failure();
    assert_eq!(failure.ename, "HaloConfigError");
    assert_eq!(failure.traceback[2], "             ^^^^^^^");
}

#[test]
fn an_unknown_magic_names_the_nearest() {
    assert_eq!(refusal("%docter\n").help, "did you mean %doctor?");
    assert_eq!(refusal("%gnn -n 2\n").message, "%gnn is written %%gnn");
}

#[test]
fn unquoted_text_is_refused_with_the_quotes() {
    let refusal = refusal("%%gnn\ndata = karate\n");
    assert_eq!(refusal.help, "a text needs quotes: data = \"karate\"");
    assert_eq!(refusal.span, (0, 13));
}

#[test]
fn names_to_bind_are_checked() {
    assert!(refusal("%%gnn -o 1x\n").message.contains("1x"));
    assert!(refusal("%%gnn -o\n").message.contains("needs a value"));
}

#[test]
fn line_magics_leave_rust_at_its_lines() {
    let Action::Lines { lines, rust } = expand("%runs --last 3\n:plot r1 stack\nlet x = 1;\n")
    else {
        panic!("line magics")
    };
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0].flag("last"), Some("3"));
    assert_eq!(lines[1].name, "plot");
    assert_eq!(lines[1].args, ["r1", "stack"]);
    assert_eq!(rust, "\n\nlet x = 1;\n");
}

#[test]
fn a_remainder_at_a_lines_start_is_rust() {
    let cell = "let x = 7\n%runs;\n";
    assert_eq!(expand(cell), Action::Rust(cell.into()));
    for cell in [
        ":dep rand = \"0.8\"\n",
        ":vars",
        " %runs",
        "% runs",
        "1 % 2",
    ] {
        assert_eq!(expand(cell), Action::Rust(cell.into()), "{cell}");
    }
}

#[test]
fn help_is_asked_in_three_ways() {
    assert_eq!(expand("%gnn?"), Action::Help("gnn".into()));
    assert_eq!(expand("%%gnn?\n"), Action::Help("gnn".into()));
    assert_eq!(expand("%?"), Action::Help(String::new()));
}

fn names(value: table::Value) -> Vec<String> {
    let names: &[&str] = match value {
        table::Value::Strategy => &["single", "halo"],
        table::Value::Run => &["r1", "latest"],
        table::Value::Table => &["epochs", "stale", "r1_epochs"],
        _ => &[],
    };
    names.iter().map(|&name| name.to_owned()).collect()
}

#[test]
fn magics_complete() {
    let texts = |code: &str| -> Vec<String> {
        complete::at(code, code.len(), &names)
            .map(|found| found.items.into_iter().map(|(text, _)| text).collect())
            .unwrap_or_default()
    };
    assert_eq!(texts("%%gn"), ["%%gnn"]);
    assert_eq!(texts("%ru"), ["%runs", "%run"]);
    assert_eq!(texts("%re"), ["%replay", "%restore"]);
    assert_eq!(texts("%wait r"), ["r1"]);
    assert_eq!(texts("%wait r1 la"), ["latest"]);
    assert_eq!(texts("%replay r1 --b"), ["--bg"]);
    assert_eq!(
        texts("%%gnn --b"),
        ["--bg", "--bases", "--block-layers", "--backend"]
    );
    assert_eq!(texts(":ru"), [":runs", ":run"]);
    assert_eq!(texts("%%gnn --ep"), ["--epochs"]);
    assert_eq!(texts("%%gnn --data ka"), ["karate"]);
    assert_eq!(texts("%%gnn --partition=me"), ["metis"]);
    assert_eq!(texts("%partition --method fe"), ["fennel"]);
    assert_eq!(texts("%plot r1 st"), ["stack", "stale"]);
    assert_eq!(texts("%%sql\nSELECT * FROM st"), ["stale"]);
    assert_eq!(texts("%%sql\nSELECT COUNT(*) FROM r1_"), ["r1_epochs"]);
    assert_eq!(texts("%plot la"), ["latest"]);
    assert_eq!(texts("%%gnn -s ha"), ["halo"]);
    assert_eq!(texts("%%gnn\nepo"), ["epochs = "]);
    assert_eq!(texts("%%gnn\nlr = 1; model = \"sa"), ["\"sage\""]);
    assert_eq!(complete::at("let x = ", 8, &names), None);
    assert_eq!(complete::at("let x = 7\n%ru", 13, &names), None);
}

#[test]
fn what_is_in_a_registry_completes() {
    let texts = |code: &str| -> Vec<String> {
        let found = complete::at(code, code.len(), &names).expect("a magic");
        found.items.into_iter().map(|(text, _)| text).collect()
    };
    let methods = gnn_core::partition::PARTITIONERS.iter().map(|e| e.name);
    assert!(methods.eq(texts("%partition --method ")));
    let kinds = halobook::plot::KINDS.iter().map(|kind| kind.0);
    let marks = halobook::chart::MARKS.iter().map(|mark| mark.0);
    assert!(kinds.clone().chain(marks).eq(texts("%plot r1 ")));
    let page = help::page("plot").bundle["text/plain"].to_string();
    assert!(kinds.clone().all(|kind| page.contains(kind)));
    let data = texts("%%gnn --data ");
    let built_in = gnn_core::dataset::catalogue().iter().map(|e| e.name);
    let fetched = launcher::datasets::ALL.iter().map(|e| e.name);
    assert!(built_in.chain(fetched).eq(data));
    let Action::Refused(refusal) = expand("%partition karate -o 1st") else {
        panic!("a name that cannot be bound");
    };
    assert!(refusal.message.contains("1st"));
}

/// A key that is added to the table is a flag, a line of a body and a line of the manual page by itself.
#[test]
fn every_key_is_a_flag_a_line_of_a_body_and_on_the_page() {
    use gnn_core::spec::{KEYS, KeyType};
    let texts = |code: &str| -> Vec<String> {
        let found = complete::at(code, code.len(), &names).expect("a magic");
        found.items.into_iter().map(|(text, _)| text).collect()
    };
    for magic in ["gnn", "sweep"] {
        let (flags, keys) = (
            texts(&format!("%%{magic} --")),
            texts(&format!("%%{magic}\n")),
        );
        let page = help::page(magic).bundle["text/plain"].to_string();
        for key in KEYS {
            assert!(flags.contains(&format!("--{}", key.flag)), "{}", key.name);
            assert!(keys.contains(&format!("{} = ", key.name)), "{}", key.name);
            assert!(page.contains(&format!("--{}", key.flag)), "{}", key.name);
        }
        // Beside the keys, only what the result is bound to stands in a body.
        assert_eq!(keys.len(), KEYS.len() + 1);
    }
    for key in KEYS {
        let (flag, want) = match key.kind {
            KeyType::Switch => (format!("--{}", key.flag), "true"),
            _ => (format!("--{} 7", key.flag), "7"),
        };
        let request = train(&format!("%%gnn {flag}\n"));
        assert_eq!(pairs(&request), [format!("{}={want}", key.flag)]);
    }
    assert!(texts("%%ranks\n").is_empty());
}

#[test]
fn completion_says_what_it_replaces() {
    let found = complete::at("%%gnn --partition=me", 20, &names).expect("a magic's line");
    assert_eq!(found.range, 18..20);
}

#[test]
fn a_plan_takes_the_flags_of_a_run() {
    let Action::Lines { lines, .. } =
        expand("%plan karate -s halo -n 1,2,4 --like r1 --limit 2GB -o plan\n")
    else {
        panic!("a line magic");
    };
    assert_eq!(lines[0].args, ["karate"]);
    let flags: Vec<&str> = lines[0].flags.iter().map(|(name, _)| *name).collect();
    assert_eq!(flags, ["strategy", "ranks", "like", "limit", "output"]);
    assert!(refusal("%plan karate --force").message.contains("--force"));
    assert!(
        refusal("%plan karate --dry-run")
            .message
            .contains("--dry-run")
    );
    assert!(train("%%gnn --limit 2GB --force\n").force);
}

#[test]
fn every_magic_has_a_page_and_is_found() {
    for magic in table::MAGICS {
        let page = help::page(magic.name);
        let text = page.bundle["text/plain"].as_str().expect("text");
        assert!(text.contains(magic.summary), "{}", magic.name);
        assert!(help::at(&magic.spelling(), magic.spelling().len()).is_some());
    }
}

/// Cells of the manual and the README. What they do is for whoever executes them.
#[test]
fn cells_of_the_manual_are_read() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let pages = std::fs::read_dir(root.join("notebooks/manual")).expect("the manual");
    let pages = pages.map(|page| page.expect("a page").path());
    let mut count = 0;
    for page in pages.chain([root.join("README.md")]) {
        let text = std::fs::read_to_string(&page).expect("text");
        for block in text.split("\n```text\n").skip(1) {
            let cell = block.split("\n```").next().unwrap_or_default();
            if !cell.starts_with('%') {
                continue;
            }
            count += 1;
            match expand(cell) {
                Action::Refused(refusal) => {
                    panic!("{}: {cell}\n{:?}", page.display(), refusal.failure());
                }
                Action::Train(request) => {
                    let pairs = request.pairs.into_iter();
                    let pairs = pairs.map(|(key, value)| (key, Value::from_word(&value)));
                    let spec = gnn_core::spec::RunSpec::from_pairs(pairs);
                    assert!(spec.is_ok(), "{cell}: {:?}", spec.err());
                }
                _ => {}
            }
        }
    }
    assert!(count > 10, "{count} cells");
}

#[test]
fn magics_are_complete_for_a_console() {
    use crate::text::Completeness;
    assert_eq!(completeness("%runs"), Completeness::Complete);
    assert_eq!(
        completeness("%%gnn -n 2\nepochs = 3"),
        Completeness::Complete
    );
    assert_eq!(completeness("%runs\nfn f() {"), Completeness::Incomplete);
}
