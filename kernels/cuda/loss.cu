// Losses with their gradients: one loss a row in double precision, then sums in fixed order. Twin
// of kernels::loss and kernels::bce.

// Softmax cross-entropy of a row: losses[v] = -ln softmax(x[v])[label], grad = (p - onehot) scale;
// zeros outside the mask. One warp a row. A label that is no class gives NaN, which shows.
extern "C" __global__ void __launch_bounds__(256)
    softmax_xent(const float* __restrict__ x, const int* __restrict__ labels,
                 const unsigned char* __restrict__ mask, u32 n, u32 classes, float scale,
                 float* __restrict__ grad, double* __restrict__ losses) {
    const u32 v = blockIdx.x * 8 + (threadIdx.x >> 5), lane = threadIdx.x & 31;
    if (v >= n) return;
    const float* row = x + (u64)v * classes;
    float* to = grad + (u64)v * classes;
    if (!mask[v]) {
        for (u32 c = lane; c < classes; c += 32) to[c] = 0.0f;
        if (lane == 0) losses[v] = 0.0;
        return;
    }
    float top = NEGATIVE_INFINITY, sum = 0.0f;
    for (u32 c = lane; c < classes; c += 32) top = fmaxf(top, row[c]);
    top = max_over(top, 1, 32);
    for (u32 c = lane; c < classes; c += 32) sum += expf(row[c] - top);
    sum = sum_over(sum, 1, 32);
    const int label = labels[v];
    const bool valid = label >= 0 && (u32)label < classes;
    for (u32 c = lane; c < classes; c += 32)
        to[c] = expf(row[c] - top) * (scale / sum) - ((int)c == label ? scale : 0.0f);
    if (lane == 0)
        losses[v] = valid ? log((double)sum) + (double)top - (double)row[label]
                          : (double)__int_as_float(0x7fc00000);
}

// Sigmoid binary cross-entropy of a row of independent classes (labels 0 and 1): sum over the row of
// max(x, 0) - x y + ln(1 + e^-|x|), grad = (sigmoid(x) - y) scale. One warp a row.
extern "C" __global__ void __launch_bounds__(256)
    sigmoid_bce(const float* __restrict__ x, const unsigned char* __restrict__ labels,
                const unsigned char* __restrict__ mask, u32 n, u32 classes, float scale,
                float* __restrict__ grad, double* __restrict__ losses) {
    __shared__ double shares[8][32];
    const u32 v = blockIdx.x * 8 + (threadIdx.x >> 5), lane = threadIdx.x & 31;
    double loss = 0.0;
    if (v < n) {
        for (u32 c = lane; c < classes; c += 32) {
            const u64 at = (u64)v * classes + c;
            const float z = x[at], y = (float)labels[at], e = expf(-fabsf(z));
            const float p = z >= 0.0f ? 1.0f / (1.0f + e) : e / (1.0f + e);
            grad[at] = mask[v] ? (p - y) * scale : 0.0f;
            if (mask[v]) loss += (double)(fmaxf(z, 0.0f) - z * y) + (double)log1pf(e);
        }
    }
    shares[threadIdx.x >> 5][lane] = loss;
    __syncthreads();
    if (v >= n || lane != 0) return;
    loss = 0.0;
    for (u32 k = 0; k < 32; k++) loss += shares[threadIdx.x >> 5][k];
    losses[v] = loss;
}

// Sums of blocks of 2048 numbers, each in a fixed order.
extern "C" __global__ void __launch_bounds__(256)
    sum_f64(const double* __restrict__ x, u64 n, double* __restrict__ out) {
    __shared__ double shares[256];
    const u64 first = (u64)blockIdx.x * 2048;
    double sum = 0.0;
    for (u64 k = first + threadIdx.x; k < min(first + 2048, n); k += 256) sum += x[k];
    shares[threadIdx.x] = sum;
    for (u32 half = 128; half > 0; half >>= 1) {
        __syncthreads();
        if (threadIdx.x < half) shares[threadIdx.x] += shares[threadIdx.x + half];
    }
    if (threadIdx.x == 0) out[blockIdx.x] = shares[0];
}

// The same of products a[k] b[k].
extern "C" __global__ void __launch_bounds__(256)
    dot_f64(const float* __restrict__ a, const float* __restrict__ b, u64 n,
            double* __restrict__ out) {
    __shared__ double shares[256];
    const u64 first = (u64)blockIdx.x * 2048;
    double sum = 0.0;
    for (u64 k = first + threadIdx.x; k < min(first + 2048, n); k += 256)
        sum += (double)a[k] * (double)b[k];
    shares[threadIdx.x] = sum;
    for (u32 half = 128; half > 0; half >>= 1) {
        __syncthreads();
        if (threadIdx.x < half) shares[threadIdx.x] += shares[threadIdx.x + half];
    }
    if (threadIdx.x == 0) out[blockIdx.x] = shares[0];
}

// A sum, in single precision.
extern "C" __global__ void __launch_bounds__(256)
    to_f32(const double* __restrict__ x, float* __restrict__ out) {
    if (blockIdx.x == 0 && threadIdx.x == 0) out[0] = (float)x[0];
}
