// NCCL's interface over host memory and sockets, between threads or processes of one machine: for tests.
//
// What it is strict about is what NCCL is strict about: calls of a group take effect at its end; nothing
// moves but on the stream that was named; messages of a pair are matched in order, and must be equally
// long; whoever waits for a peer that is gone waits until the communicator is aborted, and its error is
// found by asking for it.
//
// A stream is what `kernels/src/cuda/shim/side.rs` makes: an object that begins with a function which hands
// it work.

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <poll.h>
#include <string>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace {

enum Result { success = 0, system_error = 2, invalid_argument = 4, invalid_usage = 5, remote_error = 6 };

struct Stream {
    void (*enqueue)(const Stream *, void (*)(void *), void *);
};

struct Comm {
    int rank = 0, ranks = 0, splits = 0;
    std::string name;
    // A socket to each other rank.
    std::vector<int> to;
    std::atomic<int> error{success};
    std::atomic<bool> aborted{false};
    // Work that is on a stream.
    std::mutex lock;
    std::condition_variable changed;
    int pending = 0;

    void fail(int code) {
        int none = success;
        error.compare_exchange_strong(none, code);
    }
};

struct Op {
    bool sends;
    char *at;
    size_t bytes;
    int peer;
};

// A message on its way: how long it is, and then itself.
struct Moving {
    Op op;
    uint64_t head;
    size_t done = 0;
};

thread_local int depth = 0;
thread_local std::map<std::pair<Comm *, const Stream *>, std::vector<Op>> group;
thread_local int version = 22304;

void pause_a_little() { usleep(200); }

