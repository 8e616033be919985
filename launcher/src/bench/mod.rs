//! Benchmarks of whole epochs, and the comparison with libraries that a Python has.
//!
//! The kernels and the machine are measured by [`kernels::bench`]; this is what needs processes.
//!
//! | module | one idea |
//! |---|---|
//! | [`epoch`] | forms of ours and of theirs in turn, round after round |
//! | [`sample`] | mini-batches drawn, ours and theirs in turn |
//! | [`ours`] | epochs of a real worker, on the ordinary run path |
//! | [`python`] | a Python, what it has, and its answers |
//! | [`export`] | a data set as arrays that any Python reads |
//! | [`others`] | how much of the machine somebody else used meanwhile |
//!
//! Forms are compared like with like: training that aggregates the constant features in every
//! epoch with theirs that does, and training that did so once with theirs that did; stock layers
//! and hand-tuned code apart. Each form of theirs runs in its fastest setting, in a process of its
//! own, with an allocator that keeps freed pages and large ones.
//!
//! # Measured
//! `halobook bench epoch --data DATA --model MODEL --hidden 128 --threads 2 --rounds 2 --against python`
//! (GAT `--hidden 32 --heads 8`) with DGL 2.1.0 on torch 2.2.1 and PyG 2.8.1 on torch 2.15.0; two cores of
//! an AMD EPYC (Zen 5) that nobody else used, 24 November 2026, at 154c314. `S` is the default,
//! `sbm:nodes=50000,classes=16,feat=128,degree=16,homophily=0.5`; `R16` and `R18` are
//! `rmat:scale=16,edge-factor=16,feat=128,classes=32` and scale 18. Milliseconds, ours / the fastest stock
//! form / the fastest written by hand; then ours against both, and memory at the peak, ours over stock's.
//!
//! | graph, model | every aggregate anew | | the first one once | | memory |
//! |---|---|---|---|---|---|
//! | S, GCN | 17.0 / 45.8 / 46.0 | 2.70, 2.71 | 14.1 / 34.7 / 32.2 | 2.46, 2.29 | 0.13 |
//! | S, SAGE | 26.3 / 68.8 / 72.2 | 2.62, 2.75 | 23.0 / 59.6 / 59.4 | 2.59, 2.58 | 0.15 |
//! | S, GAT | 105 / 511 / 444 | 4.88, 4.24 | | | 0.04 |
//! | R16, GCN | 25.7 / 70.8 / 85.0 | 2.75, 3.30 | 20.2 / 54.4 / 54.7 | 2.69, 2.71 | 0.17 |
//! | R16, SAGE | 38.8 / 104 / 126 | 2.69, 3.26 | 32.5 / 94.2 / 95.5 | 2.90, 2.94 | 0.21 |
//! | R16, GAT | 152 / 891 / 787 | 5.86, 5.18 | | | 0.23 |
//! | R18, GCN | 114 / 306 / 444 | 2.68, 3.90 | 79.5 / 229 / 243 | 2.88, 3.06 | 0.20 |
//! | R18, SAGE | 163 / 444 / 593 | 2.72, 3.64 | 135 / 364 / 388 | 2.69, 2.87 | 0.26 |
//! | R18, GAT | 650 / 5666 / 3942 | 8.72, 6.06 | | | 0.36 |
//!
//! In a second run of four rounds, S with GCN was 18.3 / 45.5 / 49.2 (2.49, 2.70) and once 14.4 / 34.9 / 32.8
//! (2.42, 2.28). The peak was 1.05 to 1.26 times what the plan says that graph, features, activations and
//! gradients take; S with GCN 1.31 to 1.35, of which the program itself is 0.17. The best stock form is
//! DGL's but for S with GAT (PyG's); PyG ran out of memory on R18 with GAT.
//!
//! Single operations on R16, width 128 (`halobook bench kernels --data rmat:scale=16,edge-factor=16 --width
//! 128 --threads 2 --rounds 3 --against python`), ours / theirs: SpMM without weights 5.1 / 8.3 (DGL), with
//! weights 5.3 / 23.3 (torch, CSR) and 99 (DGL); linear with bias and ReLU 4.6 / 12.0 (torch); weight
//! gradient with bias 5.1 / 12.1 (torch).
//!
//! On a busy host with an Intel Xeon (AMX) the ratios were 1.2 to 1.9 before rows were prefetched whole;
//! they were not measured there again.

pub mod epoch;
pub mod export;
pub mod others;
pub mod ours;
pub mod python;
pub mod sample;
