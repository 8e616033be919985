// What every kernel file begins with. No file here includes another: the Rust side joins them, for
// NVRTC and for the host shim alike.
//
// Rules of these files: no float atomics (sums have a fixed order), no dynamic shared memory, every
// shuffle with all 32 lanes, no assumption about the order in which threads or blocks run.

typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define ALL 0xffffffffu
#define NONE 0xffffffffu
#define NEGATIVE_INFINITY __int_as_float(0xff800000)

// ---- counter-based randomness, the same bits as kernels::hash -----------------------------------

__device__ __forceinline__ u64 mix64(u64 x) {
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

__device__ __forceinline__ u64 join(u64 key, u64 word) {
    return mix64(key ^ mix64(word ^ 0x6a09e667f3bcc909ull));
}

__device__ __forceinline__ u64 hash_row(u64 key, u32 v) { return join(key, (u64)v); }

__device__ __forceinline__ u32 hash_element(u64 row, u32 c) {
    u32 x = c * 0x9e3779b9u + (u32)row;
    x = ((x ^ (x >> 16)) * 0x7feb352du) ^ (u32)(row >> 32);
    x = (x ^ (x >> 15)) * 0x846ca68bu;
    return x ^ (x >> 16);
}

// Whether element c of a row survives dropout: keep is the smallest 24-bit number that does.
__device__ __forceinline__ bool survives(u64 row, u32 c, u32 keep) {
    return (hash_element(row, c) >> 8) >= keep;
}

// ---- vectors of V floats ------------------------------------------------------------------------

template <int V> __device__ __forceinline__ void load(const float* p, float* to);
template <> __device__ __forceinline__ void load<1>(const float* p, float* to) { to[0] = *p; }
template <> __device__ __forceinline__ void load<4>(const float* p, float* to) {
    const float4 t = *reinterpret_cast<const float4*>(p);
    to[0] = t.x, to[1] = t.y, to[2] = t.z, to[3] = t.w;
}

// The same from bf16 numbers: the upper halves of floats.
__device__ __forceinline__ float widened(u32 half) { return __int_as_float(half << 16); }
template <int V> __device__ __forceinline__ void load(const u16* p, float* to);
template <> __device__ __forceinline__ void load<1>(const u16* p, float* to) { to[0] = widened(*p); }
template <> __device__ __forceinline__ void load<4>(const u16* p, float* to) {
    const uint2 t = *reinterpret_cast<const uint2*>(p);
    to[0] = widened(t.x & 0xffff), to[1] = widened(t.x >> 16);
    to[2] = widened(t.y & 0xffff), to[3] = widened(t.y >> 16);
}

template <int V> __device__ __forceinline__ void store(float* p, const float* from);
template <> __device__ __forceinline__ void store<1>(float* p, const float* from) { *p = from[0]; }
template <> __device__ __forceinline__ void store<4>(float* p, const float* from) {
    float4 t;
    t.x = from[0], t.y = from[1], t.z = from[2], t.w = from[3];
    *reinterpret_cast<float4*>(p) = t;
}

// ---- warps --------------------------------------------------------------------------------------

__device__ __forceinline__ float sum_over(float x, u32 from, u32 to) {
    for (u32 o = from; o < to; o <<= 1) x += __shfl_xor_sync(ALL, x, o);
    return x;
}

__device__ __forceinline__ float max_over(float x, u32 from, u32 to) {
    for (u32 o = from; o < to; o <<= 1) x = fmaxf(x, __shfl_xor_sync(ALL, x, o));
    return x;
}

// ---- rows of a sparse matrix, hubs split --------------------------------------------------------

// A row with at most `piece` edges is one item; a longer one is cut into pieces, items of their
// own, whose partial results are combined by a second kernel in ascending order. Items are first
// all pieces (so that hubs begin early), then the rows from first_row on. One warp an item.
#define CSR_ARGS                                                                                   \
    const u64* __restrict__ indptr, const u32* __restrict__ indices, u32 first_row, u32 n_rows,    \
        u32 piece, u32 n_pieces, const u32* __restrict__ piece_row,                                \
        const u64* __restrict__ piece_first
#define CSR indptr, indices, first_row, n_rows, piece, n_pieces, piece_row, piece_first

struct Item {
    u32 row;   // row of the matrix
    u32 slot;  // its place among the pieces, NONE for a whole row
    u64 first; // edges
    u64 last;
};

// This warp's item; false when it has none (then for all its lanes).
__device__ __forceinline__ bool take_item(CSR_ARGS, Item& it) {
    u64 k = (u64)blockIdx.x * (blockDim.x >> 5) + (threadIdx.x >> 5);
    if (k < n_pieces) {
        it.row = piece_row[k];
        it.slot = (u32)k;
        it.first = piece_first[k];
        it.last = min(it.first + piece, indptr[it.row + 1]);
        return true;
    }
    k -= n_pieces;
    if (k >= n_rows) return false;
    it.row = first_row + (u32)k;
    it.slot = NONE;
    it.first = indptr[it.row];
    it.last = indptr[it.row + 1];
    return it.last - it.first <= piece;
}

// ---- heads --------------------------------------------------------------------------------------

// How the lanes of a warp lie over the columns of `heads` heads of width `dim`: `lanes` of them on
// one head (V columns each), `slots` heads beside each other, the rest on further edges. A lane
// holds R vectors: the heads `head_step` apart (narrow heads), or the columns `col_step` apart of
// one head (wide ones). blockIdx.y counts tiles of `head_tile` heads.
#define HEAD_ARGS u32 heads, u32 dim, u32 lanes, u32 slots, u32 head_step, u32 col_step, u32 head_tile
#define HEADS heads, dim, lanes, slots, head_step, col_step, head_tile

template <int V, int R> struct Place {
    u32 sub, step;    // this lane's edge among those taken at the same time, and how many those are
    u32 head[R];      // head of each vector
    u32 at[R];        // offset of each vector in a row of heads * dim columns
    bool in_head[R];  // whether the head exists
    bool ok[R];       // whether the vector exists
    bool writes;      // whether this lane writes what there is once a head

    __device__ __forceinline__ Place(HEAD_ARGS) {
        const u32 lane = threadIdx.x & 31, group = lanes * slots;
        sub = lane / group;
        step = 32 / group;
        writes = lane % lanes == 0;
#pragma unroll
        for (int r = 0; r < R; r++) {
            head[r] = blockIdx.y * head_tile + lane / lanes % slots + r * head_step;
            const u32 col = lane % lanes * V + r * col_step;
            at[r] = head[r] * dim + col;
            in_head[r] = head[r] < heads;
            ok[r] = in_head[r] && col < dim;
        }
    }
};

// Each head's dot product, in all its lanes: dot[r] holds this lane's share.
template <int R> __device__ __forceinline__ void sum_heads(float* dot, u32 lanes, bool wide) {
    if (wide) {
        float all = 0.0f;
#pragma unroll
        for (int r = 0; r < R; r++) all += dot[r];
#pragma unroll
        for (int r = 0; r < R; r++) dot[r] = all;
    }
#pragma unroll
    for (int r = 0; r < R; r++) dot[r] = sum_over(dot[r], 1, lanes);
}
