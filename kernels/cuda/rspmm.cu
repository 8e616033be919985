// Aggregation by relation with shared bases (R-GCN): coef[relation, basis]. Twin of kernels::rspmm.

// out[v, c] = sum_e w_e sum_b coef[type_e, b] x[u, b d + c].

extern "C" __global__ void __launch_bounds__(256)
    rspmm(CSR_ARGS, const unsigned short* __restrict__ types, const float* __restrict__ weights,
          const float* __restrict__ coef, u32 bases, const float* __restrict__ x, u32 d, u32 lanes,
          float* __restrict__ partial, float* __restrict__ out) {
    Item it;
    if (!take_item(CSR, it)) return;
    const u32 lane = threadIdx.x & 31, c = blockIdx.y * lanes + lane % lanes;
    float sum = 0.0f;
    for (u64 e = it.first + lane / lanes; c < d && e < it.last; e += 32 / lanes) {
        const float w = weights ? weights[e] : 1.0f;
        const float* k = coef + (u64)types[e] * bases;
        const float* row = x + (u64)indices[e] * bases * d + c;
        float t = 0.0f;
        for (u32 b = 0; b < bases; b++) t += k[b] * row[(u64)b * d];
        sum += w * t;
    }
    sum = sum_over(sum, lanes, 32);
    if (c >= d || lane / lanes != 0) return;
    if (it.slot != NONE) partial[(u64)it.slot * d + c] = sum;
    else out[(u64)it.row * d + c] = sum;
}

// Backward to x over the transposed matrix, types and weights in its order:
// out[u, b d + c] = sum_e w_e coef[type_e, b] g[v, c]. blockIdx.y counts column tiles within a basis,
// blockIdx.z the bases.
extern "C" __global__ void __launch_bounds__(256)
    rspmm_t(CSR_ARGS, const unsigned short* __restrict__ types, const float* __restrict__ weights,
            const float* __restrict__ coef, u32 bases, const float* __restrict__ g, u32 d,
            u32 lanes, float* __restrict__ partial, float* __restrict__ out) {
    Item it;
    if (!take_item(CSR, it)) return;
    const u32 lane = threadIdx.x & 31, c = blockIdx.y * lanes + lane % lanes, b = blockIdx.z;
    float sum = 0.0f;
    for (u64 e = it.first + lane / lanes; c < d && e < it.last; e += 32 / lanes) {
        const float w = weights ? weights[e] : 1.0f;
        sum += w * coef[(u64)types[e] * bases + b] * g[(u64)indices[e] * d + c];
    }
    sum = sum_over(sum, lanes, 32);
    if (c >= d || lane / lanes != 0) return;
    const u64 to = ((u64)(it.slot != NONE ? it.slot : it.row) * bases + b) * d + c;
    (it.slot != NONE ? partial : out)[to] = sum;
}

// dcoef[r, b] = sum over the edges of type r of w_e <g[v], x[u, b d ..]>: here for runs of at most
// `piece` edges of one type, run k being order[run_first[k] .. run_first[k + 1]]; a warp a run.
extern "C" __global__ void __launch_bounds__(256)
    rspmm_coef(const u32* __restrict__ order, const u32* __restrict__ run_first, u32 n_runs,
               const u32* __restrict__ row_of, const u32* __restrict__ indices,
               const float* __restrict__ weights, u32 bases, const float* __restrict__ x,
               const float* __restrict__ g, u32 d, float* __restrict__ partial) {
    const u32 k = blockIdx.x * 8 + (threadIdx.x >> 5), lane = threadIdx.x & 31, b = blockIdx.y;
    if (k >= n_runs) return;
    float sum = 0.0f;
    for (u32 i = run_first[k]; i < run_first[k + 1]; i++) {
        const u32 e = order[i];
        const float w = weights ? weights[e] : 1.0f;
        const float* to = g + (u64)row_of[e] * d;
        const float* from = x + ((u64)indices[e] * bases + b) * d;
        float dot = 0.0f;
        for (u32 c = lane; c < d; c += 32) dot += to[c] * from[c];
        sum += w * dot;
    }
    sum = sum_over(sum, 1, 32);
    if (lane == 0) partial[(u64)k * bases + b] = sum;
}

// Adds the runs of each type, in order: type r has the runs type_first[r] .. type_first[r + 1].
extern "C" __global__ void __launch_bounds__(256)
    rspmm_coef_sum(const u32* __restrict__ type_first, u32 types, u32 bases,
                   const float* __restrict__ partial, float* __restrict__ out) {
    const u32 k = blockIdx.x * 256 + threadIdx.x;
    if (k >= types * bases) return;
    float sum = 0.0f;
    for (u32 p = type_first[k / bases]; p < type_first[k / bases + 1]; p++)
        sum += partial[(u64)p * bases + k % bases];
    out[k] = sum;
}
