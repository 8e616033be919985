//! Times every kernel on one graph, against this machine's limits, and checks the answers.
//!
//! `cargo run --release -p kernels --example speed -- [SCALE] [WIDTH] [THREADS] [NAME] [HEADS] [HEAD_WIDTH]`
//! (default 16 128 2, all kernels, 8 32): an undirected R-MAT graph of `2^SCALE` vertices, edge factor 16. The
//! command `halobook bench kernels` does the same on any data set; this needs the kernels only.

use kernels::bench::{self, Clock, Input, Limits, Outcome};
use kernels::{CsrBuf, Par, hash};

#[global_allocator]
static ALLOCATOR: kernels::align::LineAligned = kernels::align::LineAligned;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |k: usize, default: usize| {
        let given = args.get(k).and_then(|a: &String| a.parse().ok());
        given.unwrap_or(default)
    };
    let par = Par::new(number(2, 2));
    let graph = rmat(number(0, 16) as u32, 16);
    let input = Input {
        graph: graph.view(),
        width: number(1, 128),
        heads: number(4, 8),
        head_width: number(5, 32),
        classes: 32,
        only: args.get(3).cloned().unwrap_or_default(),
    };
    let mut told = |what: &str| eprintln!("{what}");
    let clock = Clock::default();
    let largest = 4 * graph.bytes() + 8 * graph.rows() * input.width;
    let sets = bench::working_sets(largest.min(1 << 28));
    let limits = Limits::measure(&par, clock, &sets, &mut told);
    println!("{:.0} GFLOP/s at most", limits.gflops());
    println!(
        "{:<24} {:<38} {:>9} {:>9} {:>8} {:>8}  limit",
        "kernel", "shape", "ms", "best", "GB/s", "GFLOP/s"
    );
    let mut wrong = 0;
    for line in bench::kernels(&par, clock, &input, &mut told) {
        let ms = line.spread();
        let (least, bound) = limits.least_ms(line.bytes, line.footprint, line.flops);
        let share = 100.0 * least / ms.median;
        println!(
            "{:<24} {:<38} {:>9.3} {:>9.3} {:>8.1} {:>8.1}  {share:.0} % of {}",
            line.kernel,
            line.shape,
            ms.median,
            ms.best,
            line.bytes / ms.median / 1e6,
            line.flops / ms.median / 1e6,
            bound.label(),
        );
        if let Outcome::Wrong(by) = line.outcome {
            wrong += 1;
            println!("  WRONG: {by:.1} times what rounding explains");
        }
    }
    std::process::exit(i32::from(wrong > 0));
}

/// An undirected R-MAT graph with Graph500's quadrants, ids mixed, rows ascending, no repeats.
fn rmat(scale: u32, factor: usize) -> CsrBuf {
    let n = 1usize << scale;
    let mut rows = vec![Vec::new(); n];
    for e in 0..n * factor {
        let (mut s, mut t) = (0usize, 0usize);
        for l in 0..scale {
            let u = hash::mix64((e as u64) << 8 | u64::from(l)) >> 48;
            s = s << 1 | usize::from(u >= 49_807);
            t = t << 1 | usize::from((37_355..49_807).contains(&u) || u >= 62_259);
        }
        let mix = |v: usize| v.wrapping_mul(0x9e37_79b1) & (n - 1);
        let (s, t) = (mix(s), mix(t));
        if s != t {
            rows[s].push(t as u32);
            rows[t].push(s as u32);
        }
    }
    let mut a = CsrBuf::empty(n);
    for mut row in rows {
        row.sort_unstable();
        row.dedup();
        a.indices.extend(row);
        a.indptr.push(a.indices.len() as u64);
    }
    a.weights = Some(
        (0..a.indices.len())
            .map(|e| 1.0 / (1 + e % 7) as f32)
            .collect(),
    );
    a
}
