"""The run folder: what is written is whole, what is resumed is the same, and what differs is named."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import random
import resource
import secrets
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heedful.audits import manifest
from heedful.audits.manifest import Manifest
from heedful.audits.parts import FINDINGS, TEXTS_SCHEMA
from heedful.audits.run import CHUNK_TEXTS, Run, open_run, order, read_run
from heedful.core import files as storing
from heedful.core.errors import BadInput
from heedful.core.finding import Finding
from heedful.data import Example
from tests.support.patience import PATIENCE_SECONDS

MANIFEST = Manifest(
    model={"name": "bert", "fingerprint": "ab12" * 8, "labels": ["no", "yes"]},
    data={"name": "a.csv", "fingerprint": "cd34" * 8, "texts": 100},
    settings={
        "methods": {"ig": {"steps": 64}, "random": {}},
        "checks": {"permutation": {"draws": 100}},
        "profile": "standard",
    },
    seed=0,
    versions={"torch": "2.13.0", "heedful": "0.1.0"},
)


def part_name(name: str, pid: int, host: str = storing.HOST) -> str:
    """The temporary name of a file that a process writes."""
    return f".{name}.{host}.{pid}.{'0' * 16}.part"


def row(number: int, **other: Any) -> dict[str, Any]:
    return {
        "number": number,
        "index": 1000 - number,
        "text": f"text {number} ü",
        "pair": None,
        "label": "yes",
        "predicted": "no",
        "probabilities": [0.1, 0.9],
        "pieces": ["[CLS]", "text"],
        "starts": [-1, 0],
        "ends": [-1, 4],
        "segments": [0, 0],
        "scores": [{"method": "ig", "scores": [0.5, -0.25], "signed": True}],
        **other,
    }


def some(numbers: range, each: int = 3) -> list[tuple[int, Finding]]:
    """Findings of two checks, in no order."""
    made = [
        (n, Finding(check, "ig", f"m{k}", n + k / 7, {"head": k, "layer": 1}, {"order": [n, k]} if k else {}))
        for n in numbers
        for check in ("zeta", "alpha")
        for k in range(each)
    ]
    return random.Random(0).sample(made, len(made))


def fill(run: Run, total: int) -> Run:
    for chunk, s in run.missing(total):
        numbers = range(s.start, s.stop)
        run.write(chunk, some(numbers), [row(n) for n in numbers], {"texts": len(numbers)})
    return run


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return open_run(tmp_path / "run", MANIFEST)


# what is written is what is read


def test_findings_come_back_as_they_were(run: Run) -> None:
    given = some(range(5))
    run.write(0, given, [row(n) for n in range(5)], {})
    found = [
        (r["text"], r["check"], r["method"], r["measure"], r["at"], r["value"], json.loads(r["details"] or "{}"))
        for r in run.findings().to_pylist()
    ]
    twin = [(n, f.check, f.method, f.measure, f.place, f.value, dict(f.details)) for n, f in given]
    assert found == sorted(twin, key=lambda r: (*r[1:5], r[0]))


def test_the_columns_of_findings_are_those_that_were_promised(run: Run) -> None:
    assert fill(run, 3).findings().schema == FINDINGS


def test_an_empty_run_has_tables_with_no_rows(run: Run) -> None:
    assert run.findings().schema == FINDINGS
    assert run.texts().schema == TEXTS_SCHEMA
    assert run.timings() == []


def test_texts_come_back_as_they_were(run: Run) -> None:
    given = [row(0), row(1, pair="b", label=None), row(2, predicted=None, probabilities=[], scores=[], segments=None)]
    run.write(0, [], given, {})
    assert run.texts().to_pylist() == given


def test_scores_are_stored_with_seven_digits(run: Run) -> None:
    run.write(0, [], [row(0, scores=[{"method": "ig", "scores": [1 / 3], "signed": False}])], {})
    assert run.texts().to_pylist()[0]["scores"][0]["scores"] == [float(np.float32(1 / 3))]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -0.0, 5e-324, 0.1 + 0.2])
def test_values_keep_every_bit(run: Run, value: float) -> None:
    run.write(0, [(0, Finding("c", "", "m", value))], [row(0)], {})
    column = run.findings().column("value")
    assert column.null_count == 0
    assert column.to_numpy().tobytes() == np.array([value]).tobytes()


def test_no_place_and_no_details_are_empty_and_null(run: Run) -> None:
    run.write(0, [(0, Finding("c", "", "m", 1.0))], [row(0)], {})
    (found,) = run.findings().to_pylist()
    assert (found["method"], found["at"], found["details"]) == ("", "", None)


def test_places_that_python_holds_equal_are_kept_apart(run: Run) -> None:
    run.write(0, [(0, Finding("c", "", "m", 1.0, {"k": k})) for k in (1, 1.0, "1")], [row(0)], {})
    assert run.findings().column("at").to_pylist() == ['{"k":"1"}', '{"k":1.0}', '{"k":1}']


def test_details_may_hold_arrays_and_numbers_that_do_not_exist(run: Run) -> None:
    details = {"a": np.array([1.0, np.nan]), "b": math.inf, "c": np.int64(3), "d": ("ü",)}
    run.write(0, [(0, Finding("c", "", "m", 1.0, {}, details))], [row(0)], {})
    assert run.findings().column("details").to_pylist() == ['{"a":[1.0,null],"b":null,"c":3,"d":["ü"]}']


def test_one_check_is_the_rows_of_that_check(run: Run) -> None:
    fill(run, 40)
    everything = run.findings()
    twin = [r for r in everything.to_pylist() if r["check"] == "zeta"]
    assert run.findings("zeta").to_pylist() == twin
    assert len(twin) == 40 * 3


def test_a_check_that_is_not_there_has_no_rows(run: Run) -> None:
    assert fill(run, 3).findings("beta").num_rows == 0


def test_one_check_is_read_without_the_pages_of_another(run: Run) -> None:
    fill(run, 3)
    file = run.folder / "parts" / "00000.parquet"
    group = pq.ParquetFile(file).metadata.row_group(0)
    content = bytearray(file.read_bytes())
    for i in range(group.num_columns):
        start = group.column(i).dictionary_page_offset or group.column(i).data_page_offset
        content[start : start + group.column(i).total_compressed_size] = bytes(group.column(i).total_compressed_size)
    file.write_bytes(content)
    assert run.findings("zeta").num_rows == 9
    with pytest.raises(BadInput, match="damaged"):
        run.findings("alpha")


def test_only_the_columns_asked_for_are_read(run: Run) -> None:
    fill(run, 20)
    assert run.findings("zeta", ["text", "value"]).column_names == ["text", "value"]
    assert run.texts(["number"]).to_pydict() == {"number": list(range(20))}


def test_chunks_are_read_in_their_order_and_share_their_names(run: Run) -> None:
    for chunk in (2, 0, 1):
        run.write(
            chunk, [(chunk * CHUNK_TEXTS, Finding(f"c{chunk}", "", "m", 1.0))], [row(chunk * CHUNK_TEXTS)], {"n": chunk}
        )
    found = run.findings()
    assert found.column("text").to_pylist() == [0, 16, 32]
    assert len({c.dictionary.to_pylist().__repr__() for c in found.column("check").chunks}) == 1
    assert run.timings() == [{"n": 0}, {"n": 1}, {"n": 2}]


def test_many_findings_are_grouped_by_check(run: Run) -> None:
    run.write(0, some(range(16), each=100), [row(n) for n in range(16)], {})
    part = pq.ParquetFile(run.folder / "parts" / "00000.parquet").metadata
    groups = [part.row_group(i).column(1).statistics for i in range(part.num_row_groups)]
    assert [(s.min, s.max) for s in groups] == [("alpha", "alpha"), ("zeta", "zeta")]


def test_the_order_in_which_findings_are_given_does_not_change_a_byte(tmp_path: Path) -> None:
    rows = [row(n) for n in range(16)]
    given = some(range(16))
    made = []
    for i, findings in enumerate((given, given[::-1])):
        run = open_run(tmp_path / str(i), MANIFEST)
        run.write(0, findings, rows, {"seconds": 1.5})
        made.append(contents(run.folder))
    assert made[0] == made[1]


@pytest.mark.parametrize("strange", [{"other": 1}, {"text": ...}])
def test_a_text_with_other_keys_is_refused(run: Run, strange: dict[str, Any]) -> None:
    made = {k: v for k, v in row(0, **strange).items() if v is not ...}
    with pytest.raises(ValueError, match=next(iter(strange))):
        run.write(0, [], [made], {})
    assert list((run.folder / "parts").iterdir()) == []


@pytest.mark.parametrize(("chunk", "numbers"), [(0, [1, 2]), (1, [0]), (0, [0, 2]), (0, []), (0, list(range(17)))])
def test_a_chunk_is_the_texts_of_its_place(run: Run, chunk: int, numbers: list[int]) -> None:
    with pytest.raises(ValueError, match=f"chunk {chunk} has the texts"):
        run.write(chunk, [], [row(n) for n in numbers], {})


def test_a_finding_on_a_text_of_another_chunk_is_refused(run: Run) -> None:
    with pytest.raises(ValueError, match=r"texts \[3\] are not in chunk 0"):
        run.write(0, [(3, Finding("c", "", "m", 1.0))], [row(0)], {})


# what is missing


def test_a_new_run_misses_every_chunk(run: Run) -> None:
    assert run.missing(40) == [(0, slice(0, 16)), (1, slice(16, 32)), (2, slice(32, 40))]


@pytest.mark.parametrize("total", [0, 1, 15, 16, 17, 32])
def test_nothing_is_missing_when_all_is_done(run: Run, total: int) -> None:
    assert fill(run, total).missing(total) == []
    assert run.texts().column("number").to_pylist() == list(range(total))


def test_a_chunk_that_was_cut_is_missing_for_a_larger_limit(run: Run) -> None:
    assert fill(run, 28).missing(40) == [(1, slice(16, 32)), (2, slice(32, 40))]


def test_a_chunk_that_was_looked_at_and_grew_is_finished(run: Run) -> None:
    assert fill(run, 12).missing(12) == []
    assert fill(run, 16).missing(16) == []


def test_a_smaller_limit_leaves_the_run_as_it_is(run: Run) -> None:
    fill(run, 40)
    before = contents(run.folder)
    assert run.missing(20) == []
    assert contents(fill(run, 20).folder) == before


def test_a_run_that_grew_has_the_bytes_of_one_that_did_not(tmp_path: Path) -> None:
    grown = open_run(tmp_path / "a", MANIFEST)
    for total in (1, 12, 16, 30, 40):
        fill(open_run(tmp_path / "a", MANIFEST), total)
    assert contents(grown.folder) == contents(fill(open_run(tmp_path / "b", MANIFEST), 40).folder)


@pytest.mark.parametrize("kind", ["parquet", "texts.parquet", "timing.json"])
def test_a_chunk_of_which_a_file_was_deleted_is_missing(run: Run, kind: str) -> None:
    fill(run, 32)
    (run.folder / "parts" / f"00001.{kind}").unlink()
    assert run.missing(32) == [(1, slice(16, 32))]
    assert run.texts().num_rows == 16
    assert set(run.findings().column("text").to_pylist()) == set(range(16))


def test_parts_of_another_run_are_not_of_this_one(tmp_path: Path, run: Run) -> None:
    other = fill(open_run(tmp_path / "other", replace(MANIFEST, seed=1)), 16)
    for file in (other.folder / "parts").iterdir():
        (run.folder / "parts" / file.name).write_bytes(file.read_bytes())
    assert run.missing(16) == [(0, slice(0, 16))]
    assert run.findings().num_rows == 0


# damage


@pytest.mark.parametrize("kind", ["parquet", "texts.parquet", "timing.json"])
@pytest.mark.parametrize("left", [0, 3, 40])
def test_a_part_that_was_cut_off_is_named(run: Run, kind: str, left: int) -> None:
    fill(run, 32)
    file = run.folder / "parts" / f"00001.{kind}"
    file.write_bytes((b"{" if kind == "timing.json" else file.read_bytes())[:left])
    with pytest.raises(BadInput) as told:
        run.findings(), run.texts(), run.timings()
    assert str(told.value) == f"'{file}' is damaged and cannot be read; delete it and repeat the command."


def test_a_part_that_was_deleted_as_told_is_made_again(run: Run) -> None:
    fill(run, 32)
    before = contents(run.folder)
    file = run.folder / "parts" / "00001.parquet"
    file.write_bytes(b"PAR1")
    with pytest.raises(BadInput):
        run.missing(32)
    file.unlink()
    assert contents(fill(run, 32).folder) == before


def test_no_flipped_bit_becomes_another_number(run: Run) -> None:
    fill(run, 2)
    file = run.folder / "parts" / "00000.parquet"
    content, good = file.read_bytes(), run.findings()
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    wrong = 0
    for i in range(4, footer, 17):
        file.write_bytes(content[:i] + bytes([content[i] ^ 4]) + content[i + 1 :])
        try:
            wrong += not run.findings().equals(good)
        except BadInput:
            continue
    assert wrong == 0


def test_a_foreign_parquet_in_the_place_of_a_part_is_damage(run: Run) -> None:
    fill(run, 2)
    pq.write_table(pa.table({"a": [1]}), run.folder / "parts" / "00000.parquet")
    with pytest.raises(BadInput, match=r"00000\.parquet' is damaged"):
        run.missing(2)


# writing whole or not at all


def _full(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _interrupted(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_is_told_and_leaves_what_was_there(run: Run, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    fill(run, 12)
    before = contents(run.folder)
    with monkeypatch.context() as patch:
        patch.setattr(os, call, _full)
        with pytest.raises(BadInput) as told:
            fill(run, 16)
    assert str(told.value) == (
        f"'{run.folder / 'parts' / '00000.texts.parquet'}' cannot be written (No space left on device); "
        "free disk space and run the command again."
    )
    assert contents(run.folder) == before


@pytest.mark.parametrize("name", ["00000.texts.parquet", "00000.timing.json", "00000.parquet"])
def test_a_link_under_a_temporary_name_is_not_followed(
    run: Run, name: str, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if somebody guessed the name."""
    fill(run, 12)
    monkeypatch.setattr(secrets, "token_hex", lambda n: "0" * 2 * n)
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "file"
    (run.folder / "parts" / part_name(name, os.getpid())).symlink_to(elsewhere)
    before = contents(run.folder)
    with pytest.raises(BadInput, match=rf"{name}' cannot be written \(File exists\)"):
        fill(run, 16)
    assert contents(run.folder) == before
    assert not elsewhere.exists()


