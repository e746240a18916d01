"""Precision: whether this machine's CPU can compute in bf16, tested in a child process.

Some virtual machines announce AMX and kill the process with SIGILL at the first bf16 product. No query of the CPU finds
them, so a short child process runs a few bf16 products first. If it dies, heedful computes in float32.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path

import torch

from heedful.core.errors import BadInput
from heedful.core.files import write_files

TIMEOUT_SECONDS = 120
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")  # changes at each boot of a Linux machine
# matrices large enough for oneDNN's AMX and AVX512 kernels, forward and backward, in the layers of training
TRIAL = """
try:
    import resource
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
except ImportError:
    pass
import torch
torch.set_num_threads(1)
vectors = torch.randn(4, 64, 128)
torch.matmul(vectors.bfloat16(), torch.randn(128, 128).bfloat16())
linear, lstm = torch.nn.Linear(128, 128), torch.nn.LSTM(128, 128, batch_first=True)
with torch.autocast("cpu", torch.bfloat16):
    out = lstm(linear(vectors))[0]
    out = torch.nn.functional.scaled_dot_product_attention(out[:, None], out[:, None], out[:, None])
out.float().sum().backward()
"""


@cache
def bf16_fault() -> str | None:
    """Why bf16 cannot be used on this machine's CPU, or None. Tested once, then cached for this boot."""
    file = _cache_file()
    try:
        if file is not None:
            fault = json.loads(file.read_text("utf-8"))["fault"]
            return None if fault is None else str(fault)
    except (OSError, ValueError, KeyError, TypeError):
        pass
    fault, certain = _try_bf16()
    if file is not None and certain:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_files({file: json.dumps({"fault": fault}).encode()})
        except (OSError, BadInput):  # the next process tests again
            pass
    return fault


def _try_bf16() -> tuple[str | None, bool]:
    """The fault of a child process that computes in bf16, or None, and whether the result may be cached."""
    if not sys.executable or getattr(sys, "frozen", False):
        return "there is no Python interpreter to test it with", False
    try:
        # -P: a torch.py in the current folder must not be imported
        command = [sys.executable, "-P", "-c", TRIAL]
        child = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as e:
        return f"a trial process did not finish: {type(e).__name__}", False
    if child.returncode == 0:
        return None, True
    if child.returncode < 0:
        killed_by = signal.Signals(-child.returncode)
        return f"a trial process was killed by {killed_by.name}", killed_by is signal.SIGILL
    return f"a trial process ended with code {child.returncode}", False


def _cache_file() -> Path | None:
    """The cache file for this processor, this torch and this boot of the machine."""
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "heedful"
    except RuntimeError:  # no home
        return None
    # subtle: two machines of one processor model can differ, and can share a home folder
    try:
        boot = BOOT_ID.read_text("utf-8").strip()
    except OSError:  # not Linux
        boot = ""
    facts = [torch.__version__, platform.processor(), platform.node(), boot]
    facts += [os.environ.get(name, "") for name in ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY")]
    return folder / f"bf16-{hashlib.blake2b(json.dumps([*facts, TRIAL]).encode(), digest_size=8).hexdigest()}.json"


def has_bf16_units() -> bool:
    """Whether the processor announces bf16 units; without them bf16 works, but is slower than float32."""
    names = ("_is_amx_tile_supported", "_is_avx512_bf16_supported")
    return any(getattr(torch.cpu, name, lambda: False)() for name in names)


def holds_bf16(model: torch.nn.Module) -> bool:
    """Whether a model would compute in bf16 on the CPU."""
    return any(p.dtype is torch.bfloat16 and p.device.type == "cpu" for p in model.parameters())


def autocast(bf16: bool) -> torch.autocast:
    """bf16 on the CPU if `bf16` is set; float32, and a warning in the log, if this machine cannot."""
    return torch.autocast("cpu", torch.bfloat16, enabled=bf16 and use_bf16())


@cache
def use_bf16() -> bool:
    """Whether bf16 can be used on this machine's CPU; if not, a warning in the log gives the reason."""
    fault = bf16_fault()
    if fault is not None:
        logging.getLogger("heedful").warning("bf16 cannot be used on this machine (%s): float32 is used.", fault)
    return fault is None
