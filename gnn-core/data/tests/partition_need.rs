//! Memory of partitioners, foreseen and measured on three sizes of two kinds of graph. Every cut is
//! made in a process of its own: memory that an earlier one gave back would be used again, and not be
//! measured. Cannot catch what only larger graphs show, and says nothing of times, which
//! `halobook bench data` prints.

use gnn_data::partition::{Method, Request};
use std::process::Command;

const METHODS: [&str; 3] = ["metis", "metis:balance=train+edges", "metis:thin=coarse"];
/// Says which graph and method a process cuts.
const CASE: &str = "HALOBOOK_TEST_CUT";

/// Cuts one graph and prints foreseen and measured bytes, when asked by the test below.
#[test]
fn one_cut() {
    let Ok(case) = std::env::var(CASE) else {
        return;
    };
    let (name, method) = case.split_once(' ').expect("a graph and a method");
    let data = gnn_data::load::load(name, 1).expect("built in");
    let method = Method::parse(method).expect("known");
    let cut = Request::of(method, &data, 8, 1).cut(None).expect("cuts");
    println!("bytes {} {}", cut.need.bytes, cut.peak_bytes);
}

fn foreseen_and_measured(name: &str, method: &str) -> (f64, f64) {
    let own = std::env::current_exe().expect("a test program");
    let mut cut = Command::new(own);
    cut.args(["one_cut", "--exact", "--nocapture"]);
    let output = cut.env(CASE, format!("{name} {method}")).output();
    let text = String::from_utf8_lossy(&output.expect("starts").stdout).into_owned();
    let said = text.lines().find_map(|line| line.split("bytes ").nth(1));
    let numbers = said.unwrap_or_else(|| panic!("{name} {method}: {text}"));
    let mut numbers = numbers.split(' ').map(|n| n.parse().expect(&text));
    let mut next = || numbers.next().expect("two numbers");
    (next(), next())
}

#[test]
fn memory_is_foreseen_within_a_quarter_on_three_sizes() {
    let soak = std::env::var_os("HALOBOOK_SOAK").is_some_and(|v| v == "1");
    let scales: &[u32] = if soak {
        &[14, 16, 18]
    } else {
        println!("SKIP scales 16 and 18: they take minutes (set HALOBOOK_SOAK=1)");
        &[13, 14, 15]
    };
    for scale in scales {
        let nodes = 1 << scale;
        for name in [
            format!("rmat:scale={scale},feat=1"),
            format!("sbm:nodes={nodes},degree=16,feat=1"),
        ] {
            for method in METHODS {
                let (need, peak) = foreseen_and_measured(&name, method);
                let (need, peak) = (need / 1e6, peak / 1e6);
                println!("{name} {method}: {need:.1} MB foreseen, {peak:.1} MB measured");
                // Where the system does not say what is resident, there is nothing to compare; and
                // planted partitions, whose coarse graphs stay dense, are not foreseen when thinned.
                let thinned = method.contains("thin") && name.starts_with("sbm");
                if cfg!(target_os = "linux") && !thinned {
                    let ratio = need / peak;
                    assert!((0.75..1.25).contains(&ratio), "{name} {method}: {ratio}");
                }
            }
        }
    }
}