def test_a_write_that_the_system_cuts_short_leaves_what_was_there(run: Run) -> None:
    fill(run, 12)
    before = contents(run.folder)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, limits[1]))
    try:
        with pytest.raises(BadInput, match=r"cannot be written \(File too large\); choose another path"):
            fill(run, 16)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert contents(run.folder) == before


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A run of 30 texts that nobody interrupted."""
    return contents(fill(open_run(tmp_path_factory.mktemp("whole"), MANIFEST), 30).folder)


@pytest.mark.parametrize("calls", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_an_interrupt_at_any_step_leaves_a_run_that_goes_on(
    run: Run, monkeypatch: pytest.MonkeyPatch, call: str, calls: int, whole: dict[str, bytes]
) -> None:
    """Before the last move the chunk is the old one or not finished; it is never a mixture."""
    fill(run, 12)
    old, done = run.findings(), iter(range(1, calls))
    original = getattr(os, call)
    with monkeypatch.context() as patch:
        patch.setattr(os, call, lambda *a: original(*a) if next(done, None) else _interrupted())
        with pytest.raises(KeyboardInterrupt):
            fill(run, 30)
    first = run.findings().filter(pa.compute.less(run.findings().column("text"), 16))
    assert first.num_rows in (0, 16 * 6) or first.equals(old)
    assert not any(storing.leftover(p.name) for p in (run.folder / "parts").iterdir())
    assert contents(fill(run, 30).folder) == whole


def test_an_interrupted_summary_leaves_the_old_one(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run.finish({"a": 1}, {"s": 1})
    before = contents(run.folder)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            run.finish({"a": 2}, {"s": 2})
    assert contents(run.folder) == before


KILLED = """
import itertools, os, random, signal, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from heedful.audits import parts
from tests.audits.test_run import MANIFEST, fill, open_run, row

