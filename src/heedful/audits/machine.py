"""Machine: what a part was computed on. On another kind of processor the last digits of a number may differ."""

from __future__ import annotations

import platform
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

_CPU_INFO = Path("/proc/cpuinfo")


def machine(device: torch.device) -> dict[str, str]:
    """The kind of this machine: processor, its instructions that torch uses, device, and versions."""
    kind = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    return {**_processor(), "device": kind, "python": platform.python_version(), "torch": torch.__version__}


@lru_cache(maxsize=1)
def _processor() -> Mapping[str, str]:
    try:
        named = re.search(r"^model name\s*:\s*(.+)$", _CPU_INFO.read_text(), re.MULTILINE)
    except OSError:
        named = None
    name = named[1].strip() if named else platform.processor() or platform.machine()
    return {"cpu": name, "instructions": torch.backends.cpu.get_cpu_capability()}


def machines(timings: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The kinds of machines that computed some parts, each with its number of texts, the largest first."""
    texts: Counter[tuple[tuple[str, str], ...]] = Counter()
    for timing in timings:
        if "machine" in timing:
            texts[tuple(sorted(timing["machine"].items()))] += timing["texts"]
    return [{**dict(kind), "texts": n} for kind, n in sorted(texts.items(), key=lambda item: (-item[1], item[0]))]
