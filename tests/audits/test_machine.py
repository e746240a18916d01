"""Machines: each part says what it was computed on, and the report says where kinds were mixed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from heedful.audits.audit import audit
from heedful.audits.machine import machine, machines
from heedful.audits.result import open as open_audit
from heedful.data import Example
from heedful.report.audit import report
from tests.support import models, toys

NETWORK = models.build("bilstm", labels=2)
TEXTS = [Example(text) for text in toys.texts(40)]


def test_a_part_says_what_it_was_computed_on_and_the_page_where_kinds_were_mixed(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"methods": ["attention-mean"], "checks": ["complexity"], "out": tmp_path}
    audit(NETWORK, TEXTS, **asked)
    part = tmp_path / "parts" / "00001.timing.json"
    timing = json.loads(part.read_bytes())
    assert timing["machine"] == machine(torch.device("cpu"))
    assert "machines" not in dict(report(open_audit(tmp_path).record).facts)
    summary = (tmp_path / "summary.json").read_bytes()
    part.write_text(json.dumps(timing | {"machine": timing["machine"] | {"cpu": "Abacus", "python": "3"}}))
    audit(NETWORK, TEXTS, **asked)
    here = machine(torch.device("cpu"))
    assert (tmp_path / "summary.json").read_bytes() == summary
    assert dict(report(open_audit(tmp_path).record).facts)["machines"] == (
        "of 2 kinds, so that last digits may depend on which computed a text: "
        f"{here['cpu']}, {here['python']} (24 texts); Abacus, 3 (16 texts)"
    )


def test_kinds_are_counted_by_texts_and_older_parts_have_none() -> None:
    a, b = {"cpu": "a"}, {"cpu": "b"}
    parts: list[dict[str, Any]] = [
        {"texts": 3, "machine": a},
        {"texts": 5},
        {"texts": 4, "machine": b},
        {"texts": 2, "machine": a},
    ]
    assert machines(parts) == [{"cpu": "a", "texts": 5}, {"cpu": "b", "texts": 4}]
