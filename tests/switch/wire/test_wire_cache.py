"""The compiled loop of a live switch is found again by the next process."""

import subprocess
import sys

STAMPS = """
from sglb.switch.core import image
import sglb.switch.wire.node
routines = [d for d in image._definitions.values() if isinstance(d, image.Routine)]
print(*(image._stamp(image._image_of(r)) for r in routines), sep="\\n")
"""


def test_stamps_are_those_of_the_process_before():
    """Where the system put a library this time is no part of them."""
    one, two = (
        subprocess.run([sys.executable, "-c", STAMPS], capture_output=True, text=True, check=True)
        for _ in range(2)
    )
    assert one.stdout.startswith("image ")
    assert one.stdout == two.stdout
