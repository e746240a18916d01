"""Random: generators derived from a key or a seed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def seeded(*key: object) -> torch.Generator:
    """A generator whose seed depends on the key only, on every machine: seeded(0, "a text", "lime")."""
    digest = hashlib.blake2b(json.dumps(list(key), default=str).encode("utf-8"), digest_size=8).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "little") >> 1)


@contextmanager
def torch_seed(seed: int) -> Iterator[None]:
    """Inside, torch's global generator starts from the seed; its former state is restored afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