def look_and_write(folder):
    run = open_run(folder, MANIFEST)
    rows = run.findings().num_rows, run.texts().num_rows, len(run.timings())  # raises where a part is damaged
    assert rows[0] == 6 * rows[1]
    for total in range(1, 100):
        fill(run, total)

parts.texts_part([row(0)], parts.chunk_stamp("", 0, [row(0)]))  # what is slow the first time
chance, folder, killed, left = random.Random(7), Path(sys.argv[1]), 0, 0
for again in itertools.count(1):
    child = os.fork()
    if not child:
        try:
            look_and_write(folder)
        except BaseException as e:
            print(repr(e), flush=True)
            os._exit(3)
        os._exit(0)
    time.sleep(chance.random() * 0.02 * again)  # longer and longer, so that a slow machine comes to an end, too
    os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    killed += os.WIFSIGNALED(status)
    left += len(list(folder.rglob(f".*.{child}.*.part"))) > 0
    if (folder / "parts" / "00001.parquet").exists() and (killed >= 12 or not os.WIFSIGNALED(status)):
        break
print(killed, "killed,", left, "while writing")
"""


def test_whoever_is_killed_leaves_parts_that_parse_and_a_run_that_goes_on(tmp_path: Path) -> None:
    quiet = "ignore:This process:DeprecationWarning"  # of a fork beside other threads, from Python 3.12
    script = [sys.executable, "-W", quiet, "-c", KILLED, str(tmp_path / "killed"), str(Path(__file__).parents[2])]
    done = subprocess.run(script, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert int(done.stdout.split()[0]) >= 5
    resumed = fill(open_run(tmp_path / "killed", MANIFEST), 99)
    assert contents(resumed.folder) == contents(fill(open_run(tmp_path / "whole", MANIFEST), 99).folder)


# opening


def test_parents_are_made(tmp_path: Path) -> None:
    assert open_run(tmp_path / "a" / "b", MANIFEST).missing(1) == [(0, slice(0, 1))]


def test_an_equal_run_is_resumed(run: Run) -> None:
    fill(run, 20)
    assert open_run(run.folder, MANIFEST).missing(32) == [(1, slice(16, 32))]


def test_a_run_is_resumed_after_the_manifest_went_through_json(tmp_path: Path) -> None:
    odd = replace(MANIFEST, settings={"methods": {"ig": {"at": (1, 2), "x": np.float32(0.1), "nan": math.nan}}})
    open_run(tmp_path, odd)
    assert open_run(tmp_path, odd).manifest.stamp == odd.stamp


def test_a_file_that_was_renamed_is_resumed_under_its_old_name(run: Run) -> None:
    moved = replace(MANIFEST, model={**MANIFEST.model, "name": "moved"}, data={**MANIFEST.data, "name": "b.csv"})
    fill(run, 16)
    assert open_run(run.folder, moved).missing(16) == []
    assert read_run(run.folder).manifest.model["name"] == "bert"


def test_a_run_of_something_else_is_refused_and_says_what(run: Run) -> None:
    fill(run, 3)
    before = contents(run.folder)
    other = {"methods": {"ig": {"steps": 32}, "lime": {}}, "checks": {"permutation": {"draws": 50}}, "x": 1}
    with pytest.raises(BadInput) as told:
        open_run(run.folder, replace(MANIFEST, settings=other, seed=1))
    assert str(told.value) == (
        f"'{run.folder}' holds a different run: setting methods.ig.steps (64 then, 32 now), method random is "
        "gone, setting profile (standard then, absent now) and 2 more; give another folder (--out), or delete that run "
        "(--restart)."
    )
    assert contents(run.folder) == before


def test_a_restart_removes_the_run_and_nothing_else(run: Run) -> None:
    fill(run, 20).finish({}, {})
    for name in ("report.html", "notes.txt", "parts/mine.parquet"):
        (run.folder / name).write_text("x", "utf-8")
    open_run(run.folder, replace(MANIFEST, seed=1), restart=True)
    assert sorted(contents(run.folder)) == ["manifest.json", "notes.txt", "parts/mine.parquet"]
    assert read_run(run.folder).manifest.seed == 1


def test_a_restart_of_nothing_is_a_start(tmp_path: Path) -> None:
    assert open_run(tmp_path / "new", MANIFEST, restart=True).manifest is MANIFEST


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("name", ["notes.txt", "parts/00000.parquet", "summary.json", ".hidden"])
def test_a_folder_with_other_files_is_refused_and_kept(tmp_path: Path, name: str, restart: bool) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine", "utf-8")
    with pytest.raises(BadInput) as told:
        open_run(tmp_path, MANIFEST, restart)
    assert str(told.value) == (
        f"'{tmp_path}' holds files that are not a run's ({name}); give a new or empty folder (--out)."
    )
    assert contents(tmp_path) == {name: b"mine"}


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("content", ['{"name": "my extension"}', "[]", "{", "\xff", '{"format": "heedful run 3"}'])
def test_a_manifest_of_something_else_is_refused_and_kept(tmp_path: Path, content: str, restart: bool) -> None:
    (tmp_path / "manifest.json").write_text(content, "latin-1")
    with pytest.raises(BadInput, match=r"manifest\.json' is not the manifest of a run"):
        open_run(tmp_path, MANIFEST, restart)
    assert contents(tmp_path) == {"manifest.json": content.encode("latin-1")}


def test_a_run_of_a_later_version_is_refused(run: Run) -> None:
    told = json.loads((run.folder / "manifest.json").read_bytes()) | {"format": "heedful run 1"}
    (run.folder / "manifest.json").write_text(json.dumps(told), "utf-8")
    with pytest.raises(
        BadInput,
        match=r"has the format 'heedful run 1' of another version of heedful, not 'heedful run 3'; run the command",
    ):
        open_run(run.folder, MANIFEST)


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine", "utf-8")
    with pytest.raises(BadInput, match="file' is a file; give a folder"):
        open_run(tmp_path / "file", MANIFEST)


def test_a_file_among_the_parents_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine", "utf-8")
    with pytest.raises(BadInput, match=r"inner' cannot be written \(Not a directory\); choose another path"):
        open_run(tmp_path / "file" / "inner", MANIFEST)


def test_a_name_that_is_too_long_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="name too long"):
        open_run(tmp_path / ("x" * 300), MANIFEST)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
@pytest.mark.parametrize("inside", [".", "parts"])
def test_a_run_that_cannot_be_written_is_refused_at_once(run: Run, inside: str) -> None:
    folder = run.folder / inside
    folder.chmod(0o555)
    try:
        with pytest.raises(BadInput, match=r"cannot be written \(Permission denied\); choose another path"):
            open_run(run.folder, MANIFEST)
    finally:
        folder.chmod(0o755)


def test_a_read_only_file_system_is_refused_at_once(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(*_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(storing, "_new_part", read_only)
    with pytest.raises(BadInput, match=r"cannot be written \(Read-only file system\); choose another path"):
        open_run(run.folder, MANIFEST)


@pytest.fixture
def dead() -> int:
    """The number of a process that is no more."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait(timeout=PATIENCE_SECONDS)
    return process.pid


