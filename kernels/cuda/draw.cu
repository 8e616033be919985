// In-edges of rows, drawn uniformly: what gnn-core's sampler draws, edge by edge, in the same order.
//
// A row with no more edges than are asked for gives all of them; of the others draw_pick says which, and
// draw_fill brings what belongs to each edge that was drawn.

#define DRAW_ARGS                                                                                  \
    const u64* __restrict__ indptr, const u32* __restrict__ rows, u64 n, u32 k, u32 again
#define DRAW indptr, rows, n, k, again

// How many of d edges are drawn; k is NONE for all, and `again` draws one more than once.
__device__ __forceinline__ u64 draws(u64 d, u32 k, u32 again) {
    if (k == NONE) return d;
    if (again) return d > 0 ? k : 0;
    return min(d, (u64)k);
}

// Whether a row of d edges gives each of them once.
__device__ __forceinline__ bool gives_all(u64 d, u32 k, u32 again) {
    return k == NONE || (!again && d <= k);
}

// Uniform below m, the c-th time.
__device__ __forceinline__ u32 below(u64 row, u32 c, u32 m) {
    if (m < 1u << 16) return (u32)(((u64)hash_element(row, c) * m) >> 32);
    return (u32)__umul64hi(mix64(row + (u64)c * 0x9e3779b97f4a7c15ull), (u64)m);
}

// ends[r + 1] = the edges that row r gives.
extern "C" __global__ void __launch_bounds__(256)
    draw_count(DRAW_ARGS, u64* __restrict__ ends) {
    const u64 r = (u64)blockIdx.x * 256 + threadIdx.x;
    if (r >= n) return;
    const u32 v = rows[r];
    ends[r + 1] = draws(indptr[v + 1] - indptr[v], k, again);
}

// ends[r] = the sum of ends[1..r + 1], and 0 for r = 0. One block.
extern "C" __global__ void __launch_bounds__(256) draw_ends(u64 n, u64* __restrict__ ends) {
    __shared__ u64 warps[8];
    const u32 lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    u64 before = 0;
    if (threadIdx.x == 0) ends[0] = 0;
    for (u64 from = 0; from < n; from += 256) {
        const u64 r = from + threadIdx.x;
        u64 sum = r < n ? ends[r + 1] : 0;
        for (u32 o = 1; o < 32; o <<= 1) {
            const u64 t = __shfl_sync(ALL, sum, (lane - o) & 31);
            if (lane >= o) sum += t;
        }
        if (lane == 31) warps[warp] = sum;
        __syncthreads();
        u64 all = 0;
        for (u32 w = 0; w < 8; w++) {
            if (w == warp) sum += all;
            all += warps[w];
        }
        if (r < n) ends[r + 1] = before + sum;
        before += all;
        __syncthreads();
    }
}

// Which edges of its row each of those is that were drawn, for rows that do not give all of theirs: ascending
// where none is drawn twice (Floyd's algorithm, of whichever is fewer, what is taken and what is left).
extern "C" __global__ void __launch_bounds__(256)
    draw_pick(DRAW_ARGS, u64 key, const u32* __restrict__ ids, const u64* __restrict__ ends,
              u32* __restrict__ picked) {
    const u64 r = (u64)blockIdx.x * 256 + threadIdx.x;
    if (r >= n) return;
    const u32 v = rows[r];
    const u64 wide = indptr[v + 1] - indptr[v];
    if (gives_all(wide, k, again) || k == 0) return;
    const u32 d = (u32)wide;
    const u64 row = hash_row(key, ids ? ids[v] : v);
    u32* out = picked + ends[r];
    if (again) {
        if (d > 0)
            for (u32 c = 0; c < k; c++) out[c] = below(row, c, d);
        return;
    }
    const bool left = d <= 64 * 64 && 2 * (u64)k > d;
    const u32 first = left ? k : d - k;
    if (d > 64 * 64) {
        // Few of very many: each is looked for among those before, and they are put in order as they come.
        for (u32 c = 0, j = first; j < d; c++, j++) {
            u32 t = below(row, c, j + 1), at = c;
            for (u32 i = 0; i < c; i++)
                if (out[i] == t) {
                    t = j;
                    break;
                }
            for (; at > 0 && out[at - 1] > t; at--) out[at] = out[at - 1];
            out[at] = t;
        }
        return;
    }
    // Words of bits: what is drawn, and below it in the place of what is left its opposite.
    u64 marks[64];
    const u32 words = (d + 63) / 64;
    for (u32 w = 0; w < words; w++) marks[w] = 0;
    for (u32 c = 0, j = first; j < d; c++, j++) {
        u32 t = below(row, c, j + 1);
        if (marks[t / 64] >> (t % 64) & 1) t = j;
        marks[t / 64] |= 1ull << (t % 64);
    }
    u32 count = 0;
    for (u32 w = 0; w < words; w++) {
        u64 bits = marks[w];
        if (left) {
            const u32 in = d - w * 64;
            bits = ~bits & (in >= 64 ? ~0ull : (1ull << in) - 1);
        }
        for (; bits; bits &= bits - 1) out[count++] = w * 64 + (u32)__ffsll((long long)bits) - 1;
    }
}

// What belongs to each edge that was drawn: its source; what it counts for, where `counts` is there (weight, times
// edges over draws where it is to `weigh`); its type.
extern "C" __global__ void __launch_bounds__(256)
    draw_fill(DRAW_ARGS, u32 weigh, const u64* __restrict__ ends, u64 edges,
              const u32* __restrict__ picked, const u32* __restrict__ indices,
              const float* __restrict__ weights, const u16* __restrict__ types,
              u32* __restrict__ sources, float* __restrict__ counts, u16* __restrict__ kinds) {
    const u64 e = (u64)blockIdx.x * 256 + threadIdx.x;
    if (e >= edges) return;
    // The last row that begins at e or before it and has edges: the first whose end is behind it.
    u64 low = 0, high = n - 1;
    while (low < high) {
        const u64 mid = (low + high) / 2;
        if (ends[mid + 1] > e) high = mid;
        else low = mid + 1;
    }
    const u32 v = rows[low];
    const u64 begins = indptr[v], d = indptr[v + 1] - begins;
    const bool all = gives_all(d, k, again);
    const u64 at = begins + (all ? e - ends[low] : picked[e]);
    sources[e] = indices[at];
    if (counts) {
        const float factor = weigh && !all ? (float)d / (float)k : 1.0f;
        counts[e] = weights ? factor * weights[at] : factor;
    }
    if (kinds) kinds[e] = types[at];
}
