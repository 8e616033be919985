"""Times one form of PyTorch, PyTorch Geometric or DGL on a graph that `halobook bench` wrote.

  peers.py probe                       which libraries this Python has
  peers.py epoch REQUEST.json          training epochs of one form, on the full graph or on mini-batches
  peers.py ops   REQUEST.json          single operations
  peers.py sample REQUEST.json         drawing of mini-batches

A request names a folder of arrays (indptr, indices: compressed in-edges; feat, label, train) and
the form. The answer is one JSON object on the last line. Sparse features (feat_indptr,
feat_indices, feat_values, feat_dim) are made dense, as the data sets of these libraries hold them;
the tuned form multiplies by them as a sparse matrix. Forms:

  dgl, dgl-pre     stock layers of DGL; `pre`: the first layer's aggregate of the constant
                   features computed once, before the epochs
  pyg-csr, pyg-mp  stock layers of PyTorch Geometric on a sparse matrix (fused products) and on an
                   edge list (gather and scatter)
  tuned, tuned-pre no library layer: sparse products of torch with a hand-written backward by the
                   stored transpose, 32-bit indices, the narrower side of each product aggregated,
                   nothing propagated into the constant features
  dgl-fused, dgl-plain, dgl-graphbolt, dgl-graphbolt-calls
                   samplers of DGL: NeighborSampler with and without its fused code (which draws fewer
                   edges than it is asked for), and GraphBolt through its data pipe and by its bare calls
  dgl-plain, dgl-graphbolt, dgl-graphbolt-ahead, pyg-sample
                   epochs of mini-batches: stock layers on what a sampler draws, batches made when they
                   are asked for, or by a process of their own beside the training
"""
import functools
import json
import os
import resource
import sys
import time


def main(argv):
    if argv[:1] == ["probe"]:
        return probe()
    with open(argv[1]) as f:
        r = json.load(f)
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(r["threads"])
    os.environ["DGLBACKEND"] = "pytorch"
    if r["device"] == "cpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        # Beyond this an allocation fails here, instead of the system ending some process for it.
        # (A GPU's driver reserves more addresses than there is memory.)
        resource.setrlimit(resource.RLIMIT_DATA, (r["memory_bytes"],) * 2)
    import torch
    if r.get("form", "").startswith("dgl") or r.get("dgl"):
        import dgl  # noqa: F401 (part of what its libraries take)
    if r.get("form", "").startswith("pyg"):
        import torch_geometric  # noqa: F401
    r["libraries_bytes"] = peak_bytes()
    torch.set_num_threads(r["threads"])
    torch.manual_seed(r["seed"])
    import warnings
    warnings.filterwarnings("ignore")
    if r["device"] != "cpu":
        torch.set_default_device(r["device"])
    r["graph"] = Graph(r["folder"], r["device"])
    return {"epoch": epochs, "ops": operations, "sample": samples}[argv[0]](r)


def probe():
    found = {}
    for name in ("numpy", "torch", "torch_geometric", "dgl"):
        try:
            os.environ.setdefault("DGLBACKEND", "pytorch")
            found[name] = __import__(name).__version__
        except Exception as e:  # a library that is there but does not load is not usable either
            found[name] = None
            found[name + "_error"] = f"{type(e).__name__}: {e}".splitlines()[0][:200]
    return found


class Graph:
    """Compressed in-edges and vertex data as tensors."""

    def __init__(self, folder, device):
        import numpy as np
        import torch
        def load(name):
            there = torch.from_numpy(np.load(os.path.join(folder, name + ".npy")))
            return there.to(device)
        self.ptr, self.col = load("indptr"), load("indices")
        self.label, self.train = load("label"), load("train")
        self.n = self.ptr.numel() - 1
        self.elements = None
        if os.path.exists(os.path.join(folder, "feat.npy")):
            self.feat = load("feat")
            self.dim = self.feat.shape[1]
        else:
            self.dim = int(load("feat_dim"))
            self.elements = tuple(load("feat_" + name) for name in ("indptr", "indices", "values"))

    @functools.cached_property
    def feat(self):
        """Sparse features made dense, where a form asks for them."""
        import torch
        return torch.sparse_csr_tensor(*self.elements, size=(self.n, self.dim)).to_dense()

    def linear_of_features(self):
        """The features times a transposed weight, of which alone a gradient is taken."""
        import torch
        import torch.nn.functional as F
        if self.elements is None:
            return lambda weight: F.linear(self.feat, weight)
        ptr, col, values = self.elements
        tptr, trow, order = transposed(ptr, col, self.dim)
        x = torch.sparse_csr_tensor(ptr.int(), col.int(), values, size=(self.n, self.dim))
        xt = torch.sparse_csr_tensor(tptr.int(), trow.int(), values[order], size=(self.dim, self.n))

        class Product(torch.autograd.Function):
            @staticmethod
            def forward(ctx, weight):
                return x @ weight.t().contiguous()

            @staticmethod
            def backward(ctx, gy):
                return (xt @ gy.contiguous()).t()
        return Product.apply

    def with_loops(self):
        """The same with one edge from every vertex to itself."""
        import torch
        own = torch.arange(self.n)
        key = torch.cat([rows_of(self.ptr) * self.n + self.col, own * (self.n + 1)])
        key = key.sort().values
        ptr = torch.zeros(self.n + 1, dtype=torch.int64)
        torch.cumsum(self.ptr.diff() + 1, 0, out=ptr[1:])
        return ptr, key % self.n