@pytest.fixture
def alive() -> Iterator[int]:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process.pid
    process.communicate(b"\n", timeout=PATIENCE_SECONDS)


def test_what_killed_processes_left_is_removed_and_what_others_write_is_not(run: Run, dead: int, alive: int) -> None:
    pids = (dead, alive, os.getpid())
    names = [f"{where}{part_name('00000.parquet', pid)}" for where in ("", "parts/") for pid in pids]
    for name in (*names, "parts/.mine.part"):
        (run.folder / name).write_bytes(b"half")
    open_run(run.folder, MANIFEST)
    left = {name for name in contents(run.folder) if name.endswith(".part")}
    assert left == {name for name in names if f".{dead}." not in name} | {"parts/.mine.part"}


def test_a_folder_with_nothing_but_leftovers_is_as_good_as_empty(tmp_path: Path, dead: int) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / part_name("manifest.json", dead)).write_bytes(b"{")
    open_run(tmp_path, MANIFEST)
    assert list(contents(tmp_path)) == ["manifest.json"]


def test_the_process_of_another_user_lives(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def forbidden(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", forbidden)
    file = tmp_path / part_name("a", 1)
    file.touch()
    storing.sweep(tmp_path)
    assert file.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux numbers its boots and namespaces")
def test_machines_and_containers_of_one_name_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    assert storing._host() == storing.HOST
    with monkeypatch.context() as patch:  # another container here
        patch.setattr(Path, "readlink", lambda _: "pid:[42]")
        container = storing._host()
    with monkeypatch.context() as patch:  # another machine, or this one before it was started again
        patch.setattr(Path, "read_text", lambda *_: "00000000-0000-0000-0000-000000000000")
        other = storing._host()
    assert len({storing.HOST, container, other}) == 3
    assert {name.rpartition("-")[0] for name in (container, other)} == {storing.HOST.rpartition("-")[0]}


@pytest.mark.parametrize("host", ["another-host", storing.HOST.rpartition("-")[0] + "-00000000"])
def test_what_another_machine_writes_is_left_for_a_day(tmp_path: Path, dead: int, host: str) -> None:
    file = tmp_path / part_name("a", dead, host)
    file.touch()
    storing.sweep(tmp_path)
    assert file.exists()
    os.utime(file, (0, time.time() - storing.ABANDONED_SECONDS - 60))
    storing.sweep(tmp_path)
    assert not file.exists()


@pytest.mark.parametrize("kinds", [(".parquet", ".texts.parquet", ".timing.json"), (".parquet",), (".texts.parquet",)])
def test_a_part_of_another_chunk_is_computed_again(run: Run, kinds: tuple[str, ...]) -> None:
    fill(run, 48)
    before = contents(run.folder)
    for kind in kinds:
        shutil.copy(run.folder / "parts" / f"00000{kind}", run.folder / "parts" / f"00002{kind}")
    assert run.missing(48) == [(2, slice(32, 48))]
    assert run.count() == 32
    fill(run, 48)
    assert contents(run.folder) == before


def test_two_processes_may_write_the_same_chunk(run: Run) -> None:
    fill(run, 16)
    before = contents(run.folder)
    run.write(0, some(range(16)), [row(n) for n in range(16)], {"texts": 16})
    assert contents(run.folder) == before


def test_reading_a_run_does_not_change_it(run: Run, dead: int) -> None:
    fill(run, 20)
    (run.folder / part_name("x", dead)).touch()
    before = contents(run.folder)
    assert read_run(str(run.folder)).findings().equals(run.findings())
    assert contents(run.folder) == before


@pytest.mark.parametrize("name", ["", "absent"])
def test_a_folder_without_a_run_cannot_be_read(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadInput) as told:
        read_run(tmp_path / name)
    assert str(told.value) == (
        f"'{tmp_path / name}' holds no run (no manifest.json); give the folder that an audit wrote."
    )


# manifests


def test_a_manifest_comes_back_as_it_was() -> None:
    assert Manifest.from_dict(json.loads(json.dumps(MANIFEST.to_dict()))) == MANIFEST


def changed(**fields: Any) -> list[str]:
    return list(map(str, MANIFEST.differences(replace(MANIFEST, **fields))))


def test_a_run_does_not_differ_from_itself() -> None:
    assert changed() == []


DIFFERENCES: list[tuple[dict[str, Any], list[str]]] = [
    ({"seed": 1}, ["the seed (0 then, 1 now)"]),
    ({"versions": {"torch": "2.14.0", "heedful": "0.1.0"}}, ["torch (2.13.0 then, 2.14.0 now)"]),
    ({"versions": {"torch": "2.13.0"}}, ["heedful (0.1.0 then, absent now)"]),
    (
        {"model": {**MANIFEST.model, "fingerprint": "cd34" * 8}},
        ["the model's weights (fingerprint ab12ab12… then, cd34cd34… now)"],
    ),
    (
        {"model": {**MANIFEST.model, "fingerprint": "cd34" * 8, "name": "tiny"}},
        ["the model's weights (fingerprint ab12ab12… then, cd34cd34… now)", "the model's name (bert then, tiny now)"],
    ),
    ({"model": {**MANIFEST.model, "labels": ["a", "b"]}}, ['the model\'s labels (["no","yes"] then, ["a","b"] now)']),
    ({"model": {**MANIFEST.model, "name": "moved"}}, []),
    (
        {"data": {**MANIFEST.data, "fingerprint": "ef", "texts": 90}},
        ["the data file (fingerprint cd34cd34… then, ef now)", "the data's texts (100 then, 90 now)"],
    ),
    ({"settings": {**MANIFEST.settings, "profile": "full"}}, ["setting profile (standard then, full now)"]),
    ({"settings": {**MANIFEST.settings, "target": {"k": None}}}, ['setting target (absent then, {"k":null} now)']),
    (
        {"settings": {**MANIFEST.settings, "checks": {"permutation": {"draws": 50}}}},
        ["setting checks.permutation.draws (100 then, 50 now)"],
    ),
    (
        {"settings": {**MANIFEST.settings, "checks": {"permutation": {"draws": 100, "a.b": {"c": 1}}}}},
        ['setting checks.permutation.a.b (absent then, {"c":1} now)'],
    ),
    (
        {"settings": {**MANIFEST.settings, "methods": {"lime": {}, "random": {}}}},
        ["method ig is gone", "method lime is new"],
    ),
    ({"settings": {**MANIFEST.settings, "checks": {}}}, ["check permutation is gone"]),
]


@pytest.mark.parametrize(("fields", "told"), DIFFERENCES, ids=[str(i) for i in range(len(DIFFERENCES))])
def test_what_differs_is_named_to_the_leaf(fields: dict[str, Any], told: list[str]) -> None:
    assert changed(**fields) == told


@pytest.mark.parametrize(("fields", "told"), DIFFERENCES, ids=[str(i) for i in range(len(DIFFERENCES))])
def test_the_stamp_differs_where_the_runs_differ(fields: dict[str, Any], told: list[str]) -> None:
    assert (replace(MANIFEST, **fields).stamp != MANIFEST.stamp) is bool(told)


def test_methods_may_be_a_list_of_names() -> None:
    then = replace(MANIFEST, settings={"methods": ["ig", "lime"]})
    (change,) = then.differences(replace(MANIFEST, settings={"methods": ["lime", "ig", "random"]}))
    assert (change.path, change.one_sided, change.now) == (("settings", "methods", "random"), True, {})
    assert then.differences(replace(MANIFEST, settings={"methods": ["lime", "ig"]})) == []


def test_a_long_value_is_cut() -> None:
    (told,) = changed(settings={**MANIFEST.settings, "profile": "x" * 500})
    assert told == f"setting profile (standard then, {'x' * 59}… now)"


def test_the_file_of_a_manifest_is_its_dictionary(run: Run) -> None:
    assert json.loads((run.folder / "manifest.json").read_bytes()) == {
        "format": manifest.RUN_FORMAT,
        **MANIFEST.to_dict(),
    }


# the summary


def test_a_summary_is_json_with_null_for_what_does_not_exist(run: Run) -> None:
    run.finish({"b": [1, math.nan], "a": {"x": 0.1 + 0.2, "ü": None, 3: True}}, {"s": np.float64(1.5)})
    said = (run.folder / "summary.json").read_bytes().decode("utf-8")
    assert said == '{"a": {"3": true, "x": 0.30000000000000004, "ü": null}, "b": [1, null]}\n'
    assert (run.folder / "timing.json").read_bytes() == b'{"s": 1.5}\n'


def test_equal_summaries_are_equal_bytes(run: Run) -> None:
    run.finish({"a": 1, "b": {"c": (1, 2), "d": 2}}, {})
    first = contents(run.folder)
    run.finish({"b": {"d": 2, "c": [1, 2]}, "a": 1}, {})
    assert contents(run.folder) == first


def test_the_end_of_a_run_clears_up_after_workers(run: Run, dead: int) -> None:
    (run.folder / "parts" / part_name("00000.parquet", dead)).touch()
    run.finish({}, {})
    assert sorted(contents(run.folder)) == ["manifest.json", "summary.json", "timing.json"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=60), inner, max_size=5),
    max_leaves=30,
).filter(lambda value: "\\ud" not in json.dumps(value))


