"""Python's side of `halobook bench polars`: reads names of operations, answers with milliseconds and rows."""
import sys
import time

import polars as pl

folder = sys.argv[1]
df = pl.read_parquet(f"{folder}/rows.parquet")
keys = pl.read_parquet(f"{folder}/keys.parquet")
c = pl.col

OPERATIONS = {
    "group_by": lambda: df.lazy().group_by("k").agg(c("v").mean().alias("mean"), c("v").sum().alias("sum")).collect(),
    "join": lambda: df.lazy().join(keys.lazy(), on="k", how="left").collect(),
    "self-join": lambda: df.lazy().select("id", "k").join(df.lazy().select("id", "v"), on="id").collect(),
    "sort": lambda: df.sort("v"),
    "filter": lambda: df.lazy().select("k", "v").filter((c("v") > 0.5) & (c("k") < 500)).collect(),
    "with_columns": lambda: df.lazy().with_columns((c("v") * 2.0 + c("k").cast(pl.Float64)).alias("z")).collect(),
    "sum": lambda: df.lazy().select(c("v").sum(), c("k").max(), c("id").mean()).collect(),
    "strings": lambda: df.lazy().select(c("s").str.to_uppercase().str.len_bytes().sum()).collect(),
    "rolling": lambda: df.lazy().select(c("v").rolling_mean(50)).collect(),
    "pivot": lambda: df.lazy()
    .with_columns((c("id") % 8).alias("m"))
    .group_by("k", "m")
    .agg(c("v").mean())
    .collect(),
    "read CSV": lambda: pl.read_csv(f"{folder}/rows.csv"),
    "read Parquet": lambda: pl.read_parquet(f"{folder}/rows.parquet"),
    "closure": lambda: pl.Series([v * (k % 7) + 1.0 for v, k in zip(df["v"], df["k"])]),
}

for line in sys.stdin:
    name = line.strip()
    if name == "version":
        print(pl.__version__, flush=True)
        continue
    start = time.perf_counter()
    result = OPERATIONS[name]()
    print(f"{(time.perf_counter() - start) * 1e3:.3f} {len(result)}", flush=True)
