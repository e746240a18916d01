"""Runs: the folder that an audit fills. Nothing is lost when it is killed, and nothing in it is half-written.

DIR/manifest.json              model, data, settings, seed, versions: what the run is of
DIR/parts/00003.texts.parquet  the texts of chunk 3 and what methods say of them
DIR/parts/00003.timing.json    seconds and bytes
DIR/parts/00003.parquet        the findings on them; moved there last, so its presence says that the chunk is finished
DIR/summary.json, timing.json  over all texts

Several processes may write into one folder. Needs no torch.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from heedful.audits import parts
from heedful.audits.manifest import Manifest, encoded, stored
from heedful.audits.parts import FINDINGS, TEXTS
from heedful.core.errors import BadInput
from heedful.core.files import leftover, pretty, probe, sorted_keys, sweep, write_errors, write_files
from heedful.core.finding import Finding

if TYPE_CHECKING:
    from heedful.data import Example, Label

CHUNK = 16  # texts; chunk c is texts [16 c, 16 (c + 1)) of the run's order, cut at the limit
MANIFEST, SUMMARY, TIMING, REPORT, PARTS = "manifest.json", "summary.json", "timing.json", "report.html", "parts"
_PART = re.compile(r"(?P<chunk>[0-9]{5,})(?P<kind>\.parquet|\.texts\.parquet|\.timing\.json)")
_KINDS = frozenset({".parquet", ".texts.parquet", ".timing.json"})


@dataclass(frozen=True)
class Run:
    """A folder and what it is a run of; made by `opened` (to write) or `opened_read`."""

    folder: Path
    manifest: Manifest

    def missing(self, total: int) -> list[tuple[int, slice]]:
        """What is still to do for so many texts: the numbers of chunks, and their slices of the order.

        A chunk that an earlier, smaller limit cut is done again as a whole; one that has more texts than asked for is
        left as it is.
        """
        have = self._finished()
        wanted = {c: slice(c * CHUNK, min(total, (c + 1) * CHUNK)) for c in range(-(-total // CHUNK))}
        return [(c, s) for c, s in wanted.items() if have.get(c, 0) < s.stop - s.start]

    def write(
        self,
        chunk: int,
        findings: Sequence[tuple[int, Finding]],
        texts: Sequence[Mapping[str, Any]],
        timing: Mapping[str, Any],
    ) -> None:
        """Store a chunk: findings with the numbers of their texts; a row as in `parts.TEXTS` for each of its texts.

        Numbers are positions in the run's order, and every text of the chunk has its row, though nothing be found on
        it: by its rows a chunk is known to be finished.
        """
        numbers = [row.get("number") for row in texts]
        if not 0 < len(numbers) <= CHUNK or numbers != list(range(chunk * CHUNK, chunk * CHUNK + len(numbers))):
            raise ValueError(f"chunk {chunk} begins with text {chunk * CHUNK} and has each of up to {CHUNK}: {numbers}")
        if strange := {n for n, _ in findings} - set(numbers):
            raise ValueError(f"texts {sorted(strange)} are not of chunk {chunk}")
        run = self.manifest.stamp
        write_files(
            {
                self._part(chunk, ".texts.parquet"): parts.texts_part(texts, run),
                self._part(chunk, ".timing.json"): pretty(timing),
                self._part(chunk, ".parquet"): parts.findings_part(findings, run, len(texts)),
            }
        )

    def findings(self, check: str | None = None, columns: Sequence[str] | None = None) -> pa.Table:
        """The findings of all finished chunks, or those of one check, in the order of chunks; see `parts.FINDINGS`."""
        return parts.joined(list(self.each(check, columns)), FINDINGS, columns)

    def each(self, check: str | None = None, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The same chunk by chunk, of which one is held at a time."""
        return (parts.read(self._part(c, ".parquet"), check, columns) for c in self._finished())

    def texts(self, columns: Sequence[str] | None = None) -> pa.Table:
        """The texts of all finished chunks, in the run's order; see `parts.TEXTS`."""
        tables = [parts.read(self._part(c, ".texts.parquet"), None, columns) for c in self._finished()]
        return parts.joined(tables, TEXTS, columns)

    def count(self) -> int:
        """How many texts are in finished chunks."""
        return sum(self._finished().values())

    def timings(self) -> list[dict[str, Any]]:
        """What was measured while each finished chunk was made."""
        return [_timing(self._part(c, ".timing.json")) for c in self._finished()]

    def finish(self, summary: Mapping[str, Any], timing: Mapping[str, Any]) -> None:
        """Store what is said over all texts, and clear up after workers that were ended."""
        for inside in (self.folder, self.folder / PARTS):
            with write_errors(inside):
                sweep(inside)
        write_files(
            {self.folder / TIMING: pretty(sorted_keys(timing)), self.folder / SUMMARY: pretty(sorted_keys(summary))}
        )

    def _part(self, chunk: int, kind: str) -> Path:
        return self.folder / PARTS / f"{chunk:05d}{kind}"

    def _finished(self) -> dict[int, int]:
        """Chunks whose three files are there and of this run, in their order, each with how many texts it has.

        Whoever is killed between the moves of a longer chunk leaves files that disagree on how many: not finished.
        """
        files = Counter(int(found["chunk"]) for found in map(_PART.fullmatch, _names(self.folder / PARTS)) if found)
        run = self.manifest.stamp
        said = {
            c: [parts.stamp(self._part(c, kind)) for kind in (".texts.parquet", ".parquet")]
            for c, n in sorted(files.items())
            if n == len(_KINDS)
        }
        return {c: a.texts for c, (a, b) in said.items() if a.run == b.run == run and a.texts == b.texts}


