// Numbers on edges and on heads: dot products, softmax over the edges of a row, sums. Twin of
// kernels::sddmm and kernels::edge_softmax, and of the small parts of kernels::gat.

// out[e, h] = <y[v, h], x[u, h]> for every edge u -> v of the items' rows.
template <int V, int R>
__device__ __forceinline__ void sddmm_body(CSR_ARGS, HEAD_ARGS, const float* __restrict__ y,
                                           const float* __restrict__ x, float* __restrict__ out) {
    Item it;
    if (!take_item(CSR, it)) return;
    const Place<V, R> at(HEADS);
    const u32 lane = threadIdx.x & 31;
    const u64 width = (u64)heads * dim;
    const bool wide = col_step != 0;
    float mine[R][V];
#pragma unroll
    for (int r = 0; r < R; r++) {
#pragma unroll
        for (int i = 0; i < V; i++) mine[r][i] = 0.0f;
        if (at.ok[r]) load<V>(y + it.row * width + at.at[r], mine[r]);
    }
    for (u64 base = it.first; base < it.last; base += 32) {
        const u32 n = (u32)min((u64)32, it.last - base);
        const u32 col = lane < n ? indices[base + lane] : 0;
#pragma unroll 2
        for (u32 k = 0; k < n; k += at.step) {
            const u32 from = k + at.sub, u = __shfl_sync(ALL, col, from & 31);
            float dot[R];
#pragma unroll
            for (int r = 0; r < R; r++) {
                float t[V];
                dot[r] = 0.0f;
                if (from < n && at.ok[r]) {
                    load<V>(x + u * width + at.at[r], t);
#pragma unroll
                    for (int i = 0; i < V; i++) dot[r] += t[i] * mine[r][i];
                }
            }
            sum_heads<R>(dot, lanes, wide);
#pragma unroll
            for (int r = 0; r < R; r++)
                if (from < n && at.in_head[r] && at.writes && (r == 0 || !wide))
                    out[(base + from) * heads + at.head[r]] = dot[r];
        }
    }
}

#define SDDMM(V, R)                                                                                \
    extern "C" __global__ void __launch_bounds__(256)                                              \
        sddmm_##V##_##R(CSR_ARGS, HEAD_ARGS, const float* __restrict__ y,                          \
                        const float* __restrict__ x, float* __restrict__ out) {                    \
        sddmm_body<V, R>(CSR, HEADS, y, x, out);                                                   \
    }
SDDMM(1, 1) SDDMM(1, 2) SDDMM(1, 4) SDDMM(4, 1) SDDMM(4, 2) SDDMM(4, 4)

// out[v, h] = sum over the edges of v of a[at(e), h] b[at(e), h]; without b, of a; at(e) = map[e],
// without map e itself. `lanes` heads beside each other; pieces go to partial.
extern "C" __global__ void __launch_bounds__(256)
    edge_sum(CSR_ARGS, u32 heads, u32 lanes, const float* __restrict__ a,
             const float* __restrict__ b, const u32* __restrict__ map, float* __restrict__ partial,
             float* __restrict__ out) {
    Item it;
    if (!take_item(CSR, it)) return;
    const u32 lane = threadIdx.x & 31, h = blockIdx.y * lanes + lane % lanes;
    float sum = 0.0f;
    for (u64 e = it.first + lane / lanes; h < heads && e < it.last; e += 32 / lanes) {
        const u64 at = (map ? (u64)map[e] : e) * heads + h;
        sum += b ? a[at] * b[at] : a[at];
    }
    sum = sum_over(sum, lanes, 32);
    if (h >= heads || lane / lanes != 0) return;
    if (it.slot != NONE) partial[(u64)it.slot * heads + h] = sum;
    else out[(u64)it.row * heads + h] = sum;
}

// Softmax over the edges of a row: out[e, h] = exp(s[e, h] - lse[v, h]).
extern "C" __global__ void __launch_bounds__(256)
    edge_softmax(CSR_ARGS, u32 heads, const float* __restrict__ s, const float* __restrict__ lse,
                 float* __restrict__ out) {
    Item it;
    if (!take_item(CSR, it)) return;
    for (u64 k = it.first * heads + (threadIdx.x & 31); k < it.last * heads; k += 32)
        out[k] = expf(s[k] - lse[(u64)it.row * heads + (u32)(k % heads)]);
}

// Its backward: out[e, h] = alpha[e, h] (g[e, h] - c[v, h]), c being the row's sum of alpha g.
extern "C" __global__ void __launch_bounds__(256)
    edge_softmax_backward(CSR_ARGS, u32 heads, const float* __restrict__ alpha,
                          const float* __restrict__ g, const float* __restrict__ c,
                          float* __restrict__ out) {
    Item it;
    if (!take_item(CSR, it)) return;
    for (u64 k = it.first * heads + (threadIdx.x & 31); k < it.last * heads; k += 32)
        out[k] = alpha[k] * (g[k] - c[(u64)it.row * heads + (u32)(k % heads)]);
}

