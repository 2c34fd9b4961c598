"""The names that mean something in the directories that idaq keeps: of runs, and of policies."""

from typing import NamedTuple

MANIFEST_FILE = "run.json"
DATASET_FILE = "metadata.json"
LADDER_FILE = "ladder.json"
KEPT_BY = (MANIFEST_FILE, DATASET_FILE, LADDER_FILE)  # runs, datasets, behaviour policies


class OwnNames(NamedTuple):
    """What is written in a directory, as patterns; whatever else is in there is its owner's."""

    files: tuple[str, ...]
    directories: tuple[str, ...] = ()  # that are written as a whole


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
