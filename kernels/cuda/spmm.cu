// Sparse matrix times dense matrix: sum and mean over the edges of a row. Twin of
// kernels::spmm, and of kernels::spmm_bf16 for rows stored in half the bytes.
//
// One warp an item. `lanes` of its lanes (a power of two) hold the columns, V floats each, R times;
// the others take further edges at the same time, added up at the end. Indices are read 32 at a
// time and handed around by shuffles, so that the only loads in the loop are rows of x.

template <int V, int R, typename T>
__device__ __forceinline__ void spmm_body(CSR_ARGS, const float* __restrict__ weights,
                                          const T* __restrict__ x, u32 d, u32 lanes, u32 mean,
                                          u32 add, float* __restrict__ partial,
                                          float* __restrict__ out) {
    Item it;
    if (!take_item(CSR, it)) return;
    const u32 lane = threadIdx.x & 31, step = 32 / lanes, sub = lane / lanes;
    const u32 c0 = blockIdx.y * lanes * V * R + (lane & (lanes - 1)) * V;
    float acc[R][V];
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int i = 0; i < V; i++) acc[r][i] = 0.0f;
    for (u64 base = it.first; base < it.last; base += 32) {
        const u32 n = (u32)min((u64)32, it.last - base);
        const u32 col = lane < n ? indices[base + lane] : 0;
        const float wgt = weights && lane < n ? weights[base + lane] : 1.0f;
#pragma unroll 4
        for (u32 k = 0; k < n; k += step) {
            const u32 from = k + sub;
            const u32 u = __shfl_sync(ALL, col, from & 31);
            const float w = __shfl_sync(ALL, wgt, from & 31);
            if (from < n) {
                const T* row = x + (u64)u * d;
#pragma unroll
                for (int r = 0; r < R; r++) {
                    const u32 c = c0 + r * lanes * V;
                    if (c < d) {
                        float t[V];
                        load<V>(row + c, t);
#pragma unroll
                        for (int i = 0; i < V; i++) acc[r][i] += w * t[i];
                    }
                }
            }
        }
    }
    float scale = 1.0f;
    if (mean && it.slot == NONE && it.last > it.first) scale = 1.0f / (float)(it.last - it.first);
#pragma unroll
    for (int r = 0; r < R; r++) {
#pragma unroll
        for (int i = 0; i < V; i++) acc[r][i] = sum_over(acc[r][i], lanes, 32) * scale;
        const u32 c = c0 + r * lanes * V;
        if (sub != 0 || c >= d) continue;
        if (it.slot != NONE) {
            store<V>(partial + (u64)it.slot * d + c, acc[r]);
        } else {
            float* to = out + (u64)it.row * d + c;
            if (add) {
                float old[V];
                load<V>(to, old);
#pragma unroll
                for (int i = 0; i < V; i++) acc[r][i] += old[i];
            }
            store<V>(to, acc[r]);
        }
    }
}

#define SPMM(NAME, T, V, R)                                                                        \
    extern "C" __global__ void __launch_bounds__(256)                                              \
        NAME##_##V##_##R(CSR_ARGS, const float* __restrict__ weights, const T* __restrict__ x,     \
                         u32 d, u32 lanes, u32 mean, u32 add, float* __restrict__ partial,         \
                         float* __restrict__ out) {                                                \
        spmm_body<V, R>(CSR, weights, x, d, lanes, mean, add, partial, out);                       \
    }
#define SPMMS(NAME, T)                                                                             \
    SPMM(NAME, T, 1, 1) SPMM(NAME, T, 1, 2) SPMM(NAME, T, 1, 4)                                    \
    SPMM(NAME, T, 4, 1) SPMM(NAME, T, 4, 2) SPMM(NAME, T, 4, 4)
SPMMS(spmm, float)
SPMMS(spmm_bf16, u16)

// Rounds to the nearest bf16, ties to even; NaN stays NaN.
extern "C" __global__ void __launch_bounds__(256)
    to_bf16(const float* __restrict__ x, u64 n, u16* __restrict__ out) {
    const u64 k = (u64)blockIdx.x * 256 + threadIdx.x;
    if (k >= n) return;
    const float v = x[k];
    const u32 bits = __float_as_uint(v);
    out[k] = v != v ? bits >> 16 | 0x40 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

// Sums the pieces of long rows, in order: partial [pieces, d] to out[long_row[k], :]. A block of
// 32 columns by 8 runs of pieces; runs are added in order.
extern "C" __global__ void __launch_bounds__(256)
    combine_sum(const u64* __restrict__ indptr, const u32* __restrict__ long_row,
                const u32* __restrict__ long_first, u32 piece0, const float* __restrict__ partial,
                u32 d, u32 mean, u32 add, float* __restrict__ out) {
    __shared__ float runs[8][33];
    const u32 row = long_row[blockIdx.x], c = blockIdx.y * 32 + (threadIdx.x & 31);
    const u32 run = threadIdx.x >> 5;
    const u32 first = long_first[blockIdx.x] - piece0, last = long_first[blockIdx.x + 1] - piece0;
    const u32 each = (last - first + 7) / 8;
    float sum = 0.0f;
    for (u32 p = first + run * each; p < min(first + (run + 1) * each, last); p++)
        if (c < d) sum += partial[(u64)p * d + c];
    runs[run][threadIdx.x & 31] = sum;
    __syncthreads();
    if (run != 0 || c >= d) return;
    sum = 0.0f;
    for (u32 k = 0; k < 8; k++) sum += runs[k][threadIdx.x & 31];
    if (mean) sum *= 1.0f / (float)(indptr[row + 1] - indptr[row]);
    float* to = out + (u64)row * d + c;
    *to = add ? *to + sum : sum;
}
