"""``python -m headroom VERB``."""

import gc
import sys

gc.set_threshold(100_000)  # what is imported is no garbage; looking for some takes a twentieth of an answer's time

from .cli import main  # noqa: E402

sys.exit(main(sys.argv[1:]))