def opened(folder: str | Path, manifest: Manifest, restart: bool = False) -> Run:
    """The run in a folder, to go on with it or to begin it; what was a run of something else is refused.

    `restart` removes what the run in the folder has; files that are no run's are never removed.
    """
    place = Path(folder).expanduser()
    with write_errors(place):
        there = _there(place)
    if there is not None and not restart and (changed := there.differences(manifest)):
        more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
        raise BadInput(
            f"'{folder}' holds a run of something else: {', '.join(map(str, changed[:3]))}{more}; give another "
            "folder (--out), or start again (--restart)."
        )
    with write_errors(place):
        (place / PARTS).mkdir(parents=True, exist_ok=True)
        for inside in (place, place / PARTS):
            probe(inside)
            sweep(inside)
        if restart and there is not None:
            _clear(place)
    if there is None or restart:
        write_files({place / MANIFEST: encoded(manifest)})
        there = manifest
    return Run(place, there)


def opened_read(folder: str | Path) -> Run:
    """The run in a folder, to read it."""
    place = Path(folder).expanduser()
    if MANIFEST not in _names(place):
        raise BadInput(f"'{folder}' holds no run (no {MANIFEST}); give the folder that an audit wrote.")
    return Run(place, stored(place / MANIFEST))


def _there(place: Path) -> Manifest | None:
    """The manifest in a folder; None where the folder has nothing in it."""
    if place.exists() and not place.is_dir():
        raise BadInput(f"'{place}' is a file; give a folder for the run (--out).")
    if (place / MANIFEST).exists():
        return stored(place / MANIFEST)
    strange = [name for name in _names(place) if not leftover(name) and name != PARTS]
    strange += [f"{PARTS}/{name}" for name in _names(place / PARTS) if not leftover(name)]
    if strange:
        shown = ", ".join(sorted(strange)[:3]) + (" …" if len(strange) > 3 else "")
        raise BadInput(f"'{place}' holds other files than a run's ({shown}); give a new or an empty folder (--out).")
    return None


def _clear(place: Path) -> None:
    """The manifest is left, to be written over: so a folder is known for a run's at any moment."""
    for name in (SUMMARY, TIMING, REPORT):
        (place / name).unlink(missing_ok=True)
    for name in filter(_PART.fullmatch, _names(place / PARTS)):
        (place / PARTS / name).unlink(missing_ok=True)


def _names(folder: Path) -> list[str]:
    try:
        return [file.name for file in folder.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as e:
        raise BadInput(f"'{folder}' cannot be read ({e.strerror or e}); give another folder.") from e


def _timing(file: Path) -> dict[str, Any]:
    try:
        told: dict[str, Any] = json.loads(file.read_bytes())
    except (OSError, ValueError) as e:
        raise parts.damaged(file) from e
    return told


# the order of texts


def order(examples: Sequence[Example], seed: int) -> list[int]:
    """A fixed order of all examples, mixed within each label, in which the labels of every beginning are proportional.

    It depends on the seed, the texts and the labels alone; where texts are equal, on their place in the data.
    """
    labels = [_name(example.label) for example in examples]
    mixed = sorted(range(len(examples)), key=lambda i: (_chance(examples[i], seed), i))
    count, seen = Counter(labels), Counter[str | None]()
    due: list[tuple[float, int]] = []
    for place, i in enumerate(mixed):
        due.append(((seen[labels[i]] + 0.5) / count[labels[i]], place))
        seen[labels[i]] += 1
    return [mixed[place] for _, place in sorted(due)]


def _name(label: Label | None) -> str | None:
    """Several labels are one, whatever their order."""
    return label if label is None or isinstance(label, str) else ", ".join(sorted(label))


def _chance(example: Example, seed: int) -> bytes:
    key = json.dumps([seed, example.text, example.pair]).encode()
    return hashlib.blake2b(key, digest_size=16).digest()


__all__ = ["CHUNK", "FINDINGS", "TEXTS", "Manifest", "Run", "opened", "opened_read", "order"]
