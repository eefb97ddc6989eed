"""What the nodes that run AI Toolkit share: the run, its status on the page, and what is shown and told at the end."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import comfy.model_management as mm

from ..headroom.contracts import Event
from ..headroom.run.events import read_events
from .language import languages
from .run_loras import listed
from .run_panels import as_text, run_panel
from .run_status import Status
from .running import Order, RunFailed, carry_out
from .sockets import CarriedJob, CarriedRun


@dataclass(frozen=True)
class Over:
    """A run that is over, for the node that wanted it. ``loras`` are the names in core's list, once it finished."""

    run: CarriedRun
    finished: bool
    events: tuple[Event, ...]
    loras: tuple[str, ...]
    report: str
    ui: dict[str, Any]


def carried_out(
    node_type: str, hidden: Any, job: CarriedJob, order: Order, language: str, must_finish: bool = False
) -> Over:
    """Carry out what a node wants, with its status on the page. ``hidden`` is the node's own.

    Raises RunFailed where it cannot begin, and where it does not finish though it must.
    """
    shown = languages(language)
    workflow = (hidden.extra_pnginfo or {}).get("workflow") or {}
    status = Status(node_type, hidden.unique_id, workflow.get("id"))
    try:
        run, kept = carry_out(order, status, hidden.unique_id, shown[0])
        result = run.result
        assert result is not None
        finished = result.outcome == "finished"
        events = tuple(read_events(run.run.events))
        named = finished and order.until is None and result.checkpoint
        loras = tuple(listed(run.run, Path(named))) if named else ()
        panels = [run_panel(run, kept, loras, events, lang) for lang in shown]
        if must_finish and not finished:
            raise RunFailed(as_text(panels[0]))
    except mm.InterruptProcessingException:
        status.say("interrupted")
        raise
    except Exception as error:
        status.say("failed", problem=str(error))
        raise
    status.say("over", panels=panels)
    carried = CarriedRun(run.run, result, job)
    return Over(carried, finished, events, loras, as_text(panels[0]), {"headroom": panels})
