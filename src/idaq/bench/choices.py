"""What users of the benchmark choose from."""

from typing import Literal

ScaleName = Literal["smoke", "fast", "paper"]
Engine = Literal["local", "ray"]
Format = Literal["md", "csv", "latex"]

DEFAULT_SCALE: ScaleName = "fast"
DEFAULT_ENGINE: Engine = "local"
CPUS_PER_CELL = 1.0  # what Ray reserves by default
GPUS_PER_CELL = 0.0