def rows_of(ptr):
    import torch
    return torch.repeat_interleave(torch.arange(ptr.numel() - 1), ptr.diff())


def sparse(ptr, col, values, index):
    import torch
    n = ptr.numel() - 1
    return torch.sparse_csr_tensor(ptr.to(index), col.to(index), values, size=(n, n))


def transposed(ptr, col, columns=None):
    """Row starts and columns of the transpose, and where each of its elements came from."""
    import torch
    columns = ptr.numel() - 1 if columns is None else columns
    order = torch.argsort(col, stable=True)
    starts = torch.zeros(columns + 1, dtype=torch.int64)
    torch.cumsum(torch.bincount(col, minlength=columns), 0, out=starts[1:])
    return starts, rows_of(ptr)[order], order


def propagation(g, model):
    """What a layer multiplies by: symmetric normalisation with loops for gcn, the mean for sage."""
    if model == "gcn":
        ptr, col = g.with_loops()
        scale = ptr.diff().float().rsqrt()
        return ptr, col, scale[rows_of(ptr)] * scale[col]
    return g.ptr, g.col, (1.0 / g.ptr.diff().clamp(min=1).float())[rows_of(g.ptr)]


def widths(r):
    classes = r["classes"]
    return [r["graph"].dim] + [r["hidden"]] * (r["layers"] - 1) + [classes]


# ---------------------------------------------------------------- forms

def dgl_layer(r, i):
    import dgl.nn as dnn
    w, heads, each = widths(r), r["heads"], r["head_dim"]
    if r["model"] == "gcn":
        return dnn.GraphConv(w[i], w[i + 1], norm="both", allow_zero_in_degree=True)
    if r["model"] == "sage":
        return dnn.SAGEConv(w[i], w[i + 1], "mean")
    into = w[0] if i == 0 else heads * each
    out, h = (r["classes"], 1) if i == r["layers"] - 1 else (each, heads)
    return dnn.GATConv(into, out, h, negative_slope=0.2, allow_zero_in_degree=True)


def dgl_layers(r):
    """Stock layers, and what they make of features over a graph or block for each."""
    import torch
    import torch.nn.functional as F
    last = r["layers"] - 1
    net = torch.nn.ModuleList(dgl_layer(r, i) for i in range(last + 1))

    def through(blocks, h):
        for i, (conv, block) in enumerate(zip(net, blocks)):
            h = conv(block, h)
            if r["model"] == "gat":
                h = h.squeeze(1) if i == last else F.elu(h.flatten(1))
            elif i < last:
                h = F.relu(h)
        return h
    return net, through


def dgl_form(r, pre):
    import dgl
    import dgl.function as fn
    import torch
    import torch.nn.functional as F
    g, model, last = r["graph"], r["model"], r["layers"] - 1
    dgl.utils.set_num_threads(r["threads"])
    dg = dgl.graph(("csc", (g.ptr.cpu(), g.col.cpu(), [])), num_nodes=g.n)
    if model != "sage":
        dg = dgl.add_self_loop(dg)
    dg = dg.int()
    dg.create_formats_()
    dg = dg.to(g.ptr.device)
    x, w = g.feat, widths(r)
    if not pre:
        net, through = dgl_layers(r)
        return net, lambda: through([dg] * (last + 1), x)
    with torch.no_grad(), dg.local_scope():
        if model == "gcn":
            scale = dg.in_degrees().clamp(min=1).float().rsqrt().unsqueeze(1)
            dg.ndata["h"] = x * scale
            dg.update_all(fn.copy_u("h", "m"), fn.sum("m", "o"))
            first = dg.ndata["o"] * scale
        else:
            dg.ndata["h"] = x
            dg.update_all(fn.copy_u("h", "m"), fn.mean("m", "o"))
            first = dg.ndata["o"]
    own = [torch.nn.Linear(w[0], w[1], bias=False)] if model == "sage" else []
    rest = [dgl_layer(r, i) for i in range(1, last + 1)]
    net = torch.nn.ModuleList([torch.nn.Linear(w[0], w[1])] + own + rest)

    def forward():
        h = net[0](first)
        if own:
            h = h + net[1](x)
        for conv in net[1 + len(own):]:
            h = conv(dg, F.relu(h))
        return h
    return net, forward


