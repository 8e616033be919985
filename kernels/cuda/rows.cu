// Moving rows: rectangles of rows and columns by lists of rows, and the adjoint of that for whole rows,
// scatter-add by lists of targets. Twin of kernels::rows and kernels::copy_block.

// out[to[i], to_col + c] = x[from[i], from_col + c] for i < n, c < width, in vectors of V; without a list,
// rows follow each other from the first on.
template <int V>
__device__ __forceinline__ void copy_body(const float* __restrict__ x,
                                          const u32* __restrict__ from, u64 from_first, u32 dx,
                                          u32 from_col, u64 n, u32 width,
                                          const u32* __restrict__ to, u64 to_first, u32 d,
                                          u32 to_col, float* __restrict__ out) {
    const u32 per_row = width / V;
    const u64 k = (u64)blockIdx.x * 256 + threadIdx.x;
    if (k >= n * per_row) return;
    const u64 i = k / per_row;
    const u32 c = (u32)(k % per_row) * V;
    const u64 a = from ? from[i] : from_first + i, b = to ? to[i] : to_first + i;
    float t[V];
    load<V>(x + a * dx + from_col + c, t);
    store<V>(out + b * d + to_col + c, t);
}

#define COPY(V)                                                                                    \
    extern "C" __global__ void __launch_bounds__(256)                                              \
        copy_block_##V(const float* __restrict__ x, const u32* __restrict__ from, u64 from_first,  \
                       u32 dx, u32 from_col, u64 n, u32 width, const u32* __restrict__ to,         \
                       u64 to_first, u32 d, u32 to_col, float* __restrict__ out) {                 \
        copy_body<V>(x, from, from_first, dx, from_col, n, width, to, to_first, d, to_col, out);   \
    }
COPY(1)
COPY(4)

// out[target[t], :] += sum of g[source[k], :] for k from first[t] to first[t + 1], in order.
extern "C" __global__ void __launch_bounds__(256)
    scatter_add(const u32* __restrict__ target, const u32* __restrict__ first,
                const u32* __restrict__ source, u64 targets, const float* __restrict__ g, u32 d,
                float* __restrict__ out) {
    const u64 k = (u64)blockIdx.x * 256 + threadIdx.x;
    if (k >= targets * d) return;
    const u64 t = k / d;
    const u32 c = (u32)(k % d);
    float sum = out[(u64)target[t] * d + c];
    for (u32 i = first[t]; i < first[t + 1]; i++) sum += g[(u64)source[i] * d + c];
    out[(u64)target[t] * d + c] = sum;
}

// Values of sparse rows after dropout; one warp an item. By row, the row's key is that of ids[row]
// and the counter the column; transposed, the roles swap.
extern "C" __global__ void __launch_bounds__(256)
    sparse_dropout(CSR_ARGS, const float* __restrict__ weights, u32 transposed, u64 key,
                   const u32* __restrict__ ids, u32 keep, float scale, float* __restrict__ out) {
    Item it;
    if (!take_item(CSR, it)) return;
    const u64 row = transposed ? 0 : hash_row(key, ids[it.row]);
    for (u64 e = it.first + (threadIdx.x & 31); e < it.last; e += 32) {
        const bool kept = transposed ? survives(hash_row(key, ids[indices[e]]), it.row, keep)
                                     : survives(row, indices[e], keep);
        out[e] = kept ? (weights ? weights[e] : 1.0f) * scale : 0.0f;
    }
}
