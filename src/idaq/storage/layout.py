"""The names that mean something in directories of runs, datasets and behaviour policies."""

from typing import NamedTuple

MANIFEST_FILE = "run.json"
DATASET_FILE = "metadata.json"
LADDER_FILE = "ladder.json"
KEPT_BY = (MANIFEST_FILE, DATASET_FILE, LADDER_FILE)  # runs, datasets, behaviour policies


class OwnNames(NamedTuple):
    """Patterns of what is written atomically in a directory; leftovers of other names stay."""

    files: tuple[str, ...]
    directories: tuple[str, ...] = ()  # each written as a whole


RUN = OwnNames(
    files=(
        MANIFEST_FILE,
        *("dataset.json", "seeds.json", "summary.json", "timing.json", "probe.npz", "curve.npz"),
        "train/seeds-*.safetensors",
        *("seeds/seed-*/split.json", "seeds/seed-*/agent*.safetensors"),
        "seeds/seed-*/metrics.jsonl",
        *("adapt/*/config.json", "adapt/*/seed-*.npz"),
        *("figures/*.png", "videos/*.gif"),
    ),
    directories=("data",),
)
POLICIES = OwnNames(
    files=(
        MANIFEST_FILE,
        *(LADDER_FILE, "rung-*.safetensors", "state.safetensors", "metrics.jsonl"),
    )
)