def pyg_layers(r, **how):
    """Stock layers, `how` for those of gcn, and what they make of features over edges."""
    import torch
    import torch.nn.functional as F
    from torch_geometric.nn import GATConv, GCNConv, SAGEConv
    model, last, w = r["model"], r["layers"] - 1, widths(r)
    heads, each = r["heads"], r["head_dim"]
    net = torch.nn.ModuleList()
    for i in range(last + 1):
        if model == "gcn":
            net.append(GCNConv(w[i], w[i + 1], **how))
        elif model == "sage":
            net.append(SAGEConv(w[i], w[i + 1], aggr="mean"))
        else:
            into = w[0] if i == 0 else heads * each
            out, h = (r["classes"], 1) if i == last else (each, heads)
            net.append(GATConv(into, out, heads=h, negative_slope=0.2))
    act = F.elu if model == "gat" else F.relu

    def through(h, edges):
        for i, conv in enumerate(net):
            h = conv(h, edges)
            if i < last:
                h = act(h)
        return h
    return net, through


def pyg_form(r, fused):
    import torch
    g = r["graph"]
    normalised = fused and r["model"] == "gcn"
    if normalised:
        adj = sparse(*propagation(g, "gcn"), torch.int64)
    elif fused:
        adj = sparse(g.ptr, g.col, torch.ones(g.col.numel()), torch.int64)
    else:
        adj = torch.stack([g.col, rows_of(g.ptr)])
    how = {"normalize": False} if normalised else {"cached": True}
    net, through = pyg_layers(r, **how)
    x = g.feat
    return net, lambda: through(x, adj)


