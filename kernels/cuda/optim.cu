// Steps of optimisers. Twin of kernels::adam, kernels::sgd and kernels::sparse_optim; corrections by step number come from the host.

// Settings of Adam and the corrections of one step.
struct Adam {
    float size, root, beta1, beta2, eps, decay;
    u32 decoupled;
    float lr;
};
#define ADAM_ARGS \
    float size, float root, float beta1, float beta2, float eps, float decay, u32 decoupled, float lr
#define ADAM Adam{size, root, beta1, beta2, eps, decay, decoupled, lr}

// Adam on one weight with gradient d; `decoupled` (AdamW) shrinks the weight instead of adding
// decay to its gradient.
__device__ __forceinline__ void adam_step(float& w, float d, float& m, float& v, Adam p) {
    float x = w;
    if (p.decoupled) x -= p.lr * p.decay * x;
    else d += p.decay * x;
    m = p.beta1 * m + (1.0f - p.beta1) * d;
    v = p.beta2 * v + (1.0f - p.beta2) * d * d;
    w = x - p.size * (m / (sqrtf(v) / p.root + p.eps));
}

extern "C" __global__ void __launch_bounds__(256)
    adam(float* __restrict__ w, const float* __restrict__ g, float* __restrict__ m,
         float* __restrict__ v, u64 n, ADAM_ARGS) {
    const u64 k = (u64)blockIdx.x * 256 + threadIdx.x;
    if (k < n) adam_step(w[k], g[k], m[k], v[k], ADAM);
}

// Steps on the rows of a table that a batch touched; one thread an element of a touched row.
// Gradients of a row that occurs several times are added in the order given.
#define TOUCHED_ARGS                                                                              \
    const u32 *__restrict__ target, const u32 *__restrict__ first, const u32 *__restrict__ place, \
        u64 targets, const float *__restrict__ g, u32 d
#define TOUCHED target, first, place, targets, g, d

// The element of the table that this thread steps, and its summed gradient.
__device__ __forceinline__ bool touched(TOUCHED_ARGS, u64& at, float& sum) {
    const u64 k = (u64)blockIdx.x * 256 + threadIdx.x;
    if (k >= targets * d) return false;
    const u64 t = k / d;
    const u32 c = (u32)(k % d);
    at = (u64)target[t] * d + c;
    sum = g[(u64)place[first[t]] * d + c];
    for (u32 i = first[t] + 1; i < first[t + 1]; i++) sum += g[(u64)place[i] * d + c];
    return true;
}

extern "C" __global__ void __launch_bounds__(256)
    sparse_adagrad(TOUCHED_ARGS, float* __restrict__ w, float* __restrict__ squares, float lr,
                   float eps) {
    u64 at;
    float sum;
    if (!touched(TOUCHED, at, sum)) return;
    const float s = squares[at] + sum * sum;
    squares[at] = s;
    w[at] -= lr * (sum / (sqrtf(s) + eps));
}

extern "C" __global__ void __launch_bounds__(256)
    sparse_adam(TOUCHED_ARGS, float* __restrict__ w, float* __restrict__ m, float* __restrict__ v,
                ADAM_ARGS) {
    u64 at;
    float sum;
    if (touched(TOUCHED, at, sum)) adam_step(w[at], sum, m[at], v[at], ADAM);
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
