"""All that a test wants done by several processes, started once. Run by torchrun."""

import sys
from pathlib import Path

from tests.processes import fits, heavy, quarrels, spread, stores
from tests.processes.test_processes import FITS_IN

import tallyfold as tf

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    with tf.many_processes() as group:
        size = group.size
    fits.main(folder, FITS_IN[size])
    spread.main(folder)
    if size == 2:
        heavy.main(folder)
        quarrels.main(folder)
    else:
        stores.main(folder)
