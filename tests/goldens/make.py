#!/usr/bin/env python3
"""Golden values: logits, loss and every gradient of each model, by PyTorch Geometric.

    pip install torch torch_geometric
    python tests/goldens/make.py            # writes tests/goldens/*.json

One small directed graph (an isolated vertex, two self loops, no repeated edge) and one file a
model. Inputs and weights are rounded to f32 before PyG computes with them in f64, so a reader that
works in f32 starts from the same numbers and meets goldens without error. Weights are listed by
layer in the order and orientation of `gnn-core/src/model`: `[d_in, d_out]`, a bias is a row.
Where PyG has no such model (the decoupled forms), the formula is written out in plain torch.
"""

import json
import pathlib

import torch
import torch.nn.functional as F
from torch import nn
from torch_geometric.nn import APPNP, DeepGCNLayer, GATConv, GCN2Conv, GCNConv, GINConv, RGCNConv, SAGEConv

N, D, HIDDEN, CLASSES, RELATIONS = 16, 5, 4, 3, 3
torch.set_default_dtype(torch.float64)
HERE = pathlib.Path(__file__).parent


def random_graph():
    """Edges by (destination, source) ascending; vertex 15 has none, 3 and 7 have self loops."""
    g = torch.Generator().manual_seed(3)
    pairs = {(7, 7), (3, 3)}
    while len(pairs) < 44:
        s, d = torch.randint(0, N - 1, (2,), generator=g).tolist()
        if s != d:
            pairs.add((d, s))
    pairs = sorted(pairs)
    types = torch.randint(0, RELATIONS, (len(pairs),), generator=g)
    return torch.tensor([[s for _, s in pairs], [d for d, _ in pairs]]), types


EDGES, TYPES = random_graph()


def f32(*shape, seed, scale=1.0):
    """Random numbers that f32 represents exactly."""
    g = torch.Generator().manual_seed(seed)
    return (torch.randn(*shape, generator=g) * scale).float().double()


X = f32(N, D, seed=1).requires_grad_()
LABELS = torch.randint(0, CLASSES, (N,), generator=torch.Generator().manual_seed(2))
TRAIN = torch.tensor([v % 3 != 1 for v in range(N)])


def draw(module):
    """Fills every parameter with random numbers, biases and gains too."""
    with torch.no_grad():
        for k, p in enumerate(module.parameters()):
            p.copy_(f32(*p.shape, seed=100 + k, scale=0.6))
    return module


class View:
    """A named tensor of ours as a function of PyG's parameter, applied to value and gradient."""

    def __init__(self, name, parameter, change=lambda t: t):
        self.name, self.parameter, self.change = name, parameter, change

    def json(self, of):
        t = self.change(of(self.parameter).detach())
        t = t.reshape(1, -1) if t.dim() < 2 else t
        return {"name": self.name, "shape": list(t.shape), "data": t.reshape(-1).tolist()}


def lin(layer, names=("weight", "bias")):
    views = [View(names[0], layer.weight, lambda t: t.t())]
    return views + ([View(names[1], layer.bias)] if layer.bias is not None else [])


def write(name, logits, stack, *, model, typed=False, **spec):
    """Loss, backward, and the file."""
    X.grad = None
    for views in stack:
        for v in views:
            v.parameter.grad = None
    loss = F.cross_entropy(logits[TRAIN], LABELS[TRAIN])
    loss.backward()
    out = {
        "spec": {"model": model, "hidden": HIDDEN, "dropout": 0.0, **spec},
        "n": N,
        "src": EDGES[0].tolist(),
        "dst": EDGES[1].tolist(),
        "edge_type": TYPES.tolist() if typed else None,
        "x": X.detach().reshape(-1).tolist(),
        "classes": CLASSES,
        "labels": LABELS.tolist(),
        "train": TRAIN.tolist(),
        "weights": [[v.json(lambda p: p) for v in views] for views in stack],
        "logits": logits.detach().reshape(-1).tolist(),
        "loss": loss.item(),
        "gradients": [[v.json(lambda p: p.grad) for v in views] for views in stack],
        "x_gradient": X.grad.reshape(-1).tolist(),
    }
    text = json.dumps(out, separators=(", ", ": "))
    (HERE / f"{name}.json").write_text(text + "\n")
    print(f"{name:18} loss {loss.item():.6f}")


