"""Collectives that survive the network, and what that saves.

With this installed, `torch.distributed.init_process_group("reccl")` works: torch calls `register` when
it is imported. Torch is an extra (`sglb[collective]`); nothing here imports it before it is asked for.
"""

from __future__ import annotations

import sys
from typing import Any

BACKEND = "reccl"


def register() -> None:
    """Tells torch of the backend `reccl`; any number of times.

    For programs whose torch does not load its entry points (TORCH_DEVICE_BACKEND_AUTOLOAD=0) and that
    import torch after this package. Raises ImportError without torch.
    """
    import torch.distributed as dist

    if dist.is_available():
        dist.Backend.register_backend(BACKEND, _create, extended_api=True, devices=["cpu", "cuda"])


def _create(options: Any, settings: Any) -> Any:
    from sglb.collective.backend import create

    return create(options, settings)


if "torch" in sys.modules:
    register()
