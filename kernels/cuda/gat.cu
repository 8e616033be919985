// Attention over the in-edges of a row, forward and backward, without anything of size edges by
// heads by width. Twin of kernels::gat and kernels::gat_backward.

__device__ __forceinline__ float leaky(float s, float slope) { return s > 0.0f ? s : slope * s; }

// Factor of attention dropout of edge u -> v (destination v): 0, or scale for survivors.
struct Drop {
    u64 key;
    const u32* dst_ids; // null without dropout
    const u32* src_ids;
    u32 keep;
    float scale;

    __device__ __forceinline__ u64 row(u32 v, u32 u) const {
        return dst_ids ? hash_row(key ^ mix64((u64)dst_ids[v]), src_ids[u]) : 0;
    }
    __device__ __forceinline__ float factor(u64 row, u32 head) const {
        return !dst_ids ? 1.0f : survives(row, head, keep) ? scale : 0.0f;
    }
};
#define DROP_ARGS                                                                                  \
    u64 drop_key, const u32 *__restrict__ dst_ids, const u32 *__restrict__ src_ids, u32 drop_keep, \
        float drop_scale
#define DROP drop_key, dst_ids, src_ids, drop_keep, drop_scale

// lse[v, h] = ln sum_e exp(leaky(el[u, h] + er[v, h])), minus infinity for a row without edges.
// `lanes` (a power of two) heads beside each other, the other lanes on further edges. With `stored`
// the scores are el[e, h] itself, without er and slope.
extern "C" __global__ void __launch_bounds__(256)
    gat_lse(CSR_ARGS, const float* __restrict__ el, const float* __restrict__ er, u32 heads,
            u32 lanes, float slope, u32 stored, float* __restrict__ part_top,
            float* __restrict__ part_sum, float* __restrict__ lse) {
    Item it;
    if (!take_item(CSR, it)) return;
    const u32 lane = threadIdx.x & 31, h = blockIdx.y * lanes + lane % lanes;
    const bool ok = h < heads;
    const float here = ok && !stored ? er[(u64)it.row * heads + h] : 0.0f;
    // Four scores at a time, so that their loads wait together; the sum is rescaled once for all four.
    float top = NEGATIVE_INFINITY, sum = 0.0f;
    const u32 step = 32 / lanes;
    for (u64 first = it.first + lane / lanes; ok && first < it.last; first += 4 * step) {
        float s[4], most = top;
#pragma unroll
        for (u32 j = 0; j < 4; j++) {
            const u64 e = first + j * step;
            s[j] = NEGATIVE_INFINITY;
            if (e < it.last)
                s[j] = stored ? el[e * heads + h]
                              : leaky(el[(u64)indices[e] * heads + h] + here, slope);
            most = fmaxf(most, s[j]);
        }
        sum *= expf(top - most);
#pragma unroll
        for (u32 j = 0; j < 4; j++) sum += expf(s[j] - most);
        top = most;
    }
    const float most = max_over(top, lanes, 32);
    sum *= sum > 0.0f ? expf(top - most) : 0.0f;
    top = most;
    sum = sum_over(sum, lanes, 32);
    if (!ok || lane / lanes != 0) return;
    if (it.slot != NONE) {
        part_top[(u64)it.slot * heads + h] = top;
        part_sum[(u64)it.slot * heads + h] = sum;
    } else {
        lse[(u64)it.row * heads + h] = it.last > it.first ? top + logf(sum) : NEGATIVE_INFINITY;
    }
}

// Joins the pieces of long rows, in order: a block of 32 heads by 8 runs of pieces.
extern "C" __global__ void __launch_bounds__(256)
    combine_lse(const u32* __restrict__ long_row, const u32* __restrict__ long_first, u32 piece0,
                const float* __restrict__ part_top, const float* __restrict__ part_sum, u32 heads,
                float* __restrict__ lse) {
    __shared__ float tops[8][33], sums[8][33];
    const u32 lane = threadIdx.x & 31, run = threadIdx.x >> 5, h = blockIdx.y * 32 + lane;
    const u32 first = long_first[blockIdx.x] - piece0, last = long_first[blockIdx.x + 1] - piece0;
    const u32 each = (last - first + 7) / 8;
    const u32 from = first + run * each, to = min(from + each, last);
    float top = NEGATIVE_INFINITY, sum = 0.0f;
    if (h < heads) {
        for (u32 p = from; p < to; p++) top = fmaxf(top, part_top[(u64)p * heads + h]);
        for (u32 p = from; p < to; p++)
            sum += part_sum[(u64)p * heads + h] * expf(part_top[(u64)p * heads + h] - top);
    }
    tops[run][lane] = top;
    sums[run][lane] = sum;
    __syncthreads();
    if (run != 0 || h >= heads) return;
    for (u32 k = 1; k < 8; k++) top = fmaxf(top, tops[k][lane]);
    sum = 0.0f;
    // A run without pieces has sum 0 and top minus infinity.
    for (u32 k = 0; k < 8; k++)
        if (sums[k][lane] != 0.0f) sum += sums[k][lane] * expf(tops[k][lane] - top);
    lse[(u64)long_row[blockIdx.x] * heads + h] = top + logf(sum);
}

