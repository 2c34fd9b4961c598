"""The device that JAX computes on."""

import os
import warnings
from pathlib import Path

import jax

from idaq.errors import IdaqError

NUMERICS = {  # settings of JAX that all of idaq's results were made with
    "jax_enable_x64": False,
    "jax_default_prng_impl": "threefry2x32",
    "jax_threefry_partitionable": True,
}
MAPS, MAPS_LIMIT = Path("/proc/self/maps"), Path("/proc/sys/vm/max_map_count")  # of Linux
MAPS_SHARE = 0.5  # of the limit, that compiled programs may fill


def find_device() -> jax.Device:
    """The first device, or an error where the platform that was asked for is not there.

    Settings of JAX under which the same identity would have other numbers are refused.
    """
    for name, own in NUMERICS.items():
        if getattr(jax.config, name) != own:
            raise IdaqError(
                f"JAX is set to {name}={getattr(jax.config, name)}, which changes all numbers and "
                "which no result would say.",
                f"Unset {name.upper()}, or set it to {own}.",
            )
    try:
        return jax.devices()[0]
    except (RuntimeError, AssertionError) as error:
        raise IdaqError(
            f"JAX finds no device to compute on ({error}).",
            "Unset JAX_PLATFORMS, or install idaq[cuda] where there is a GPU.",
        ) from error


def enable_compile_cache() -> None:
    """Keep compiled programs between runs, in the user's cache directory.

    A cache that cannot be read or written costs time and nothing else.
    """
    warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache")

    try:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # this user has no home
        return
    settings = {
        "jax_compilation_cache_dir": str(base / "idaq" / "xla"),
        "jax_persistent_cache_min_compile_time_secs": 0.0,
    }
    for name, value in settings.items():
        jax.config.update(name, value)  # type: ignore[no-untyped-call]


def forget_programs_when_many() -> None:
    """Drop the compiled programs of this process when they come near what the system allows.

    On a CPU each takes some memory maps, and the compiler crashes when a process runs out of them,
    as in a benchmark of many families. What is used again is read from the compile cache.
    """
    try:
        with MAPS.open("rb") as lines:
            count = sum(1 for _ in lines)
        limit = int(MAPS_LIMIT.read_text())
    except (OSError, ValueError):  # not Linux
        return
    if count > MAPS_SHARE * limit:
        jax.clear_caches()  # type: ignore[no-untyped-call]