// out[v, h] = <x[v, h, :], y[h, :]>; with y_rows, <x[v, h, :], y[v, h, :]>. One warp a row, `lanes`
// of it on one head.
extern "C" __global__ void __launch_bounds__(256)
    head_dots(const float* __restrict__ x, const float* __restrict__ y, u32 y_rows, u32 n,
              u32 heads, u32 dim, u32 lanes, float* __restrict__ out) {
    const u64 v = (u64)blockIdx.x * 8 + (threadIdx.x >> 5);
    if (v >= n) return;
    const u32 lane = threadIdx.x & 31, slots = 32 / lanes;
    const u64 row = v * heads * dim;
    for (u32 first = 0; first < heads; first += slots) {
        const u32 h = first + lane / lanes;
        float dot = 0.0f;
        for (u32 c = lane % lanes; h < heads && c < dim; c += lanes) {
            const u64 at = (u64)h * dim + c;
            dot += x[row + at] * y[(y_rows ? row : 0) + at];
        }
        dot = sum_over(dot, 1, lanes);
        if (h < heads && lane % lanes == 0) out[v * heads + h] = dot;
    }
}

// x[v, h, :] += s[v, h] a[h, :] for the first n rows.
extern "C" __global__ void __launch_bounds__(256)
    head_outer_add(const float* __restrict__ s, const float* __restrict__ a, u32 n, u32 heads,
                   u32 dim, float* __restrict__ x) {
    const u64 k = (u64)blockIdx.x * 256 + threadIdx.x, width = (u64)heads * dim;
    if (k >= n * width) return;
    const u32 c = (u32)(k % width);
    x[k] += s[k / width * heads + c / dim] * a[c];
}

// sddmm for heads too wide for registers; blockIdx.y is the head.
extern "C" __global__ void __launch_bounds__(256)
    sddmm_any(CSR_ARGS, u32 heads, u32 dim, const float* __restrict__ y,
              const float* __restrict__ x, float* __restrict__ out) {
    Item it;
    if (!take_item(CSR, it)) return;
    const u32 h = blockIdx.y, lane = threadIdx.x & 31;
    const u64 width = (u64)heads * dim;
    for (u64 e = it.first; e < it.last; e++) {
        const float* row = x + indices[e] * width + h * dim;
        const float* mine = y + it.row * width + h * dim;
        float dot = 0.0f;
        for (u32 k = lane; k < dim; k += 32) dot += row[k] * mine[k];
        dot = sum_over(dot, 1, 32);
        if (lane == 0) out[e * heads + h] = dot;
    }
}

// LeakyReLU of the sum of both ends' scores, one head: s[e] = leaky(el[u] + er[v]).
extern "C" __global__ void __launch_bounds__(256)
    edge_scores(CSR_ARGS, const float* __restrict__ el, const float* __restrict__ er, float slope,
                float* __restrict__ out) {
    Item it;
    if (!take_item(CSR, it)) return;
    for (u64 e = it.first + (threadIdx.x & 31); e < it.last; e += 32) {
        const float x = el[indices[e]] + er[it.row];
        out[e] = fmaxf(x, slope * x);
    }
}

// The gradient of those sums from that of the scores, in place.
extern "C" __global__ void __launch_bounds__(256)
    edge_slopes(CSR_ARGS, const float* __restrict__ el, const float* __restrict__ er, float slope,
                float* __restrict__ ds) {
    Item it;
    if (!take_item(CSR, it)) return;
    for (u64 e = it.first + (threadIdx.x & 31); e < it.last; e += 32) {
        const float x = el[indices[e]] + er[it.row];
        if (x <= slope * x) ds[e] *= slope;
    }
}

// Dropout of coefficients, the mask of attention's first head: row and column k are vertex ids[k].
extern "C" __global__ void __launch_bounds__(256)
    edge_dropout(CSR_ARGS, u64 key, const u32* __restrict__ ids, u32 keep, float scale,
                 const float* __restrict__ values, float* __restrict__ out) {
    Item it;
    if (!take_item(CSR, it)) return;
    const u64 of_row = key ^ mix64((u64)ids[it.row]);
    for (u64 e = it.first + (threadIdx.x & 31); e < it.last; e += 32) {
        const bool kept = survives(hash_row(of_row, ids[indices[e]]), 0, keep);
        out[e] = values[e] * (kept ? scale : 0.0f);
    }
}
