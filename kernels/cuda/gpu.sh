#!/bin/sh
# Everything that needs an NVIDIA GPU: the kernel tests on it, training on it against the CPU, the
# memory checker where it is installed, and the benchmark table. Never part of `cargo verify`.
#
#   kernels/cuda/gpu.sh [SCALE]      SCALE of the R-MAT graph, default 20
#
# What it prints goes into the repository with date, commit and device.
set -eu
cd "$(dirname "$0")/../.."
echo "# $(date -u +%F), commit $(git rev-parse --short HEAD)"
nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader

# A GPU that is not found is a failure from here on.
export HALOBOOK_REQUIRE=cuda,nvrtc
cargo test --release -p kernels --lib cuda::
cargo test --release -p gnn-core --lib backend::cuda::

if command -v compute-sanitizer >/dev/null; then
    tests=$(cargo test --release -p kernels --lib --no-run 2>&1 | sed -n 's/.*(\(.*\))$/\1/p' | tail -1)
    for tool in memcheck racecheck synccheck initcheck; do
        compute-sanitizer --tool "$tool" --error-exitcode 1 "$tests" cuda::tests --test-threads=1
    done
else
    echo "skip: compute-sanitizer is not installed (CUDA's toolkit has it)"
fi

cargo run --release -p kernels --example gpu -- "${1:-20}"

# Whole epochs against PyTorch Geometric and DGL on the same graph: HALOBOOK_PEERS names a Python that
# has them, built for this GPU.
if [ -n "${HALOBOOK_PEERS:-}" ]; then
    for model in gcn sage gat; do
        cargo run --release -p launcher -- bench epoch --backend cuda --model "$model" --against python \
            --data "rmat:scale=${1:-20},edge-factor=16,feat=128,classes=32"
    done
else
    echo "skip: epochs against PyTorch Geometric (set HALOBOOK_PEERS to a Python that has it)"
fi