// Where sums go, and where those of the edges with positive scores alone do (null where nobody asks), with
// their share of the softmax before dropout; the first of each pair is for pieces.
struct Sums {
    float *part, *out, *part_above, *above, *part_share, *share;

    __device__ __forceinline__ float* row(const Item& it, u64 width) const {
        return it.slot != NONE ? part + it.slot * width : out + it.row * width;
    }
    __device__ __forceinline__ float* row_above(const Item& it, u64 width) const {
        return it.slot != NONE ? part_above + it.slot * width : above + it.row * width;
    }
    __device__ __forceinline__ float* row_share(const Item& it, u64 heads) const {
        return it.slot != NONE ? part_share + it.slot * heads : share + it.row * heads;
    }
};
#define SUM_ARGS                                                                                   \
    float *__restrict__ part, float *__restrict__ out, float *__restrict__ part_above,             \
        float *__restrict__ above, float *__restrict__ part_share, float *__restrict__ share
#define SUMS part, out, part_above, above, part_share, share

// out[v] = sum_e exp(s_e - lse[v]) k_e z[u].
template <int V, int R>
__device__ __forceinline__ void
gat_sum_body(CSR_ARGS, HEAD_ARGS, DROP_ARGS, const float* __restrict__ z,
             const float* __restrict__ el, const float* __restrict__ er,
             const float* __restrict__ lse, float slope, const Sums to) {
    Item it;
    if (!take_item(CSR, it)) return;
    const Place<V, R> at(HEADS);
    const Drop drop = {DROP};
    const u32 lane = threadIdx.x & 31, width = heads * dim;
    const bool wide = col_step != 0;
    float acc[R][V], up[R][V], share[R], here[R], norm[R];
#pragma unroll
    for (int r = 0; r < R; r++) {
        here[r] = at.in_head[r] ? er[(u64)it.row * heads + at.head[r]] : 0.0f;
        norm[r] = at.in_head[r] ? lse[(u64)it.row * heads + at.head[r]] : 0.0f;
        share[r] = 0.0f;
#pragma unroll
        for (int i = 0; i < V; i++) acc[r][i] = up[r][i] = 0.0f;
    }
    for (u64 base = it.first; base < it.last; base += 32) {
        const u32 n = (u32)min((u64)32, it.last - base);
        const u32 col = lane < n ? indices[base + lane] : 0;
        for (u32 k = 0; k < n; k += at.step) {
            const u32 from = k + at.sub, u = __shfl_sync(ALL, col, from & 31);
            // All loads first: they wait together.
            float s[R], t[R][V];
#pragma unroll
            for (int r = 0; r < R; r++) {
                s[r] = 0.0f;
#pragma unroll
                for (int i = 0; i < V; i++) t[r][i] = 0.0f;
                if (from < n && at.ok[r]) {
                    s[r] = el[(u64)u * heads + at.head[r]];
                    load<V>(z + (u64)u * width + at.at[r], t[r]);
                }
            }
            if (from >= n) continue;
            const u64 row = drop.row(it.row, u);
#pragma unroll
            for (int r = 0; r < R; r++) {
                if (at.ok[r]) {
                    const float score = s[r] + here[r], of = expf(leaky(score, slope) - norm[r]);
                    const float a = of * drop.factor(row, at.head[r]);
                    const float positive = score > 0.0f ? 1.0f : 0.0f;
                    share[r] += positive * of;
#pragma unroll
                    for (int i = 0; i < V; i++) {
                        acc[r][i] += a * t[r][i];
                        up[r][i] += positive * a * t[r][i];
                    }
                }
            }
        }
    }
#pragma unroll
    for (int r = 0; r < R; r++) {
#pragma unroll
        for (int i = 0; i < V; i++) acc[r][i] = sum_over(acc[r][i], lanes * slots, 32);
        if (at.sub == 0 && at.ok[r]) store<V>(to.row(it, width) + at.at[r], acc[r]);
        if (!to.above) continue;
#pragma unroll
        for (int i = 0; i < V; i++) up[r][i] = sum_over(up[r][i], lanes * slots, 32);
        share[r] = sum_over(share[r], lanes * slots, 32);
        if (at.sub == 0 && at.ok[r]) store<V>(to.row_above(it, width) + at.at[r], up[r]);
        if (at.sub == 0 && at.in_head[r] && at.writes && (r == 0 || !wide))
            to.row_share(it, heads)[at.head[r]] = share[r];
    }
}

