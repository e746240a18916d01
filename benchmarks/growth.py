"""Growth: CPU time and peak memory against the length of the text and the number of samples.

Each point runs in a process of its own: `python -m benchmarks.growth lime 64 1000` prints what it measured.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks.material import Scale, documents, resolved, trained
from benchmarks.measure import Report
from heedful.methods.attattr import AttAttrTokens
from heedful.methods.base import Method
from heedful.methods.gradient import IntegratedGradients
from heedful.methods.lime import Lime
from heedful.methods.perturbation import LeaveOneOut
from heedful.methods.shapley import Shapley

LENGTHS, SAMPLES = (16, 32, 64, 128, 256, 512), (100, 300, 1000, 3000, 10_000)
METHODS: dict[str, Callable[[int], Method]] = {
    "lime": lambda n: Lime(samples=n),
    "lime, kriging": lambda n: Lime(samples=n, sampling="stratified", estimator="kriging"),
    "shapley, wls": lambda n: Shapley(samples=n, exact_up_to=0, estimator="wls"),
    "shapley, kriging": lambda n: Shapley(samples=n, exact_up_to=0),
    "leave-one-out": lambda n: LeaveOneOut(),
    "integrated gradients, 32 nodes": lambda n: IntegratedGradients(),
    "attattr": lambda n: AttAttrTokens(),
}
BY_LENGTH = ("lime", "leave-one-out", "integrated gradients, 32 nodes", "attattr")
BY_SAMPLES = ("lime", "lime, kriging", "shapley, wls", "shapley, kriging")
CUBIC = 3000  # kriging solves a system as large as the number of samples (half of it for shapley)
LONG = 256  # tokens up to which leave-one-out is drawn: its time grows with more than their square
FEW = 200  # samples while the length varies


def peak() -> float:
    """The most memory that this process has held, in MB."""
    # subtle: ru_maxrss of a new process starts with what its parent held, so ask the kernel where it can say
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measured(name: str, length: int, samples: int) -> dict[str, float]:
    """One explanation of one text, warm: CPU seconds, and memory before and at its peak."""
    classifier = trained()
    text = documents(1, length)[0]
    tokens = classifier.tokens(text)
    target = resolved(classifier, tokens)
    probe = classifier.tokens("a short probe")
    METHODS[name](20)(classifier, probe, target, torch.Generator().manual_seed(0))
    before, start = peak(), time.process_time()
    METHODS[name](samples)(classifier, tokens, target, torch.Generator().manual_seed(0))
    return {"tokens": len(tokens), "seconds": time.process_time() - start, "before": before, "peak": peak()}


def _fresh(name: str, length: int, samples: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.growth", name, str(length), str(samples)]
    out = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path(__file__).parents[1]).stdout
    numbers: dict[str, float] = json.loads(out.splitlines()[-1])
    return numbers


def run(scale: Scale) -> Report:
    """Both curves of both quantities."""
    lengths, samples = (LENGTHS[::3], SAMPLES[:2]) if scale.quick else (LENGTHS, SAMPLES)
    curves: dict[str, dict[str, list[tuple[float, float]]]] = {
        f"{what} by {of}": {} for of in ("length", "samples") for what in ("seconds", "memory")
    }
    for of, names in (("length", BY_LENGTH), ("samples", BY_SAMPLES)):
        for name in names:
            for x in lengths if of == "length" else samples:
                if (of == "samples" and "kriging" in name and x > CUBIC) or (name == "leave-one-out" and x > LONG):
                    continue
                numbers = _fresh(name, x, FEW) if of == "length" else _fresh(name, 25, x)
                curves[f"seconds by {of}"].setdefault(name, []).append((x, numbers["seconds"]))
                curves[f"memory by {of}"].setdefault(name, []).append((x, numbers["peak"] - numbers["before"]))
    return Report((), curves)


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(measured(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
