"""The kits of tests/p4 serve these tests too."""

import sys
from pathlib import Path

_ABOVE = str(Path(__file__).parents[1])
if _ABOVE not in sys.path:
    sys.path.append(_ABOVE)