def gcn():
    a, b = draw(nn.ModuleList([GCNConv(D, HIDDEN), GCNConv(HIDDEN, CLASSES)]))
    logits = b(a(X, EDGES).relu(), EDGES)
    view = lambda c: [View("weight", c.lin.weight, lambda t: t.t()), View("bias", c.bias)]
    write("gcn", logits, [view(a), view(b)], model="gcn", layers=2)


def sage():
    a, b = draw(nn.ModuleList([SAGEConv(D, HIDDEN), SAGEConv(HIDDEN, CLASSES)]))
    logits = b(a(X, EDGES).relu(), EDGES)
    view = lambda c: [
        View("weight_self", c.lin_r.weight, lambda t: t.t()),
        View("weight_neigh", c.lin_l.weight, lambda t: t.t()),
        View("bias", c.lin_l.bias),
    ]
    write("sage", logits, [view(a), view(b)], model="sage", layers=2)


def gin():
    mlp = lambda d, out: nn.Sequential(nn.Linear(d, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, out))
    convs = [GINConv(mlp(D, HIDDEN), train_eps=True), GINConv(mlp(HIDDEN, CLASSES), train_eps=True)]
    a, b = draw(nn.ModuleList(convs))
    logits = b(a(X, EDGES).relu(), EDGES)
    view = lambda c: [
        View("eps", c.eps),
        *lin(c.nn[0], ("weight_1", "bias_1")),
        *lin(c.nn[2], ("weight_2", "bias_2")),
    ]
    write("gin", logits, [view(a), view(b)], model="gin", layers=2)


def gat():
    for out_heads in (1, 2):
        a = GATConv(D, HIDDEN, heads=3)
        b = GATConv(3 * HIDDEN, CLASSES, heads=out_heads, concat=False)
        a, b = draw(nn.ModuleList([a, b]))
        logits = b(F.elu(a(X, EDGES)), EDGES)
        view = lambda c: [
            View("weight", c.lin.weight, lambda t: t.t()),
            View("att_src", c.att_src, lambda t: t[0]),
            View("att_dst", c.att_dst, lambda t: t[0]),
            View("bias", c.bias),
        ]
        name = "gat" if out_heads == 1 else "gat_out_heads"
        write(name, logits, [view(a), view(b)], model="gat", layers=2, heads=3, out_heads=out_heads, attention_dropout=0.0)


def rgcn():
    def view(c, bases):
        if bases:
            basis = [View("basis", c.weight, lambda t: t.permute(1, 0, 2).flatten(1)), View("coef", c.comp)]
        else:
            basis = [View("basis", c.weight, lambda t: t.permute(1, 0, 2).flatten(1))]
        return [*basis, View("root", c.root), View("bias", c.bias)]

    for bases in (2, 0):
        make = lambda d, out: RGCNConv(d, out, RELATIONS, num_bases=bases or None, aggr="mean")
        a, b = draw(nn.ModuleList([make(D, HIDDEN), make(HIDDEN, CLASSES)]))
        logits = b(a(X, EDGES, TYPES).relu(), EDGES, TYPES)
        name = "rgcn" if bases else "rgcn_no_bases"
        write(name, logits, [view(a, bases), view(b, bases)], model="rgcn", layers=2, bases=bases, typed=True)


def gcnii():
    layers, alpha, lamda = 3, 0.1, 0.5
    first, last = nn.Linear(D, HIDDEN), nn.Linear(HIDDEN, CLASSES)
    convs = [GCN2Conv(HIDDEN, alpha, lamda, layer=l + 1, shared_weights=True) for l in range(layers)]
    draw(nn.ModuleList([first, *convs, last]))
    x = h0 = first(X).relu()
    for conv in convs:
        x = conv(x, h0, EDGES).relu()
    views = [lin(first), *[[View("weight", c.weight1)] for c in convs], lin(last)]
    write("gcnii", last(x), views, model="gcnii", layers=layers, alpha=alpha)


