//! The kernels' sources, as they were when this crate was compiled.

/// One `.cu` file.
#[derive(Debug)]
pub struct Family {
    /// Its name, without the ending.
    pub name: &'static str,
    /// Its text; [`Family::program`] is what a compiler gets.
    pub text: &'static str,
    /// Its kernels.
    pub kernels: &'static [&'static str],
}

/// What every file begins with.
const COMMON: &str = include_str!("../../cuda/common.cuh");

/// What lets a C++ compiler read them.
pub(super) const SHIM: &str = include_str!("../../cuda/shim.hpp");

impl Family {
    /// The whole program: no file includes another.
    pub fn program(&self) -> String {
        format!("{COMMON}\n#line 1 \"{}.cu\"\n{}", self.name, self.text)
    }
}

macro_rules! families {
    ($($name:literal: [$($kernel:literal),* $(,)?],)*) => {
        /// Every file of kernels.
        pub const FAMILIES: &[Family] = &[$(Family {
            name: $name,
            text: include_str!(concat!("../../cuda/", $name, ".cu")),
            kernels: &[$($kernel),*],
        }),*];
    };
}

families! {
    "spmm": [
        "spmm_1_1", "spmm_1_2", "spmm_1_4", "spmm_4_1", "spmm_4_2", "spmm_4_4", "spmm_bf16_1_1",
        "spmm_bf16_1_2", "spmm_bf16_1_4", "spmm_bf16_4_1", "spmm_bf16_4_2", "spmm_bf16_4_4",
        "to_bf16", "combine_sum",
    ],
    "gat": [
        "gat_lse", "combine_lse", "gat_sum_1_1", "gat_sum_1_2", "gat_sum_1_4", "gat_sum_4_1",
        "gat_sum_4_2", "gat_sum_4_4", "gat_sum_any", "gat_source_1_1", "gat_source_1_2",
        "gat_source_1_4", "gat_source_4_1", "gat_source_4_2", "gat_source_4_4", "gat_source_any",
        "gat_destinations",
    ],
    "edges": [
        "sddmm_1_1", "sddmm_1_2", "sddmm_1_4", "sddmm_4_1", "sddmm_4_2", "sddmm_4_4", "sddmm_any",
        "edge_sum", "edge_softmax", "edge_softmax_backward", "edge_scores", "edge_slopes",
        "edge_dropout", "head_dots", "head_outer_add",
    ],
    "draw": ["draw_count", "draw_ends", "draw_pick", "draw_fill"],
    "pairs": ["pair_products", "pair_gradients"],
    "rspmm": ["rspmm", "rspmm_t", "rspmm_coef", "rspmm_coef_sum"],
    "rows": ["copy_block_1", "copy_block_4", "scatter_add", "sparse_dropout"],
    "then": ["then_1", "then_4", "axpby"],
    "columns": ["column_sums"],
    "layernorm": ["layer_norm", "layer_norm_backward", "layer_norm_params"],
    "loss": ["softmax_xent", "sigmoid_bce", "sum_f64", "dot_f64", "to_f32"],
    "optim": ["adam", "sgd", "sparse_adagrad", "sparse_adam"],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_of_a_file_is_listed_once() {
        let mut seen = std::collections::HashSet::new();
        for family in FAMILIES {
            assert!(!family.text.contains("#include"), "{}.cu", family.name);
            for kernel in family.kernels {
                assert!(seen.insert(kernel), "{kernel} twice");
                let stem = kernel.trim_end_matches(|c: char| c.is_ascii_digit() || c == '_');
                assert!(family.text.contains(stem), "{kernel} in {}.cu", family.name);
            }
        }
    }
}