// Moves what can be moved of one message. Whether it is whole.
bool move(Comm *comm, Moving &m) {
    const size_t head = sizeof m.head, all = head + m.op.bytes;
    int fd = comm->to[m.op.peer];
    while (m.done < all) {
        bool in_head = m.done < head;
        char *at = in_head ? reinterpret_cast<char *>(&m.head) + m.done : m.op.at + (m.done - head);
        size_t len = in_head ? head - m.done : all - m.done;
        ssize_t n = m.op.sends ? send(fd, at, len, MSG_DONTWAIT | MSG_NOSIGNAL) : recv(fd, at, len, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return false;
        if (n <= 0) {
            comm->fail(remote_error);
            return false;
        }
        m.done += n;
        if (!m.op.sends && m.done == head && m.head != m.op.bytes) {
            comm->fail(invalid_usage);
            return false;
        }
    }
    return true;
}

// All messages of a group: those to and from a peer in their order, all peers at once.
void move_all(Comm *comm, const std::vector<Op> &ops) {
    std::map<std::pair<bool, int>, std::deque<Moving>> lanes;
    for (const Op &op : ops) lanes[{op.sends, op.peer}].push_back(Moving{op, op.bytes});
    // What a rank sends to itself.
    auto &out = lanes[{true, comm->rank}], &in = lanes[{false, comm->rank}];
    for (; !out.empty() && !in.empty(); out.pop_front(), in.pop_front()) {
        if (out.front().op.bytes != in.front().op.bytes) comm->fail(invalid_usage);
        else memmove(in.front().op.at, out.front().op.at, in.front().op.bytes);
    }
    if (!out.empty() || !in.empty()) comm->fail(invalid_usage);
    while (!comm->aborted) {
        std::vector<pollfd> waiting;
        // Whoever failed waits to be aborted.
        for (auto &lane : lanes) {
            if (comm->error != success) break;
            while (!lane.second.empty() && move(comm, lane.second.front())) lane.second.pop_front();
            short wanted = lane.first.first ? POLLOUT : POLLIN;
            if (!lane.second.empty()) waiting.push_back({comm->to[lane.first.second], wanted, 0});
        }
        if (comm->error != success) {
            pause_a_little();
            continue;
        }
        if (waiting.empty()) return;
        poll(waiting.data(), waiting.size(), 20);
    }
}

struct Job {
    Comm *comm;
    std::vector<Op> ops;
    // What is done with what came.
    std::function<void()> then;
};

void run(void *with) {
    Job *job = static_cast<Job *>(with);
    move_all(job->comm, job->ops);
    if (job->then && !job->comm->aborted) job->then();
    {
        std::lock_guard<std::mutex> held(job->comm->lock);
        job->comm->pending--;
        job->comm->changed.notify_all();
    }
    delete job;
}

Result hand_over(Comm *comm, const Stream *stream, std::vector<Op> ops, std::function<void()> then = nullptr) {
    {
        std::lock_guard<std::mutex> held(comm->lock);
        comm->pending++;
    }
    stream->enqueue(stream, run, new Job{comm, std::move(ops), std::move(then)});
    return success;
}

size_t size_of(int type) {
    switch (type) {
    case 0: case 1: return 1;
    case 6: case 9: return 2;
    case 2: case 3: case 7: return 4;
    case 4: case 5: case 8: return 8;
    default: return 0;
    }
}

Result ask(bool sends, const void *at, size_t count, int type, int peer, Comm *comm, const Stream *stream) {
    if (!comm || !stream || size_of(type) == 0 || peer < 0 || peer >= comm->ranks) return invalid_argument;
    Op op{sends, static_cast<char *>(const_cast<void *>(at)), count * size_of(type), peer};
    if (depth == 0) return hand_over(comm, stream, {op});
    group[{comm, stream}].push_back(op);
    return success;
}

sockaddr_un address(const std::string &name, int rank, socklen_t &len) {
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    // Abstract: it goes with its owner.
    std::string path = "halobook-nccl-" + name + "-" + std::to_string(rank);
    if (path.size() > sizeof at.sun_path - 1) path = path.substr(path.size() - (sizeof at.sun_path - 1));
    memcpy(at.sun_path + 1, path.data(), path.size());
    len = offsetof(sockaddr_un, sun_path) + 1 + path.size();
    return at;
}

Result join(Comm *comm) {
    comm->to.assign(comm->ranks, -1);
    int door = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t len;
    sockaddr_un here = address(comm->name, comm->rank, len);
    if (door < 0 || bind(door, reinterpret_cast<sockaddr *>(&here), len) || listen(door, comm->ranks)) return system_error;
    for (int peer = 0; peer < comm->rank; peer++) {
        int fd = -1;
        for (int tries = 0; fd < 0; tries++) {
            fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
            sockaddr_un there = address(comm->name, peer, len);
            if (fd >= 0 && connect(fd, reinterpret_cast<sockaddr *>(&there), len)) {
                close(fd);
                fd = -1;
                // Half a minute.
                if (tries > 150000) return system_error;
                pause_a_little();
            }
        }
        int32_t me = comm->rank;
        if (send(fd, &me, sizeof me, MSG_NOSIGNAL) != sizeof me) return remote_error;
        comm->to[peer] = fd;
    }
    for (int k = comm->rank + 1; k < comm->ranks; k++) {
        pollfd someone{door, POLLIN, 0};
        if (poll(&someone, 1, 30000) != 1) return system_error;
        int fd = accept4(door, nullptr, nullptr, SOCK_CLOEXEC);
        int32_t peer = -1;
        if (fd < 0 || recv(fd, &peer, sizeof peer, MSG_WAITALL) != sizeof peer || peer < 0 || peer >= comm->ranks) return system_error;
        comm->to[peer] = fd;
    }
    close(door);
    return success;
}

void end(Comm *comm) {
    {
        std::unique_lock<std::mutex> held(comm->lock);
        comm->changed.wait(held, [&] { return comm->pending == 0; });
    }
    for (int fd : comm->to)
        if (fd >= 0) close(fd);
    delete comm;
}

// Every rank's word to every rank, on this thread.
Result agree(Comm *comm, const int32_t mine[2], std::vector<std::pair<int32_t, int32_t>> &all) {
    {
        std::unique_lock<std::mutex> held(comm->lock);
        comm->changed.wait(held, [&] { return comm->pending == 0; });
    }
    all.assign(comm->ranks, {mine[0], mine[1]});
    std::vector<Op> ops;
    for (int peer = 0; peer < comm->ranks; peer++) {
        if (peer == comm->rank) continue;
        ops.push_back({true, reinterpret_cast<char *>(const_cast<int32_t *>(mine)), 8, peer});
        ops.push_back({false, reinterpret_cast<char *>(&all[peer]), 8, peer});
    }
    move_all(comm, ops);
    return comm->aborted ? remote_error : success;
}

} // namespace