def resgcn():
    layers = 3
    first, last = nn.Linear(D, HIDDEN), nn.Linear(HIDDEN, CLASSES)
    norm = nn.LayerNorm(HIDDEN)
    blocks = [
        DeepGCNLayer(GCNConv(HIDDEN, HIDDEN), nn.LayerNorm(HIDDEN), nn.ReLU(), block="res+", dropout=0.0)
        for _ in range(layers)
    ]
    draw(nn.ModuleList([first, *blocks, norm, last]))
    x = first(X)
    for block in blocks:
        x = block(x, EDGES)
    normed = lambda n: [View("gain", n.weight), View("shift", n.bias)]
    views = [
        lin(first),
        *[[*normed(b.norm), View("weight", b.conv.lin.weight, lambda t: t.t()), View("bias", b.conv.bias)] for b in blocks],
        [*normed(norm), *lin(last)],
    ]
    write("resgcn", last(norm(x).relu()), views, model="resgcn", layers=layers)


def adjacency(loops):
    """Dense [destination, source] counts of the graph; `loops` sets the diagonal to one."""
    a = torch.zeros(N, N)
    a[EDGES[1], EDGES[0]] = 1.0
    return a.fill_diagonal_(1.0) if loops else a


def decoupled():
    """L dense layers with ReLU between them, then L rounds of propagation."""
    a, b = draw(nn.ModuleList([nn.Linear(D, HIDDEN), nn.Linear(HIDDEN, CLASSES)]))
    spec = dict(layers=2, decoupled=True)
    z = lambda: b(a(X).relu())
    write("gcn_decoupled", APPNP(K=2, alpha=0.0)(z(), EDGES), [lin(a), lin(b), [], []], model="gcn", **spec)

    plain = adjacency(loops=False)
    mean = plain / plain.sum(1, keepdim=True).clamp(min=1.0)
    x = z()
    for _ in range(2):
        x = 0.5 * (x + mean @ x)
    write("sage_decoupled", x, [lin(a), lin(b), [], []], model="sage", **spec)

    eps = [nn.Parameter(torch.tensor(0.25)), nn.Parameter(torch.tensor(-0.5))]
    x = z()
    for e in eps:
        x = (1.0 + e) * x + plain @ x
    write("gin_decoupled", x, [lin(a), lin(b), [View("eps", eps[0])], [View("eps", eps[1])]], model="gin", **spec)

    loops = adjacency(loops=True)
    src = nn.Parameter(f32(1, CLASSES, seed=50))
    dst = nn.Parameter(f32(1, CLASSES, seed=51))
    x = z()
    score = F.leaky_relu(x @ dst.t() + (x @ src.t()).t(), 0.2)
    coefficients = score.masked_fill(loops == 0.0, -torch.inf).softmax(1)
    for _ in range(2):
        x = coefficients @ x
    views = [lin(a), lin(b), [View("att_src", src), View("att_dst", dst)], []]
    write("gat_decoupled", x, views, model="gat", attention_dropout=0.0, heads=1, **spec)

    rel = RGCNConv(HIDDEN, CLASSES, RELATIONS, aggr="mean")
    draw(nn.ModuleList([a, rel]))
    h = a(X).relu()
    x = h @ rel.root + rel.bias
    for r in range(RELATIONS):
        only = torch.zeros(N, N)
        mine = EDGES[:, TYPES == r]
        only[mine[1], mine[0]] = 1.0
        only = only / only.sum(1, keepdim=True).clamp(min=1.0)
        x = x + only @ (only @ (h @ rel.weight[r]))
    views = [
        View("weights", rel.weight, lambda t: t.permute(1, 0, 2).flatten(1)),
        View("root", rel.root),
        View("bias", rel.bias),
    ]
    write("rgcn_decoupled", x, [lin(a), views, [], []], model="rgcn", typed=True, **spec)


if __name__ == "__main__":
    for make in (gcn, sage, gin, gat, rgcn, gcnii, resgcn, decoupled):
        make()
