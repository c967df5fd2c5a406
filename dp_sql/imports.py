"""Imports that a first answer waits for: without the garbage collector."""

import gc
import sys
from importlib import import_module
from types import ModuleType

_JUST_STARTED = 50_000  # objects; a program that has imported DuckDB has about 20 000


def imported(module: str) -> ModuleType:
    """Import a module, and let the collector look at what came with it seldom or never.

    It would look at all of it again and again, and three more times when the process exits.
    """
    if module in sys.modules or not gc.isenabled():
        return import_module(module)
    gc.disable()
    has_begun = len(gc.get_objects()) > _JUST_STARTED
    try:
        return import_module(module)
    finally:
        if not has_begun:
            gc.freeze()  # for good: the program itself has next to no objects yet
        elif not gc.get_freeze_count():  # else it would unfreeze what the program froze
            gc.freeze()
            gc.unfreeze()  # into the oldest generation, which is seldom looked at
        gc.enable()
