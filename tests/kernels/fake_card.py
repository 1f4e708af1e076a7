"""A CUDA device that is not there: torch is asked for it and works on the CPU instead.

Tensors made without saying where, or on another device, are found by `asked`.
"""

import torch

MAKERS = ("tensor", "as_tensor", "zeros", "ones", "empty", "full", "arange", "linspace", "eye")


def pretend(monkeypatch, n_devices=1):
    """Make torch believe in CUDA; return the devices it will have been asked for."""
    asked = []

    def noting(make):
        def made(*args, device=None, **kwargs):
            asked.append(str(device))
            return make(*args, device=None if device is None else "cpu", **kwargs)

        return made

    for name in MAKERS:
        monkeypatch.setattr(torch, name, noting(getattr(torch, name)))
    monkeypatch.setattr(torch, "from_numpy", lambda array: asked.append("from_numpy"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: n_devices > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: n_devices)
    return asked