// Backward over the transposed matrix: item rows are sources u, indices destinations v. Writes
// dz[u] = sum a k g[v] and del[u, h] = sum ds, where ds = a (k <g[v, h], z[u, h]> - c[v, h]) leaky'(s); pieces go to part_dz and part_del.
template <int V, int R>
__device__ __forceinline__ void
gat_source_body(CSR_ARGS, HEAD_ARGS, DROP_ARGS, const float* __restrict__ z,
                const float* __restrict__ el, const float* __restrict__ er,
                const float* __restrict__ lse, const float* __restrict__ c,
                const float* __restrict__ g, float slope, float* __restrict__ part_dz,
                float* __restrict__ part_del, float* __restrict__ dz, float* __restrict__ del) {
    Item it;
    if (!take_item(CSR, it)) return;
    const Place<V, R> at(HEADS);
    const Drop drop = {DROP};
    const u32 lane = threadIdx.x & 31, width = heads * dim;
    const bool wide = col_step != 0;
    float mine[R][V], acc[R][V], here[R], sum[R];
#pragma unroll
    for (int r = 0; r < R; r++) {
        here[r] = at.in_head[r] ? el[(u64)it.row * heads + at.head[r]] : 0.0f;
        sum[r] = 0.0f;
#pragma unroll
        for (int i = 0; i < V; i++) mine[r][i] = acc[r][i] = 0.0f;
        if (at.ok[r]) load<V>(z + (u64)it.row * width + at.at[r], mine[r]);
    }
    for (u64 base = it.first; base < it.last; base += 32) {
        const u32 n = (u32)min((u64)32, it.last - base);
        const u32 col = lane < n ? indices[base + lane] : 0;
        for (u32 k = 0; k < n; k += at.step) {
            const u32 from = k + at.sub, v = __shfl_sync(ALL, col, from & 31);
            // All loads first: they wait together.
            float t[R][V], score[R], norm[R], own[R], dot[R];
#pragma unroll
            for (int r = 0; r < R; r++) {
                score[r] = norm[r] = own[r] = 0.0f;
#pragma unroll
                for (int i = 0; i < V; i++) t[r][i] = 0.0f;
                if (from < n && at.ok[r]) load<V>(g + (u64)v * width + at.at[r], t[r]);
                if (from < n && at.in_head[r]) {
                    const u64 vh = (u64)v * heads + at.head[r];
                    score[r] = er[vh], norm[r] = lse[vh], own[r] = c[vh];
                }
            }
#pragma unroll
            for (int r = 0; r < R; r++) {
                dot[r] = 0.0f;
#pragma unroll
                for (int i = 0; i < V; i++) dot[r] += t[r][i] * mine[r][i];
            }
            sum_heads<R>(dot, lanes, wide);
            if (from >= n) continue;
            const u64 row = drop.row(v, it.row);
#pragma unroll
            for (int r = 0; r < R; r++) {
                if (at.in_head[r]) {
                    const float s = here[r] + score[r];
                    const float a = expf(leaky(s, slope) - norm[r]);
                    const float f = drop.factor(row, at.head[r]);
                    const float d = a * (f * dot[r] - own[r]) * (s > 0.0f ? 1.0f : slope);
                    sum[r] += d;
#pragma unroll
                    for (int i = 0; i < V; i++) acc[r][i] += a * f * t[r][i];
                }
            }
        }
    }
    const bool split = it.slot != NONE;
    float* to = split ? part_dz + (u64)it.slot * width : dz + (u64)it.row * width;
    float* to_del = split ? part_del + (u64)it.slot * heads : del + (u64)it.row * heads;
#pragma unroll
    for (int r = 0; r < R; r++) {
#pragma unroll
        for (int i = 0; i < V; i++) acc[r][i] = sum_over(acc[r][i], lanes * slots, 32);
        sum[r] = sum_over(sum[r], lanes * slots, 32);
        if (at.sub == 0 && at.ok[r]) store<V>(to + at.at[r], acc[r]);
        if (at.sub == 0 && at.in_head[r] && at.writes && (r == 0 || !wide))
            to_del[at.head[r]] = sum[r];
    }
}

