"""The device that JAX computes on."""

import jax

from idaq.errors import IdaqError


def find_device() -> jax.Device:
    """The first device, or an error where the platform that was asked for is not there."""
    try:
        return jax.devices()[0]
    except (RuntimeError, AssertionError) as error:
        raise IdaqError(
            f"JAX finds no device to compute on ({error}).",
            "Unset JAX_PLATFORMS, or install idaq[cuda] where there is a GPU.",
        ) from error