def tuned_form(r, pre):
    import torch
    import torch.nn.functional as F
    g, last, w = r["graph"], r["layers"] - 1, widths(r)
    ptr, col, values = propagation(g, r["model"])
    tptr, tcol, order = transposed(ptr, col)
    a = sparse(ptr, col, values, torch.int32)
    at = sparse(tptr, tcol, values[order], torch.int32)

    class Aggregate(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return a @ x

        @staticmethod
        def backward(ctx, gy):
            return at @ gy

    neigh = torch.nn.ModuleList(torch.nn.Linear(w[i], w[i + 1]) for i in range(last + 1))
    own = [torch.nn.Linear(w[i], w[i + 1], bias=False) for i in range(last + 1)]
    own = torch.nn.ModuleList(own if r["model"] == "sage" else [])
    first = a @ g.feat if pre else None
    of_features = g.linear_of_features()

    def forward():
        x = None  # the features, which are multiplied by as they are
        for i, lin in enumerate(neigh):
            times = (lambda weight: F.linear(x, weight)) if i else of_features
            if i == 0 and pre:
                h = lin(first)
            elif lin.out_features < lin.in_features:
                h = Aggregate.apply(times(lin.weight)) + lin.bias
            else:
                h = lin(Aggregate.apply(x if i else g.feat))
            if len(own):
                h = h + times(own[i].weight)
            x = F.relu(h) if i < last else h
        return x
    return torch.nn.ModuleList([neigh, own]), forward


def tuned_gat(r):
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
    g, last = r["graph"], r["layers"] - 1
    ptr, col = g.with_loops()
    row = rows_of(ptr)
    tptr, tcol, order = transposed(ptr, col)
    ptr32, col32, tptr32, tcol32 = (t.int() for t in (ptr, col, tptr, tcol))
    size = (g.n, g.n)

    class Attend(torch.autograd.Function):
        """Weighted sums of one head; weights in the order of the edges."""

        @staticmethod
        def forward(ctx, weight, z):
            ctx.save_for_backward(weight, z)
            return torch.sparse_csr_tensor(ptr32, col32, weight, size=size) @ z

        @staticmethod
        def backward(ctx, gy):
            weight, z = ctx.saved_tensors
            back = torch.sparse_csr_tensor(tptr32, tcol32, weight[order], size=size)
            pattern = torch.sparse_csr_tensor(ptr32, col32, torch.zeros_like(weight), size=size)
            dots = torch.sparse.sampled_addmm(pattern, gy.contiguous(), z.t(), beta=0.0)
            return dots.values(), back @ gy

    net, shapes = nn.ModuleList(), []
    for i in range(last + 1):
        into = g.dim if i == 0 else r["heads"] * r["head_dim"]
        h, d = (1, r["classes"]) if i == last else (r["heads"], r["head_dim"])
        layer = nn.Module()
        layer.lin = nn.Linear(into, h * d, bias=False)
        layer.src = nn.Parameter(nn.init.xavier_uniform_(torch.empty(h, d)))
        layer.dst = nn.Parameter(nn.init.xavier_uniform_(torch.empty(h, d)))
        layer.bias = nn.Parameter(torch.zeros(h * d))
        net.append(layer)
        shapes.append((h, d))

    of_features = g.linear_of_features()

    def forward():
        x = None
        for i, (layer, (h, d)) in enumerate(zip(net, shapes)):
            z = (layer.lin(x) if i else of_features(layer.lin.weight)).view(-1, h, d)
            score = (z * layer.src).sum(-1)[col] + (z * layer.dst).sum(-1)[row]
            score = F.leaky_relu(score, 0.2)
            with torch.no_grad():
                top = torch.segment_reduce(score, "max", offsets=ptr, axis=0)
            weight = (score - top[row]).exp()
            total = torch.zeros(g.n, h).index_add(0, row, weight)
            weight = weight / total[row]
            heads = [Attend.apply(weight[:, k].contiguous(), z[:, k].contiguous()) for k in range(h)]
            x = torch.cat(heads, 1) + layer.bias
            if i < last:
                x = F.elu(x)
        return x
    return net, forward


def build(r):
    form, gat = r["form"], r["model"] == "gat"
    if form in ("dgl", "dgl-pre"):
        return dgl_form(r, form == "dgl-pre")
    if form in ("pyg-csr", "pyg-mp"):
        return pyg_form(r, form == "pyg-csr")
    return tuned_gat(r) if gat else tuned_form(r, form == "tuned-pre")


# ---------------------------------------------------------------- timing

def peak_bytes():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def epochs(r):
    """Training epochs (forward, loss, backward, Adam step), each timed; at most `epochs` of them,
    and after the warm-up and two more no longer than `seconds` altogether."""
    import torch
    import torch.nn.functional as F
    if r.get("fan_outs"):
        return sampled_epochs(r)
    g = r["graph"]
    net, forward = build(r)
    chosen = g.train.nonzero().view(-1)
    wanted = g.label[chosen]
    optimiser = torch.optim.Adam(net.parameters(), lr=r["lr"])
    ms, losses, begun = [], [], time.perf_counter()
    while len(ms) < r["warmup"] + r["epochs"]:
        if len(ms) >= r["warmup"] + 2 and time.perf_counter() - begun > r["seconds"]:
            break
        start = time.perf_counter()
        optimiser.zero_grad(set_to_none=True)
        loss = F.cross_entropy(forward()[chosen], wanted)
        loss.backward()
        optimiser.step()
        if r["device"] != "cpu":
            torch.cuda.synchronize()
        ms.append((time.perf_counter() - start) * 1e3)
        losses.append(float(loss))
    return {"ms": ms[r["warmup"]:], "losses": losses, "peak_bytes": peak_bytes(),
            "libraries_bytes": r["libraries_bytes"],
            "parameters": sum(p.numel() for p in net.parameters())}


def timed(r, f):
    """Milliseconds of the calls of `f` after the warm-up."""
    for _ in range(r["warmup"]):
        f()
    ms, begun = [], time.perf_counter()
    while len(ms) < r["samples"] and (len(ms) < 3 or time.perf_counter() - begun < r["seconds"]):
        start = time.perf_counter()
        f()
        ms.append((time.perf_counter() - start) * 1e3)
    return ms


def operations(r):
    """The operations of `halobook bench kernels` that these libraries have, by the same names."""
    import torch
    g, d = r["graph"], r["width"]
    x, gy, w, bias = torch.randn(g.n, d), torch.randn(g.n, d), torch.randn(d, d), torch.randn(d)
    ptr, col, values = propagation(g, "gcn")
    out = []

    def add(kernel, library, f):
        out.append({"kernel": kernel, "library": library, "ms": timed(r, f)})

    with torch.no_grad():
        a = sparse(ptr, col, values, torch.int32)
        add("spmm, weights", "torch csr", lambda: a @ x)
        if r["dgl"]:
            import dgl
            dgl.utils.set_num_threads(r["threads"])
            dg = dgl.graph(("csc", (ptr, col, [])), num_nodes=g.n).int().formats(["csc"])
            edge = values.view(-1, 1)
            add("spmm, weights", "dgl u_mul_e_sum", lambda: dgl.ops.u_mul_e_sum(dg, x, edge))
            add("spmm, no weights", "dgl copy_u_sum", lambda: dgl.ops.copy_u_sum(dg, x))
        add("linear x·w + b, relu", "torch, unfused", lambda: torch.relu(torch.addmm(bias, x, w)))
        add("gemm x·w", "torch", lambda: x @ w)
        add("weight gradient, bias", "torch, unfused", lambda: (x.t() @ gy, gy.sum(0)))
        add("gemm xᵀ·g", "torch", lambda: x.t() @ gy)
    return {"operations": out, "peak_bytes": peak_bytes()}


def samplers(r):
    """An epoch as a function: from seeds in order to the blocks of each batch."""
    import dgl
    import dgl.graphbolt as gb
    import torch
    g, form, fan_outs = r["graph"], r["form"], r["fan_outs"]
    dgl.utils.set_num_threads(r["threads"])
    if form in ("dgl-fused", "dgl-plain"):
        dg = dgl.graph(("csc", (g.ptr, g.col, [])), num_nodes=g.n).int().formats(["csc"])
        sampler = dgl.dataloading.NeighborSampler(fan_outs, fused=form == "dgl-fused")
        return lambda seeds: (sampler.sample(dg, s)[2] for s in seeds.split(r["batch"]))
    graph = gb.fused_csc_sampling_graph(g.ptr, g.col.int())
    each = [torch.tensor([k]) for k in fan_outs]
    if form == "dgl-graphbolt":
        def piped(seeds):
            items = gb.ItemSampler(gb.ItemSet(seeds, names="seed_nodes"), batch_size=r["batch"])
            for batch in gb.DataLoader(items.sample_neighbor(graph, each), num_workers=0):
                assert batch.blocks  # made when asked for
                yield [(s.original_column_node_ids, s.sampled_csc, s.original_row_node_ids)
                       for s in batch.sampled_subgraphs]
        return piped

    def bare(seeds):
        for rows in seeds.split(r["batch"]):
            blocks = []
            for k in reversed(each):
                drawn = graph.sample_neighbors(rows, k).sampled_csc
                columns, drawn = gb.unique_and_compact_csc_formats(drawn, rows)
                blocks.insert(0, (rows, drawn, columns))
                rows = columns
            yield blocks
    return bare


def drawn_edges(block):
    return block[1].indices.numel() if isinstance(block, tuple) else block.num_edges()


def wrong_rows(g, keys, block, k):
    """How many rows have not as many in-edges as they should, and edges are none of the graph."""
    import dgl
    import torch
    if isinstance(block, tuple):
        rows, csc, columns = block
        ptr, col = csc.indptr, csc.indices
    else:
        ptr, col, _ = block.adj_tensors("csc")
        rows, columns = block.dstdata[dgl.NID], block.srcdata[dgl.NID]
    rows, columns, counts = rows.long(), columns.long(), ptr.diff().long()
    numbered = col < columns.numel()
    sources = columns[col.long().clamp(max=columns.numel() - 1)]
    drawn = torch.repeat_interleave(rows, counts) * g.n + sources
    place = torch.searchsorted(keys, drawn).clamp(max=keys.numel() - 1)
    few = counts != g.ptr.diff()[rows].clamp(max=k)
    return int(few.sum()) + int((~numbered | (keys[place] != drawn)).sum())


def answer():
    try:
        return main(sys.argv[1:])
    except Exception as e:
        words = str(e).strip().splitlines() or [type(e).__name__]
        full = isinstance(e, MemoryError) or any(s in str(e) for s in ("allocate memory", "bad_alloc"))
        return {"error": "out of memory" if full else f"{type(e).__name__}: {words[0][:200]}"}


if __name__ == "__main__":
    print(json.dumps(answer()), flush=True)
