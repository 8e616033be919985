"""Mini-batches of DGL and PyTorch Geometric: drawn alone, and epochs of them in stock forms.

Part of one script with `peers.py`, which runs it: forms and requests are listed there.
"""
import time


def sampled_dgl(r):
    """Layers of DGL, and the mini-batches of an epoch: inputs, seeds, and how layers run on them."""
    import dgl
    import torch
    g, form, fan_outs = r["graph"], r["form"], r["fan_outs"]
    dgl.utils.set_num_threads(r["threads"])
    dgl.seed(r["seed"])
    ptr, col = (g.ptr, g.col) if r["model"] == "sage" else g.with_loops()
    seeds = g.train.nonzero().view(-1).int()
    net, through = dgl_layers(r)
    if form == "dgl-plain":
        dg = dgl.graph(("csc", (ptr, col, [])), num_nodes=g.n).int().formats(["csc"])
        sampler = dgl.dataloading.NeighborSampler(fan_outs, fused=False)

        def drawn():
            for some in seeds[torch.randperm(len(seeds))].split(r["batch"] or len(seeds)):
                yield sampler.sample(dg, some)
    else:
        import dgl.graphbolt as gb
        gb.seed(r["seed"])
        bolt = gb.fused_csc_sampling_graph(ptr, col.int())
        pipe = gb.ItemSampler(gb.ItemSet(seeds, names="seed_nodes"), batch_size=r["batch"] or len(seeds), shuffle=True)
        pipe = pipe.sample_neighbor(bolt, [torch.tensor([k]) for k in fan_outs])
        loader = gb.DataLoader(pipe, num_workers=int(form.endswith("-ahead")))

        def drawn():
            for batch in loader:
                yield batch.input_nodes, batch.seed_nodes, batch.blocks

    def batches():
        for inputs, some, blocks in drawn():
            edges = sum(block.num_edges() for block in blocks)
            yield inputs.long(), some.long(), lambda x, blocks=blocks: through(blocks, x), edges
    return net, batches


def sampled_pyg(r):
    import torch
    from torch_geometric.data import Data
    from torch_geometric.sampler import NeighborSampler, NodeSamplerInput
    g = r["graph"]
    data = Data(edge_index=torch.stack([g.col, rows_of(g.ptr)]), num_nodes=g.n)
    sampler = NeighborSampler(data, num_neighbors=r["fan_outs"][::-1], is_sorted=True)
    seeds = g.train.nonzero().view(-1)
    net, through = pyg_layers(r)

    def batches():
        for some in seeds[torch.randperm(len(seeds))].split(r["batch"] or len(seeds)):
            drawn = sampler.sample_from_nodes(NodeSamplerInput(None, some))
            edges = torch.stack([drawn.row, drawn.col])
            forward = lambda x, edges=edges, n=len(some): through(x, edges)[:n]
            yield drawn.node, some, forward, edges.shape[1]
    return net, batches


def sampled_epochs(r):
    """Like `epochs`, on mini-batches; the loss is that of an epoch's last batch."""
    import torch
    import torch.nn.functional as F
    g = r["graph"]
    net, batches = (sampled_pyg if r["form"] == "pyg-sample" else sampled_dgl)(r)
    optimiser = torch.optim.Adam(net.parameters(), lr=r["lr"])
    ms, losses, edges, begun = [], [], 0, time.perf_counter()
    while len(ms) < r["warmup"] + r["epochs"]:
        if len(ms) >= r["warmup"] + 2 and time.perf_counter() - begun > r["seconds"]:
            break
        start, edges = time.perf_counter(), 0
        for inputs, some, forward, drawn in batches():
            optimiser.zero_grad(set_to_none=True)
            loss = F.cross_entropy(forward(g.feat[inputs]), g.label[some])
            loss.backward()
            optimiser.step()
            edges += drawn
        ms.append((time.perf_counter() - start) * 1e3)
        losses.append(float(loss))
    return {"ms": ms[r["warmup"]:], "losses": losses, "edges": edges, "peak_bytes": peak_bytes(),
            "libraries_bytes": r["libraries_bytes"],
            "parameters": sum(p.numel() for p in net.parameters())}


def samples(r):
    """Epochs of batches drawn and numbered into blocks, and edges drawn in each. The first is not
    timed, but looked at."""
    import numpy as np
    import torch
    order = torch.from_numpy(np.load(os.path.join(r["folder"], "order.npy"))).int()
    epoch, g = samplers(r), r["graph"]
    keys = rows_of(g.ptr) * g.n + g.col  # ascending, since rows are
    ms, edges, wrong = [], [], 0
    for blocks in epoch(order):
        wrong += sum(wrong_rows(g, keys, b, k) for b, k in zip(blocks, r["fan_outs"]))
    begun = time.perf_counter()
    while len(ms) < r["epochs"] and (len(ms) < 3 or time.perf_counter() - begun < r["seconds"]):
        start = time.perf_counter()
        count = sum(sum(map(drawn_edges, blocks)) for blocks in epoch(order))
        ms.append((time.perf_counter() - start) * 1e3)
        edges.append(count)
    return {"ms": ms, "edges": edges, "wrong_rows": wrong}