@settings(max_examples=40)
@given(JSON)
def test_pretty_json_says_the_same(value: Any) -> None:
    assert json.loads(storing.pretty(value)) == value


@settings(max_examples=40)
@given(JSON)
def test_compact_json_says_the_same(value: Any) -> None:
    assert json.loads(storing.compact(value)) == value


def test_pretty_lines_are_short_where_they_can_be() -> None:
    lines = storing.pretty({"a": list(range(100)), "b": {str(i): [i] * 3 for i in range(50)}}).decode().splitlines()
    assert max(map(len, lines)) <= storing.JSON_WIDTH
    assert ' "b": {' in lines
    assert '  "7": [7, 7, 7],' in lines


# the order of texts


def examples(counts: dict[str | tuple[str, ...] | None, int]) -> list[Example]:
    made = [Example(f"{label} {i}", label=label) for label, count in counts.items() for i in range(count)]
    return random.Random(3).sample(made, len(made))


def twin(given: list[Example], seed: int) -> list[int]:
    """Slower and more obvious: of every label its next text, at the middle of its share."""

    def key(i: int) -> tuple[str, int]:
        said = json.dumps([seed, given[i].text, given[i].pair])
        return hashlib.blake2b(said.encode(), digest_size=16).hexdigest(), i

    placed = []
    for i, example in enumerate(given):
        same = sorted((j for j, other in enumerate(given) if other.label == example.label), key=key)
        placed.append(((2 * same.index(i) + 1) / (2 * len(same)), key(i), i))
    return [i for *_, i in sorted(placed)]