#define GAT(V, R)                                                                                  \
    extern "C" __global__ void __launch_bounds__(256)                                              \
        gat_sum_##V##_##R(CSR_ARGS, HEAD_ARGS, DROP_ARGS, const float* __restrict__ z,             \
                          const float* __restrict__ el, const float* __restrict__ er,              \
                          const float* __restrict__ lse, float slope, SUM_ARGS) {                  \
        gat_sum_body<V, R>(CSR, HEADS, DROP, z, el, er, lse, slope, Sums{SUMS});                   \
    }                                                                                              \
    extern "C" __global__ void __launch_bounds__(256)                                              \
        gat_source_##V##_##R(CSR_ARGS, HEAD_ARGS, DROP_ARGS, const float* __restrict__ z,          \
                             const float* __restrict__ el, const float* __restrict__ er,           \
                             const float* __restrict__ lse, const float* __restrict__ c,           \
                             const float* __restrict__ g, float slope,                             \
                             float* __restrict__ part_dz, float* __restrict__ part_del,            \
                             float* __restrict__ dz, float* __restrict__ del) {                    \
        gat_source_body<V, R>(CSR, HEADS, DROP, z, el, er, lse, c, g, slope, part_dz, part_del,    \
                              dz, del);                                                            \
    }
GAT(1, 1) GAT(1, 2) GAT(1, 4) GAT(4, 1) GAT(4, 2) GAT(4, 4)

// The same for heads too wide for registers; blockIdx.y is the head. Slow, and right for any width.
extern "C" __global__ void __launch_bounds__(256)
    gat_sum_any(CSR_ARGS, u32 heads, u32 dim, DROP_ARGS, const float* __restrict__ z,
                const float* __restrict__ el, const float* __restrict__ er,
                const float* __restrict__ lse, float slope, SUM_ARGS) {
    Item it;
    if (!take_item(CSR, it)) return;
    const Drop drop = {DROP};
    const u32 h = blockIdx.y;
    const u64 width = (u64)heads * dim, vh = (u64)it.row * heads + h;
    const Sums to = {SUMS};
    for (u32 c = threadIdx.x & 31; c < dim; c += 32) {
        float sum = 0.0f, up = 0.0f, of_head = 0.0f;
        for (u64 e = it.first; e < it.last; e++) {
            const u64 u = indices[e];
            const float s = el[u * heads + h] + er[vh], a = expf(leaky(s, slope) - lse[vh]);
            const float f = drop.factor(drop.row(it.row, (u32)u), h);
            const float part = a * f * z[u * width + h * dim + c];
            sum += part;
            if (s > 0.0f) up += part, of_head += a;
        }
        to.row(it, width)[h * dim + c] = sum;
        if (!to.above) continue;
        to.row_above(it, width)[h * dim + c] = up;
        if (c == 0) to.row_share(it, heads)[h] = of_head;
    }
}

extern "C" __global__ void __launch_bounds__(256)
    gat_source_any(CSR_ARGS, u32 heads, u32 dim, DROP_ARGS, const float* __restrict__ z,
                   const float* __restrict__ el, const float* __restrict__ er,
                   const float* __restrict__ lse, const float* __restrict__ c,
                   const float* __restrict__ g, float slope, float* __restrict__ part_dz,
                   float* __restrict__ part_del, float* __restrict__ dz,
                   float* __restrict__ del) {
    Item it;
    if (!take_item(CSR, it)) return;
    const Drop drop = {DROP};
    const u32 h = blockIdx.y, lane = threadIdx.x & 31;
    const u64 width = (u64)heads * dim, uh = (u64)it.row * heads + h;
    const bool split = it.slot != NONE;
    float* to = (split ? part_dz + it.slot * width : dz + it.row * width) + h * dim;
    const float* mine = z + it.row * width + h * dim;
    for (u32 k = lane; k < dim; k += 32) to[k] = 0.0f;
    float sum = 0.0f;
    for (u64 e = it.first; e < it.last; e++) {
        const u64 vh = (u64)indices[e] * heads + h;
        const float* row = g + indices[e] * width + h * dim;
        float dot = 0.0f;
        for (u32 k = lane; k < dim; k += 32) dot += row[k] * mine[k];
        dot = sum_over(dot, 1, 32);
        const float s = el[uh] + er[vh], a = expf(leaky(s, slope) - lse[vh]);
        const float f = drop.factor(drop.row(indices[e], it.row), h);
        const float d = a * (f * dot - c[vh]) * (s > 0.0f ? 1.0f : slope);
        sum += d;
        for (u32 k = lane; k < dim; k += 32) to[k] += a * f * row[k];
    }
    if (lane == 0) (split ? part_del : del)[split ? (u64)it.slot * heads + h : uh] = sum;
}

// The gradient of destinations' scores, in the place of products of g with the sums of positive scores.
extern "C" __global__ void __launch_bounds__(256)
    gat_destinations(const float* __restrict__ c, const float* __restrict__ share, float scale,
                     u64 n, float* __restrict__ der) {
    const u64 k = (u64)blockIdx.x * 256 + threadIdx.x;
    if (k < n) der[k] = scale * (der[k] - c[k] * share[k]);
}
