// Elementwise products of pairs of rows, and their adjoint. Twin of kernels::pairs.

// out[e, c] = z[u, c] z[v, c] for each pair (u, v).
extern "C" __global__ void __launch_bounds__(256)
    pair_products(const u32* __restrict__ ends, u64 pairs, u32 d, const float* __restrict__ z,
                  float* __restrict__ out) {
    const u64 k = (u64)blockIdx.x * 256 + threadIdx.x;
    if (k >= pairs * d) return;
    const u64 e = k / d, c = k % d;
    out[k] = z[ends[2 * e] * (u64)d + c] * z[ends[2 * e + 1] * (u64)d + c];
}

// g[u, c] = sum of gp[e, c] z[v, c] over the pairs that u is in, in their order; entries are twice a
// pair plus the side on which the row stands.
extern "C" __global__ void __launch_bounds__(256)
    pair_gradients(const u64* __restrict__ start, const u32* __restrict__ entries,
                   const u32* __restrict__ ends, u64 n, u32 d, const float* __restrict__ z,
                   const float* __restrict__ gp, float* __restrict__ g) {
    const u64 k = (u64)blockIdx.x * 256 + threadIdx.x;
    if (k >= n * d) return;
    const u64 u = k / d, c = k % d;
    float sum = 0.0f;
    for (u64 i = start[u]; i < start[u + 1]; i++) {
        // The other end stands beside this one.
        const u64 e = entries[i] / 2, other = ends[entries[i] ^ 1];
        sum += gp[e * d + c] * z[other * d + c];
    }
    g[k] = sum;
}
