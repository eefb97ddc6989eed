"""Out-of-memory errors that AI Toolkit catches, prints in a few words, and goes on after.

Where it handles one it calls ``print`` or ``print_acc``, which its modules look up among their own names. A name of
theirs that looks at the error being handled, and then prints, sees each of them in every version.
"""

from __future__ import annotations

import builtins
import sys
from collections import Counter
from collections.abc import Callable
from types import ModuleType
from typing import Any

from .torch_errors import is_out_of_memory

# A layer that is not quantized, the optimizer's state not loaded or not saved.
MODULES = ("toolkit.util.quantize", "jobs.process.BaseSDTrainProcess")
_PRINTERS = ("print", "print_acc")


class Swallowed:
    """Tells the first error of each place; ``counts`` holds how many there were."""

    def __init__(self, tell: Callable[[BaseException], Any]) -> None:
        self._tell = tell
        self.counts: Counter[str] = Counter()

    def listen(self, module: ModuleType) -> None:
        """See what the module prints while it handles an error."""
        for name in _PRINTERS:
            original = vars(module).get(name, getattr(builtins, name, None))
            if original is not None:
                setattr(module, name, self._printer(original))

    def _printer(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def printer(*args: Any, **kwargs: Any) -> Any:
            self._see(sys.exc_info()[1])
            return original(*args, **kwargs)

        return printer

    def _see(self, error: BaseException | None) -> None:
        if error is None or not is_out_of_memory(error) or getattr(error, "_headroom_seen", False):
            return
        error._headroom_seen = True  # type: ignore[attr-defined]
        trace = error.__traceback__
        place = trace.tb_frame.f_code.co_name if trace is not None else ""
        self.counts[place] += 1
        if self.counts[place] == 1:
            self._tell(error)
