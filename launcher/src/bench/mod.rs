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
//! an AMD EPYC (Zen 5), of which others used up to a seventh for a while, 24 November 2026, at f19e4ef. `S` is
//! the default, `sbm:nodes=50000,classes=16,feat=128,degree=16,homophily=0.5`; `R16` and `R18` are
//! `rmat:scale=16,edge-factor=16,feat=128,classes=32` and scale 18. Milliseconds, ours / the fastest stock
//! form / the fastest written by hand; then ours against both, and memory at the peak: ours over stock's, and
//! ours over what the plan says that graph, features, activations and gradients take.
//!
//! | graph, model | every aggregate anew | | the first one once | | memory | of the plan |
//! |---|---|---|---|---|---|---|
//! | S, GCN | 18.5 / 50.0 / 59.4 | 2.71, 3.22 | 13.4 / 37.1 / 33.8 | 2.77, 2.52 | 0.11 | 1.27 |
//! | S, SAGE | 27.2 / 74.1 / 82.9 | 2.73, 3.05 | 23.8 / 65.1 / 65.9 | 2.74, 2.77 | 0.13 | 1.27 |
//! | S, GAT | 113 / 480 / 467 | 4.25, 4.14 | | | 0.04 | 1.17 |
//! | R16, GCN | 28.4 / 91.6 / 113 | 3.23, 3.97 | 20.5 / 64.7 / 65.1 | 3.16, 3.18 | 0.16 | 1.16 |
//! | R16, SAGE | 44.5 / 123 / 156 | 2.75, 3.51 | 36.9 / 101 / 113 | 2.74, 3.06 | 0.19 | 1.17 |
//! | R16, GAT | 175 / 1264 / 1157 | 7.24, 6.62 | | | 0.03 | 1.20 |
//! | R18, GCN | 139 / 375 / 580 | 2.70, 4.17 | 93.5 / 275 / 312 | 2.94, 3.34 | 0.21 | 1.04 |
//! | R18, SAGE | 181 / 542 / 765 | 2.99, 4.23 | 152 / 435 / 479 | 2.86, 3.15 | 0.28 | 1.04 |
//! | R18, GAT | 798 / 6399 / 4856 | 8.02, 6.08 | | | 0.29 | 1.14 |
//!
//! On the same class, on a quieter host and before the gradient between the first two layers was made piece by
//! piece (154c314), ratios to stock were 2.46 to 8.72, and S with GCN once 2.46 and 2.42. At e9448a2, with
//! three rounds, S with GCN 2.83 and 2.79, with SAGE 2.59 and 2.67, with GAT 4.87. The best stock form is DGL's
//! but for S and R16 with GAT (PyG's); PyG ran out of memory on R18 with GAT.
//!
//! Single operations on R16, width 128 (`halobook bench kernels --data rmat:scale=16,edge-factor=16 --width
//! 128 --threads 2 --rounds 3 --against python`, at 3043fd9), ours / theirs: SpMM without weights 5.5 / 10.5
//! (DGL), with weights 5.6 / 28.2 (torch, CSR) and 119 (DGL); linear with bias and ReLU 4.8 / 13.2 (torch);
//! weight gradient with bias 5.4 / 13.1 (torch).
//!
//! On a busy host with an Intel Xeon (AMX) the ratios were 1.2 to 1.9 before rows were prefetched whole;
//! they were not measured there again.

pub mod epoch;
pub mod export;
pub mod others;
pub mod ours;
pub mod python;
pub mod sample;