extern "C" {

struct Id {
    char internal[128];
};

// For tests: the version that this thread is told.
void nccl_shim_version(int told) { version = told; }

int ncclGetVersion(int *to) {
    *to = version;
    return success;
}

const char *ncclGetErrorString(int code) {
    switch (code) {
    case success: return "no error";
    case system_error: return "unhandled system error";
    case invalid_argument: return "invalid argument";
    case invalid_usage: return "invalid usage";
    case remote_error: return "remote process exited or there was a network error";
    default: return "internal error";
    }
}

int ncclGetUniqueId(Id *id) {
    memset(id, 0, sizeof *id);
    uint64_t word;
    if (getrandom(&word, sizeof word, 0) != sizeof word) return system_error;
    snprintf(id->internal, sizeof id->internal, "%016llx", static_cast<unsigned long long>(word));
    return success;
}

int ncclCommInitRank(Comm **made, int ranks, Id id, int rank) {
    if (ranks < 1 || rank < 0 || rank >= ranks) return invalid_argument;
    Comm *comm = new Comm;
    comm->rank = rank;
    comm->ranks = ranks;
    comm->name = std::string(id.internal, strnlen(id.internal, sizeof id.internal));
    Result joined = join(comm);
    if (joined == success) *made = comm;
    return joined;
}

int ncclCommSplit(Comm *parent, int color, int key, Comm **made, void *) {
    *made = nullptr;
    int32_t mine[2] = {color, key};
    std::vector<std::pair<int32_t, int32_t>> all;
    Result agreed = agree(parent, mine, all);
    int number = parent->splits++;
    if (agreed != success || color < 0) return agreed;
    std::vector<std::pair<int32_t, int>> members;
    for (int rank = 0; rank < parent->ranks; rank++)
        if (all[rank].first == color) members.push_back({all[rank].second, rank});
    std::sort(members.begin(), members.end());
    Comm *comm = new Comm;
    comm->ranks = members.size();
    for (size_t k = 0; k < members.size(); k++)
        if (members[k].second == parent->rank) comm->rank = k;
    comm->name = parent->name + "/" + std::to_string(number) + "/" + std::to_string(color);
    Result joined = join(comm);
    if (joined == success) *made = comm;
    return joined;
}

int ncclCommDestroy(Comm *comm) {
    end(comm);
    return success;
}

int ncclCommAbort(Comm *comm) {
    comm->aborted = true;
    end(comm);
    return success;
}

int ncclCommGetAsyncError(Comm *comm, int *code) {
    *code = comm->error;
    return success;
}

int ncclGroupStart() {
    depth++;
    return success;
}

int ncclGroupEnd() {
    if (depth == 0) return invalid_usage;
    if (--depth > 0) return success;
    auto asked = std::move(group);
    group.clear();
    for (auto &one : asked) hand_over(one.first.first, one.first.second, std::move(one.second));
    return success;
}

int ncclSend(const void *at, size_t count, int type, int peer, Comm *comm, const Stream *stream) {
    return ask(true, at, count, type, peer, comm, stream);
}

int ncclRecv(void *at, size_t count, int type, int peer, Comm *comm, const Stream *stream) {
    return ask(false, at, count, type, peer, comm, stream);
}

int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, Comm *comm, const Stream *stream) {
    if (!comm || !stream || size_of(type) == 0 || root < 0 || root >= comm->ranks) return invalid_argument;
    size_t bytes = count * size_of(type);
    std::vector<Op> ops;
    if (comm->rank != root) {
        ops.push_back({false, static_cast<char *>(to), bytes, root});
    } else {
        if (from != to) memmove(to, from, bytes);
        for (int peer = 0; peer < comm->ranks; peer++)
            if (peer != root) ops.push_back({true, static_cast<char *>(to), bytes, peer});
    }
    return hand_over(comm, stream, std::move(ops));
}

// Sums of floats, from the last rank to the first: another order than that of the ranks, as NCCL may have.
int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, Comm *comm, const Stream *stream) {
    if (!comm || !stream || type != 7 || op != 0) return invalid_argument;
    auto parts = std::make_shared<std::vector<std::vector<float>>>(comm->ranks, std::vector<float>(count));
    std::vector<Op> ops;
    for (int peer = 0; peer < comm->ranks; peer++) {
        if (peer == comm->rank) continue;
        ops.push_back({true, static_cast<char *>(const_cast<void *>(from)), count * 4, peer});
        ops.push_back({false, reinterpret_cast<char *>((*parts)[peer].data()), count * 4, peer});
    }
    return hand_over(comm, stream, std::move(ops), [=] {
        memcpy((*parts)[comm->rank].data(), from, count * 4);
        float *sum = static_cast<float *>(to);
        memcpy(sum, parts->back().data(), count * 4);
        for (int rank = comm->ranks - 2; rank >= 0; rank--)
            for (size_t k = 0; k < count; k++) sum[k] += (*parts)[rank][k];
    });
}

} // extern "C"
