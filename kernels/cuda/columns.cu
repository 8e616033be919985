// Sums over rows, in two stages of fixed order: blocks of `rows` rows to partial [blocks, d], and
// the same kernel once more over those. Twin of kernels::elementwise's column sums.

// 32 columns by 8 runs of rows; runs are added in order. With w [n, heads], column c of row r
// counts w[r, c / dim] times (the gradient of attention's score vectors).
extern "C" __global__ void __launch_bounds__(256)
    column_sums(const float* __restrict__ g, u64 n, u32 d, u32 rows, const float* __restrict__ w,
                u32 heads, u32 dim, float* __restrict__ out) {
    __shared__ float runs[8][33];
    const u32 lane = threadIdx.x & 31, run = threadIdx.x >> 5, c = blockIdx.y * 32 + lane;
    const u64 first = (u64)blockIdx.x * rows, last = min(first + rows, n);
    const u64 each = (rows + 7) / 8, from = first + run * each, to = min(from + each, last);
    float sum = 0.0f;
    if (c < d) {
        for (u64 r = from; r < to; r++)
            sum += w ? w[r * heads + c / dim] * g[r * d + c] : g[r * d + c];
    }
    runs[run][lane] = sum;
    __syncthreads();
    if (run != 0 || c >= d) return;
    sum = 0.0f;
    for (u32 k = 0; k < 8; k++) sum += runs[k][lane];
    out[(u64)blockIdx.x * d + c] = sum;
}
