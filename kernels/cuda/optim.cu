// Steps of optimisers. Twin of kernels::adam and kernels::sgd; corrections by step number come from the host.

// Adam; `decoupled` (AdamW) shrinks the weight instead of adding decay to its gradient.
extern "C" __global__ void __launch_bounds__(256)
    adam(float* __restrict__ w, const float* __restrict__ g, float* __restrict__ m,
         float* __restrict__ v, u64 n, float size, float root, float beta1, float beta2, float eps,
         float decay, u32 decoupled, float lr) {
    const u64 k = (u64)blockIdx.x * 256 + threadIdx.x;
    if (k >= n) return;
    float x = w[k], d = g[k];
    if (decoupled) x -= lr * decay * x;
    else d += decay * x;
    const float mk = beta1 * m[k] + (1.0f - beta1) * d;
    const float vk = beta2 * v[k] + (1.0f - beta2) * d * d;
    m[k] = mk;
    v[k] = vk;
    w[k] = x - size * (mk / (sqrtf(vk) / root + eps));
}

// Gradient descent with momentum: u = momentum u + g + decay w; w -= lr u.
extern "C" __global__ void __launch_bounds__(256)
    sgd(float* __restrict__ w, const float* __restrict__ g, float* __restrict__ u, u64 n, float lr,
        float momentum, float decay) {
    const u64 k = (u64)blockIdx.x * 256 + threadIdx.x;
    if (k >= n) return;
    float d = g[k] + decay * w[k];
    if (u) {
        d += momentum * u[k];
        u[k] = d;
    }
    w[k] -= lr * d;
}
