// What follows a dense product, in one pass: bias, activation, dropout, gradient of an activation.
// And the other work element by element. Twin of kernels::linear_then and kernels::elementwise.

#define ACT_NONE 0
#define ACT_RELU 1
#define ACT_ELU 2

template <int V>
__device__ __forceinline__ void then_body(float* __restrict__ x, u64 n, u32 d,
                                          const float* __restrict__ bias, u32 act, u64 key,
                                          const u32* __restrict__ ids, u32 keep, float scale,
                                          const float* __restrict__ gate, u32 gate_act,
                                          float gate_scale) {
    const u32 per_row = d / V;
    const u64 k = (u64)blockIdx.x * 256 + threadIdx.x;
    if (k >= n * per_row) return;
    const u64 r = k / per_row;
    const u32 c = (u32)(k % per_row) * V;
    float t[V];
    load<V>(x + r * d + c, t);
    if (bias) {
        float b[V];
        load<V>(bias + c, b);
#pragma unroll
        for (int i = 0; i < V; i++) t[i] += b[i];
    }
#pragma unroll
    for (int i = 0; i < V; i++) {
        if (act == ACT_RELU) t[i] = t[i] <= 0.0f ? 0.0f : t[i];
        if (act == ACT_ELU) t[i] = t[i] > 0.0f ? t[i] : expm1f(t[i]);
    }
    if (ids) {
        const u64 row = hash_row(key, ids[r]);
#pragma unroll
        for (int i = 0; i < V; i++) t[i] = survives(row, c + i, keep) ? t[i] * scale : 0.0f;
    }
    if (gate) {
        float y[V];
        load<V>(gate + r * d + c, y);
#pragma unroll
        for (int i = 0; i < V; i++) {
            if (gate_act == ACT_ELU) t[i] = y[i] > 0.0f ? t[i] : t[i] * (y[i] * gate_scale + 1.0f);
            else t[i] = y[i] > 0.0f ? t[i] * gate_scale : 0.0f;
        }
    }
    store<V>(x + r * d + c, t);
}

#define THEN(V)                                                                                    \
    extern "C" __global__ void __launch_bounds__(256)                                              \
        then_##V(float* __restrict__ x, u64 n, u32 d, const float* __restrict__ bias, u32 act,     \
                 u64 key, const u32* __restrict__ ids, u32 keep, float scale,                      \
                 const float* __restrict__ gate, u32 gate_act, float gate_scale) {                 \
        then_body<V>(x, n, d, bias, act, key, ids, keep, scale, gate, gate_act, gate_scale);       \
    }
THEN(1) THEN(4)

// y = alpha x + beta y; with beta 0 the old y is not read.
extern "C" __global__ void __launch_bounds__(256)
    axpby(float alpha, const float* __restrict__ x, float beta, float* __restrict__ y, u64 n) {
    const u64 k = (u64)blockIdx.x * 256 + threadIdx.x;
    if (k < n) y[k] = beta == 0.0f ? alpha * x[k] : alpha * x[k] + beta * y[k];
}