COUNTS: list[dict[str | tuple[str, ...] | None, int]] = [
    {"a": 60, "b": 60},
    {"a": 150, "b": 10},
    {"a": 100, "b": 30, "c": 7, None: 12},
    {str(k): 20 for k in range(10)},
    {("a", "b"): 30, ("a",): 30, "c": 5},
    {None: 40},
    {"a": 1},
]


@pytest.mark.parametrize("counts", COUNTS)
def test_the_order_is_that_of_a_slower_twin(counts: dict[Any, int]) -> None:
    given = examples(counts)
    assert order(given, 5) == twin(given, 5)


@pytest.mark.parametrize("counts", COUNTS)
def test_every_beginning_is_proportional(counts: dict[Any, int]) -> None:
    given = examples(counts)
    at, total = order(given, 0), len(given)
    off = [
        abs(Counter(given[i].label for i in at[:n])[label] - n * count / total)
        for n in range(20, total + 1)
        for label, count in counts.items()
    ]
    assert max(off, default=0) <= 1.5


def test_every_text_is_there_once() -> None:
    given = examples(COUNTS[2])
    assert sorted(order(given, 0)) == list(range(len(given)))


def test_no_texts_have_no_order() -> None:
    assert order([], 0) == []


def test_another_seed_is_another_order() -> None:
    given = examples(COUNTS[0])
    assert order(given, 0) != order(given, 1)


