"""A control plane that never gets done, but under spray."""

from __future__ import annotations

import os
import time
from pathlib import Path

from controller.fabric_control import FabricControl


class Stuck(FabricControl):
    """Writes its process's id to $STUCK_DIR/POLICY, then sleeps."""

    def start(self) -> None:
        policy = self._view.policy
        if policy == "spray":
            super().start()
            return
        note = Path(os.environ["STUCK_DIR"]) / policy
        part = note.with_suffix(".part")
        part.write_text(str(os.getpid()))
        part.rename(note)
        time.sleep(3_600)
