"""A random generator derived from a key."""

from __future__ import annotations

import hashlib
import json

import torch


def seeded(*key: object) -> torch.Generator:
    """A generator that depends on the key only, on every machine: seeded(0, "a text", "lime")."""
    digest = hashlib.blake2b(json.dumps(list(key), default=str).encode("utf-8"), digest_size=8).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "little") >> 1)
