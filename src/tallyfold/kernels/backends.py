"""Who computes: the choice that all kernels share."""

from tallyfold.errors import BackendError, ParameterError
from tallyfold.kernels.device import device_in_use

BACKENDS = ("auto", "numba", "numpy", "torch")


def chosen_backend(backend: str, *, small: bool) -> str:
    """Return ``"numba"``, ``"numpy"`` or ``"torch"``.

    Parameters
    ----------
    backend
        What was asked for. ``"auto"`` is torch on a device other than the CPU; on the CPU, NumPy
        for what is small and numba elsewhere.
    small
        Whether NumPy is done before a compiler could start.
    """
    if backend not in BACKENDS:
        raise BackendError(f"`backend` must be one of {BACKENDS}; got {backend!r}.")
    if backend != "auto":
        return backend
    if device_in_use() != "cpu":
        return "torch"
    return "numpy" if small else "numba"


def refuse_elsewhere(backend: str, device: str) -> None:
    """Refuse a back-end that cannot compute on a device."""
    if device != "cpu" and backend not in ("auto", "torch"):
        raise ParameterError(
            f"`backend` must be 'auto' or 'torch' with device={device!r}; got {backend!r}, which "
            "computes on the CPU only."
        )
