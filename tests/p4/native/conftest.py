"""The kits of the neighbours serve these tests too."""

import sys
from pathlib import Path

_TESTS = Path(__file__).parents[2]
for _folder in ("p4", "switch", "p4src"):
    if str(_TESTS / _folder) not in sys.path:
        sys.path.append(str(_TESTS / _folder))
