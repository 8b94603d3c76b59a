"""Tables that do not fit into memory: rows in blocks, from Parquet, Zarr and NumPy's files or from functions."""

from amofa.blocks._blocks import Blocks
from amofa.blocks._files import from_npy, from_zarr
from amofa.blocks._parquet import from_parquet
from amofa.blocks._predictions import write_predictions

__all__ = ["Blocks", "from_npy", "from_parquet", "from_zarr", "write_predictions"]
