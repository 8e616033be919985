"""Unsupervised GraphSAGE with PyG, beside which `bytegnn.md` puts Halobook's.

Per epoch and vertex one direct neighbour and --negatives other vertices, uniform, that are not joined with it; binary
cross-entropy of dot products, the mean over all pairs of a batch; whole neighbourhoods. DATA is a folder with
`graph.npz` (edge_src, edge_dst, label, masks, and feat or feat_data/indices/indptr/shape) and perhaps `link_split.npz`;
without one, 5 % and 10 % of the undirected edges are held out. Prints the AUC of the held-out test edges and the test
accuracy of a linear probe on standardised embeddings (scikit-learn, C = 1), by seed, then means and deviations.

    pip install torch torch_geometric scipy scikit-learn
    python pyg_unsupervised.py DATA --epochs 20 --batch 256
"""
import argparse
import json
import os

import numpy as np
import torch
import torch.nn.functional as F
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler
from torch_geometric.nn import SAGEConv

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("data")
parser.add_argument("--hidden", type=int, default=64)
parser.add_argument("--epochs", type=int, default=20)
parser.add_argument("--batch", type=int, default=0, help="0 is all vertices")
parser.add_argument("--lr", type=float, default=0.01)
parser.add_argument("--negatives", type=int, default=1)
parser.add_argument("--norm", action="store_true", help="feature rows sum to 1")
parser.add_argument("--sparse", action="store_true", help="the first layer reads sparse means, taken once")
parser.add_argument("--seeds", type=int, default=5)
args = parser.parse_args()

g = np.load(os.path.join(args.data, "graph.npz"))
if "feat" in g:
    x = sparse.csr_matrix(g["feat"].astype(np.float32))
else:
    x = sparse.csr_matrix((g["feat_data"], g["feat_indices"], g["feat_indptr"]), shape=tuple(g["feat_shape"])).astype(np.float32)
if args.norm:
    x = sparse.diags(1 / np.maximum(np.abs(x).sum(1).A1, 1e-12)).astype(np.float32) @ x
n = x.shape[0]


def link_split():
    """Edges to train on, held-out edges, and pairs without an edge to rank them against."""
    path = os.path.join(args.data, "link_split.npz")
    if os.path.exists(path):
        given = np.load(path)
        return [given[key].astype(np.int64) for key in ("train_pos", "test_pos", "test_neg")]
    src, dst = g["edge_src"].astype(np.int64), g["edge_dst"].astype(np.int64)
    edges = np.unique(np.stack([np.minimum(src, dst), np.maximum(src, dst)], 1), axis=0)
    edges = edges[edges[:, 0] != edges[:, 1]]
    known, rng, far = set(map(tuple, edges)), np.random.default_rng(0), []
    rng.shuffle(edges)
    val, test = round(len(edges) * 0.05), round(len(edges) * 0.10)
    while len(far) < test:
        u, v = sorted(rng.integers(0, n, 2))
        if u != v and (u, v) not in known:
            far.append((u, v))
    return edges[: -test - val], edges[-test:], np.array(far)


train, test, far = link_split()
both = np.concatenate([train, train[:, ::-1]])
both = both[np.lexsort((both[:, 1], both[:, 0]))]
start, ends = np.searchsorted(both[:, 0], np.arange(n + 1)), both[:, 1]
seeds, code = np.unique(both[:, 0]), both[:, 0] * n + both[:, 1]
edge_index = torch.from_numpy(both.T.copy())


def csr(m):
    m = m.tocsr()
    parts = (torch.from_numpy(a) for a in (m.indptr.astype(np.int64), m.indices.astype(np.int64), m.data.astype(np.float32)))
    return torch.sparse_csr_tensor(*parts, m.shape)


class Product(torch.autograd.Function):
    """A constant sparse matrix times a dense one."""

    @staticmethod
    def forward(ctx, m, transposed, w):
        ctx.transposed = transposed
        return m @ w

    @staticmethod
    def backward(ctx, g):
        return None, None, ctx.transposed @ g


