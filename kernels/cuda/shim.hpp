// Runs CUDA kernels on the CPU, for tests: what a .cu file needs of the device, for g++.
//
// The threads of a block are fibres of the calling thread, one block after another. A fibre runs
// until it meets a barrier or a shuffle, so threads truly interleave there and nowhere else;
// `reverse` starts blocks and threads from the last, so that two runs disagree where a kernel
// depends on their order. Shared memory is static. A shuffle that some lanes never reach and a
// barrier that some threads skip, undefined on a device, end the launch with a message.
//
// Small inputs only: it is slow, and proves nothing about speed.

#include <math.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(n)
#define __restrict__ __restrict
#define __shared__ static thread_local

struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(8) uint2 {
    unsigned x, y;
};

namespace shim {

struct Dim {
    unsigned x, y, z;
};

enum State { IDLE, READY, AT_BLOCK, AT_WARP };

struct Fibre {
    ucontext_t start;
    jmp_buf at;
    bool begun = false;
    State state = IDLE;
    unsigned thread = 0;
    std::vector<char> stack;
};

struct Block {
    void (*kernel)(void**);
    void** args;
    unsigned threads, next, finished;
    bool reverse;
    std::vector<Fibre*> of_thread; // the fibre a started thread is on
    std::vector<unsigned> turn;    // shuffles each thread has made
    std::vector<uint64_t> lanes;   // two values a thread, used in turn
    jmp_buf scheduler;
    Fibre* current;
    const char* fault;
};

inline thread_local Block block;
inline thread_local std::vector<Fibre*> pool;
inline thread_local Dim thread_idx, block_idx, block_dim, grid_dim;

// Back to the scheduler; returns when it lets this fibre go on.
__attribute__((noinline)) inline void wait(State why) {
    Fibre* me = block.current;
    me->state = why;
    if (_setjmp(me->at) == 0) _longjmp(block.scheduler, 1);
}

inline void run_threads() {
    for (;;) {
        while (block.next < block.threads) {
            unsigned k = block.next++;
            unsigned t = block.reverse ? block.threads - 1 - k : k;
            block.current->thread = t;
            block.of_thread[t] = block.current;
            thread_idx = {t, 0, 0};
            block.kernel(block.args);
            block.of_thread[t] = nullptr;
            block.finished++;
        }
        wait(IDLE);
    }
}

inline Fibre* idle_fibre() {
    for (Fibre* f : pool)
        if (f->state == IDLE) return f;
    Fibre* f = new Fibre; // kept for the life of the thread
    f->stack.resize(96 << 10);
    pool.push_back(f);
    return f;
}

__attribute__((noinline)) inline void resume(Fibre* f) {
    block.current = f;
    f->state = READY;
    thread_idx = {f->thread, 0, 0};
    if (_setjmp(block.scheduler) != 0) return;
    if (f->begun) _longjmp(f->at, 1);
    f->begun = true;
    getcontext(&f->start);
    f->start.uc_stack.ss_sp = f->stack.data();
    f->start.uc_stack.ss_size = f->stack.size();
    f->start.uc_link = nullptr;
    makecontext(&f->start, run_threads, 0);
    setcontext(&f->start);
}

// Lets go the warps whose 32 lanes all wait, and the block when all its threads do.
inline bool release() {
    bool any = false;
    unsigned waiting = 0;
    for (unsigned w = 0; w < block.threads; w += 32) {
        unsigned at = 0;
        for (unsigned t = w; t < w + 32; t++) {
            Fibre* f = block.of_thread[t];
            if (f && f->state == AT_BLOCK) waiting++;
            if (f && f->state == AT_WARP) at++;
        }
        if (at != 32) continue;
        for (unsigned t = w; t < w + 32; t++) block.of_thread[t]->state = READY;
        any = true;
    }
    if (waiting > 0 && waiting == block.threads - block.finished) {
        for (Fibre* f : block.of_thread)
            if (f) f->state = READY;
        any = true;
    }
    return any;
}

inline void run_block() {
    while (block.next < block.threads && !block.fault) resume(idle_fibre());
    while (block.finished < block.threads && !block.fault) {
        if (!release()) {
            block.fault = "some threads wait at a barrier or shuffle that others never reach";
            return;
        }
        for (unsigned k = 0; k < block.threads && !block.fault; k++) {
            Fibre* f = block.of_thread[block.reverse ? block.threads - 1 - k : k];
            if (f && f->state == READY) resume(f);
        }
    }
}

// Null, or what went wrong. The block's size is a multiple of a warp.
inline const char* launch(void (*kernel)(void**), const unsigned* grid, unsigned threads,
                          void** args, int reverse) {
    if (threads == 0 || threads % 32 != 0) return "a block is not whole warps";
    grid_dim = {grid[0], grid[1], grid[2]};
    block_dim = {threads, 1, 1};
    const uint64_t blocks = (uint64_t)grid[0] * grid[1] * grid[2];
    for (uint64_t k = 0; k < blocks; k++) {
        const uint64_t b = reverse ? blocks - 1 - k : k;
        block_idx = {(unsigned)(b % grid[0]), (unsigned)(b / grid[0] % grid[1]),
                     (unsigned)(b / grid[0] / grid[1])};
        block.kernel = kernel;
        block.args = args;
        block.threads = threads;
        block.next = block.finished = 0;
        block.reverse = reverse != 0;
        block.of_thread.assign(threads, nullptr);
        block.turn.assign(threads, 0);
        block.lanes.assign(2 * threads, 0);
        block.fault = nullptr;
        run_block();
        if (block.fault) {
            pool.clear(); // fibres that wait forever are abandoned with their stacks
            return block.fault;
        }
    }
    return nullptr;
}

// The warp's lanes exchange a value; a lane gets that of lane `from`.
template <class T> inline T exchange(unsigned mask, T value, unsigned from) {
    static_assert(sizeof(T) <= 8, "shuffles move at most eight bytes");
    const unsigned t = thread_idx.x, side = block.turn[t]++ & 1;
    memcpy(&block.lanes[2 * t + side], &value, sizeof(T));
    if (mask != 0xffffffffu) {
        block.fault = "a shuffle without all lanes";
        wait(AT_WARP);
    }
    // Two sides: a lane writes side s again only after all have passed the next exchange, and so
    // have read this one.
    wait(AT_WARP);
    memcpy(&value, &block.lanes[2 * ((t & ~31u) + (from & 31)) + side], sizeof(T));
    return value;
}

template <class... A, size_t... I>
inline void unpack(void (*f)(A...), void** args, std::index_sequence<I...>) {
    f(*static_cast<std::remove_cv_t<A>*>(args[I])...);
}
template <class... A> inline void call(void (*f)(A...), void** args) {
    unpack(f, args, std::index_sequence_for<A...>());
}
template <class... A> inline constexpr unsigned arity(void (*)(A...)) { return sizeof...(A); }

} // namespace shim

