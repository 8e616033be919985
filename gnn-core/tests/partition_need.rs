//! Memory of partitioners, foreseen and measured on three sizes of two kinds of graph. One test in a
//! process of its own: what others allocate meanwhile would be counted. Cannot catch what only larger
//! graphs show, and says nothing of times, which `halobook bench data` prints.

use gnn_core::partition::{Method, Request};

#[test]
fn memory_is_foreseen_within_a_quarter_on_three_sizes() {
    let methods = ["metis", "metis:balance=train+edges", "metis:thin=coarse"];
    let soak = std::env::var_os("HALOBOOK_SOAK").is_some_and(|v| v == "1");
    let scales: &[u32] = if soak {
        &[14, 16, 18]
    } else {
        println!("SKIP scales 16 and 18: they take minutes (set HALOBOOK_SOAK=1)");
        &[12, 13, 14]
    };
    for scale in scales {
        let nodes = 1 << scale;
        for name in [
            format!("rmat:scale={scale},feat=1"),
            format!("sbm:nodes={nodes},degree=16,feat=1"),
        ] {
            let data = gnn_core::dataset::load(&name, 1).expect("built in");
            for text in methods {
                let method = Method::parse(text).expect("known");
                let cut = Request::of(method, &data, 8, 1).cut(None).expect("cuts");
                let ratio = cut.need.bytes as f64 / cut.peak_bytes as f64;
                println!(
                    "{name} {text}: {:.1} MB foreseen, {:.1} MB measured; {:.0} ms foreseen, {:.0} ms measured",
                    cut.need.bytes as f64 / 1e6,
                    cut.peak_bytes as f64 / 1e6,
                    cut.need.ms,
                    cut.ms
                );
                // Where the system does not say what is resident, there is nothing to compare; and
                // planted partitions, whose coarse graphs stay dense, are not foreseen when thinned.
                let thinned = text.contains("thin") && name.starts_with("sbm");
                if cfg!(target_os = "linux") && !thinned {
                    assert!((0.75..1.25).contains(&ratio), "{name} {text}: {ratio}");
                }
            }
        }
    }
}
