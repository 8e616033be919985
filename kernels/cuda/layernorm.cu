// Layer normalisation of rows. Twin of kernels::layernorm.

// y = (x - mean) / sqrt(var + eps) * gain + bias; stats [n, 2] keep mean and 1 / sqrt(var + eps).
// One warp a row.
extern "C" __global__ void __launch_bounds__(256)
    layer_norm(const float* __restrict__ x, u32 n, u32 d, const float* __restrict__ gain,
               const float* __restrict__ bias, float eps, float* __restrict__ y,
               float* __restrict__ stats) {
    const u32 r = blockIdx.x * 8 + (threadIdx.x >> 5), lane = threadIdx.x & 31;
    if (r >= n) return;
    const float* row = x + (u64)r * d;
    float sum = 0.0f;
    for (u32 c = lane; c < d; c += 32) sum += row[c];
    const float mean = sum_over(sum, 1, 32) / (float)d;
    float square = 0.0f;
    for (u32 c = lane; c < d; c += 32) square += (row[c] - mean) * (row[c] - mean);
    const float root = 1.0f / sqrtf(sum_over(square, 1, 32) / (float)d + eps);
    for (u32 c = lane; c < d; c += 32)
        y[(u64)r * d + c] = (row[c] - mean) * root * gain[c] + bias[c];
    if (lane == 0) stats[2 * (u64)r] = mean, stats[2 * (u64)r + 1] = root;
}

// Gradient of x: root (t - mean(t) - xhat mean(t xhat)) with t = gain g. One warp a row.
extern "C" __global__ void __launch_bounds__(256)
    layer_norm_backward(const float* __restrict__ x, const float* __restrict__ g, u32 n, u32 d,
                        const float* __restrict__ gain, const float* __restrict__ stats,
                        float* __restrict__ dx) {
    const u32 r = blockIdx.x * 8 + (threadIdx.x >> 5), lane = threadIdx.x & 31;
    if (r >= n) return;
    const u64 at = (u64)r * d;
    const float mean = stats[2 * (u64)r], root = stats[2 * (u64)r + 1];
    float a = 0.0f, b = 0.0f;
    for (u32 c = lane; c < d; c += 32) {
        const float t = gain[c] * g[at + c];
        a += t;
        b += t * (x[at + c] - mean) * root;
    }
    a = sum_over(a, 1, 32) / (float)d;
    b = sum_over(b, 1, 32) / (float)d;
    for (u32 c = lane; c < d; c += 32)
        dx[at + c] = root * (gain[c] * g[at + c] - a - (x[at + c] - mean) * root * b);
}

// Gradients of gain and bias, of blocks of `rows` rows: sums of g xhat and of g, to out
// [blocks, 2 d]; column_sums adds the blocks.
extern "C" __global__ void __launch_bounds__(256)
    layer_norm_params(const float* __restrict__ x, const float* __restrict__ g, u64 n, u32 d,
                      u32 rows, const float* __restrict__ stats, float* __restrict__ out) {
    __shared__ float gains[8][33], biases[8][33];
    const u32 lane = threadIdx.x & 31, run = threadIdx.x >> 5, c = blockIdx.y * 32 + lane;
    const u64 first = (u64)blockIdx.x * rows, last = min(first + rows, n);
    const u64 each = (rows + 7) / 8, from = first + run * each, to = min(from + each, last);
    float a = 0.0f, b = 0.0f;
    if (c < d) {
        for (u64 r = from; r < to; r++) {
            a += g[r * d + c] * (x[r * d + c] - stats[2 * r]) * stats[2 * r + 1];
            b += g[r * d + c];
        }
    }
    gains[run][lane] = a;
    biases[run][lane] = b;
    __syncthreads();
    if (run != 0 || c >= d) return;
    a = b = 0.0f;
    for (u32 k = 0; k < 8; k++) a += gains[k][lane], b += biases[k][lane];
    out[(u64)blockIdx.x * 2 * d + c] = a;
    out[((u64)blockIdx.x * 2 + 1) * d + c] = b;
}