#define threadIdx (shim::thread_idx)
#define blockIdx (shim::block_idx)
#define blockDim (shim::block_dim)
#define gridDim (shim::grid_dim)

inline void __syncthreads() { shim::wait(shim::AT_BLOCK); }
inline void __syncwarp() { shim::exchange(0xffffffffu, 0, 0); }
template <class T> inline T __shfl_sync(unsigned mask, T value, unsigned lane) {
    return shim::exchange(mask, value, lane);
}
template <class T> inline T __shfl_xor_sync(unsigned mask, T value, unsigned lanes) {
    return shim::exchange(mask, value, (threadIdx.x & 31) ^ lanes);
}
inline uint64_t __umul64hi(uint64_t a, uint64_t b) { return (unsigned __int128)a * b >> 64; }
inline int __ffsll(long long bits) { return __builtin_ffsll(bits); }
inline unsigned __float_as_uint(float x) {
    unsigned bits;
    memcpy(&bits, &x, 4);
    return bits;
}
inline float __int_as_float(unsigned bits) {
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

template <class A, class B> inline auto min(A a, B b) -> decltype(a + b) {
    return (decltype(a + b))a < (decltype(a + b))b ? a : b;
}
template <class A, class B> inline auto max(A a, B b) -> decltype(a + b) {
    return (decltype(a + b))a > (decltype(a + b))b ? a : b;
}

// A kernel's entry, and how many arguments it takes.
#define SHIM_EXPORT(space, name)                                                                   \
    extern "C" const char* shim_##name(const unsigned* grid, unsigned threads, void** args,        \
                                       int reverse) {                                              \
        return shim::launch([](void** a) { shim::call(space::name, a); }, grid, threads, args,     \
                            reverse);                                                              \
    }                                                                                              \
    extern "C" unsigned shim_args_##name() { return shim::arity(space::name); }