class SparseFirst(torch.nn.Module):
    """SAGEConv on features that are sparse and constant."""

    def __init__(self, out):
        super().__init__()
        degree = np.maximum(np.bincount(both[:, 0], minlength=n), 1)
        edges = sparse.csr_matrix((np.ones(len(both), np.float32), (both[:, 0], both[:, 1])), shape=(n, n))
        mean = sparse.diags(1 / degree) @ edges @ x
        self.mean, self.own = (csr(mean), csr(mean.T)), (csr(x), csr(x.T))
        shapes = (out, x.shape[1]), (out, x.shape[1]), (out,)
        self.lin_l, self.lin_r, self.bias = (torch.nn.Parameter(torch.empty(*shape)) for shape in shapes)

    def forward(self, _x, _edge_index):
        parts = Product.apply(*self.mean, self.lin_l.T.contiguous()), Product.apply(*self.own, self.lin_r.T.contiguous())
        return parts[0] + parts[1] + self.bias


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        h = args.hidden
        self.first = SparseFirst(h) if args.sparse else SAGEConv(x.shape[1], h)
        self.second = SAGEConv(h, h)
        # The initial distribution of what it is compared with.
        for p in self.parameters():
            torch.nn.init.xavier_uniform_(p) if p.dim() == 2 else torch.nn.init.zeros_(p)

    def forward(self):
        return self.second(F.relu(self.first(features, edge_index)), edge_index)


features = torch.zeros(n, 1) if args.sparse else torch.from_numpy(x.toarray())


def not_joined(of, rng):
    """For each vertex another one that it is not joined with."""
    drawn = rng.integers(0, n, len(of))
    for _ in range(15):
        key = of * n + drawn
        at = np.minimum(np.searchsorted(code, key), len(code) - 1)
        bad = (drawn == of) | (code[at] == key)
        if not bad.any():
            break
        drawn[bad] = rng.integers(0, n, bad.sum())
    return drawn


def run(seed):
    torch.manual_seed(seed)
    rng, net = np.random.default_rng(seed), Net()
    adam = torch.optim.Adam(net.parameters(), args.lr)
    for _ in range(args.epochs):
        order = rng.permutation(seeds)
        steps = 1 if args.batch == 0 else -(-len(order) // args.batch)
        for part in np.array_split(order, steps):
            near = ends[start[part] + (rng.random(len(part)) * (start[part + 1] - start[part])).astype(np.int64)]
            again = np.repeat(part, args.negatives)
            other = not_joined(again, rng)
            z = net()
            scores = torch.cat([(z[part] * z[near]).sum(1), (z[again] * z[other]).sum(1)])
            joined = torch.cat([torch.ones(len(part)), torch.zeros(len(again))])
            loss = F.binary_cross_entropy_with_logits(scores, joined)
            adam.zero_grad()
            loss.backward()
            adam.step()
    with torch.no_grad():
        z = net().numpy()
    dots = np.concatenate([(z[pairs[:, 0]] * z[pairs[:, 1]]).sum(1) for pairs in (test, far)])
    auc = roc_auc_score(np.repeat([1, 0], [len(test), len(far)]), dots)
    fit, held = g["train_mask"].astype(bool), g["test_mask"].astype(bool)
    scale = StandardScaler().fit(z[fit])
    probe = LogisticRegression(max_iter=2000).fit(scale.transform(z[fit]), g["label"][fit])
    return 100 * auc, 100 * probe.score(scale.transform(z[held]), g["label"][held])


results = []
for seed in range(args.seeds):
    results.append(run(seed))
    print(seed, *results[-1], flush=True)
mean, deviation = np.mean(results, 0), np.std(results, 0, ddof=1)
print(json.dumps({"auc": [mean[0], deviation[0]], "probe": [mean[1], deviation[1]]}))