def test_equal_texts_are_in_the_order_of_the_data() -> None:
    assert order([Example("same")] * 5, 0) == [0, 1, 2, 3, 4]


def test_the_place_of_a_text_in_the_data_does_not_matter() -> None:
    given = examples(COUNTS[2])
    turned = given[::-1]
    assert [given[i].text for i in order(given, 0)] == [turned[i].text for i in order(turned, 0)]


def test_the_names_of_labels_do_not_matter() -> None:
    given = examples(COUNTS[1])
    other = [replace(e, label={"a": "z", "b": "y"}[str(e.label)]) for e in given]
    assert order(given, 0) == order(other, 0)


def test_a_pair_is_part_of_a_text() -> None:
    given = [Example("premise", f"hypothesis {i}") for i in range(40)]
    assert order(given, 0) == twin(given, 0) != list(range(40))


def test_several_labels_are_one_whatever_their_order() -> None:
    given = [Example(f"{i}", label=("a", "b") if i % 2 else ("b", "a")) for i in range(30)]
    assert order(given, 0) == order([replace(e, label=None) for e in given], 0)


def test_the_order_does_not_depend_on_pythons_hashes() -> None:
    code = (
        "from heedful.data import Example; from heedful.audits.run import order;"
        "print(order([Example(f't{i}', label='abc'[i % 3]) for i in range(30)], 0))"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": "1"}, capture_output=True, check=True,
        timeout=PATIENCE_SECONDS,
    )  # fmt: skip
    assert json.loads(told.stdout) == order([Example(f"t{i}", label="abc"[i % 3]) for i in range(30)], 0)
