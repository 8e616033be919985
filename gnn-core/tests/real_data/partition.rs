//! Cuts of published graphs and of a web-like one, beside what papers print of them.

use crate::runs::{real, soak};
use gnn_core::dataset::Dataset;
use gnn_core::partition::{Facts, Masks, Method, Request, facts};

fn cut(data: &Dataset, method: &str, parts: usize, seed: u64) -> Facts {
    let method = Method::parse(method).expect("known");
    let owner = Request::of(method, data, parts, seed)
        .assign()
        .expect("cuts");
    let masks = Masks {
        train: &data.train,
        val: &data.val,
        test: &data.test,
    };
    facts(data.graph.csr(), &owner, parts, masks, 0)
}

/// GNNPipe, table 2: replication factors of 8 METIS parts.
#[test]
fn replication_factors_beside_gnnpipe() {
    for (name, paper) in [("squirrel", 2.22), ("coauthor_physics", 0.99)] {
        let Some(path) = real(name) else {
            return;
        };
        let data = gnn_core::dataset::load(&path, 0).expect("loads");
        let alpha = |method: &str| {
            let all: Vec<f64> = (0..3)
                .map(|seed| cut(&data, method, 8, seed).alpha())
                .collect();
            all.iter().sum::<f64>() / 3.0
        };
        let methods = [
            "metis",
            "metis:balance=vertices",
            "metis:balance=vertices,objective=volume",
        ];
        let [work, vertices, volume] = methods.map(alpha);
        println!(
            "{name}: paper {paper}; by work {work:.2}, by vertices {vertices:.2}, by vertices for volume {volume:.2}"
        );
        let hash = cut(&data, "hash", 8, 0).alpha();
        for alpha in [work, vertices, volume] {
            assert!(alpha < hash, "{alpha} of {hash} when hashed");
            assert!(
                (0.6..1.6).contains(&(alpha / paper)),
                "{alpha} beside {paper}"
            );
        }
    }
}

/// HongTu, table 3: neighbours loaded over vertices, from 2 to 512 parts.
#[test]
fn replication_grows_with_parts_as_in_hongtu() {
    if !soak("replication of a web-like graph in 2 to 512 parts") {
        return;
    }
    let data = gnn_core::dataset::load("rmat:scale=16,edge-factor=16,feat=1", 1).expect("built in");
    println!("it-2004       1.23 1.35 1.46 1.52 1.60 1.63 1.71 1.76 1.85");
    println!("ogbn-papers   1.25 1.52 2.13 3.02 4.46 6.34 8.50 10.6 12.3");
    println!("friendster    1.32 1.77 2.68 3.86 5.48 7.70 10.70 14.4 18.1");
    let mut last = 0.0;
    let mut line = String::from("rmat scale 16 ");
    for parts in [2, 4, 8, 16, 32, 64, 128, 256, 512] {
        // Vertices with an edge are what HongTu's graphs consist of.
        let joined = (0..data.n())
            .filter(|&v| data.graph.in_degree(v) > 0)
            .count();
        let alpha = 1.0 + cut(&data, "metis", parts, 1).alpha() * data.n() as f64 / joined as f64;
        line += &format!("{alpha:.2} ");
        assert!(alpha > last, "{parts} parts: {alpha} after {last}");
        last = alpha;
    }
    println!("{line}");
}
