"""Runs: the folder that an audit writes. A killed audit loses at most a chunk and leaves no half-written file.

DIR/manifest.json              model, data, settings, seed, versions
DIR/parts/00003.texts.parquet  the texts of chunk 3, with the scores of every method
DIR/parts/00003.timing.json    seconds and bytes
DIR/parts/00003.parquet        the findings on them; moved there last: it marks the chunk as finished
DIR/summary.json, timing.json  over all texts; DIR/report.html: the report
DIR/shares/3-of-8              an empty file: share 3 of 8 was started

Several processes may write into one folder. It may be in an object store (s3://bucket/folder). Needs no torch.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from heedful.audits import parts
from heedful.audits.manifest import EXPLAIN, Manifest, encode_manifest, read_manifest, refuse_changes, refuse_files
from heedful.audits.parts import FINDINGS, TEXTS_SCHEMA, FindingRow, Stamp
from heedful.core.errors import BadInput
from heedful.core.files import leftover, pretty, probe, sorted_keys, sweep, write_errors, write_files, write_new
from heedful.core.finding import Finding
from heedful.core.objects import place_of

if TYPE_CHECKING:
    from heedful.data import Example

CHUNK_TEXTS = 16  # texts; chunk c is texts [16 c, 16 (c + 1)) of the run's order, cut at the limit
GROUP_TEXTS = 4  # texts of a chunk that are computed together; batches never cross a group
MANIFEST, SUMMARY, TIMING, REPORT, PARTS = "manifest.json", "summary.json", "timing.json", "report.html", "parts"
SHARES = "shares"
KINDS = (".parquet", ".texts.parquet", ".timing.json")  # the files of a chunk; without the first it is not finished
_PART = re.compile(r"(?P<chunk>[0-9]{5,})(?P<kind>\.parquet|\.texts\.parquet|\.timing\.json)")


@dataclass(frozen=True)
class Stored:
    """What a run has of a chunk: rows of its texts, findings, timing, and the checks whose findings are still valid.

    `whole` says whether they are all that the run has of its methods and checks; without it, explanations are computed
    again.
    """

    texts: Sequence[dict[str, Any]] = ()
    findings: Sequence[FindingRow] = ()
    timing: Mapping[str, Any] = field(default_factory=dict)
    checks: frozenset[str] = frozenset()
    whole: bool = False


@dataclass(frozen=True)
class Run:
    """A run folder and its manifest; made by `open_run` (to write) or `read_run`. With a `span`, only its chunks."""

    folder: Path
    manifest: Manifest
    span: range | None = None

    def missing(self, total: int) -> list[tuple[int, slice]]:
        """The chunks that are missing for this many texts: their numbers, and their slices of the order.

        A chunk that a smaller limit cut short is computed again as a whole; one with more texts than needed stays.
        """
        finished = {chunk: stamp.texts for chunk, stamp in self._finished().items()}
        wanted = {c: slice(c * CHUNK_TEXTS, min(total, (c + 1) * CHUNK_TEXTS)) for c in range(-(-total // CHUNK_TEXTS))}
        return [(c, s) for c, s in wanted.items() if finished.get(c, 0) < s.stop - s.start]

    def extent(self) -> int:
        """The number of texts up to the last chunk that lacks a method or a check of the run, or has other settings."""
        sources = self.manifest.sources
        return _end(stamp for stamp in self._stamps().values() if stamp.sources != sources)

    def end(self) -> int:
        """The number of texts up to the last chunk."""
        return _end(self._stamps().values())

    def stored(self, chunk: int) -> Stored:
        """What is stored of a chunk and was computed with the settings of this run."""
        stamp, sources = self._stamps([chunk]).get(chunk), self.manifest.sources
        if stamp is None:
            return Stored()
        valid = [name for name, source in stamp.sources.items() if sources.get(name) == source]
        if EXPLAIN not in valid:  # explanations by other methods: nothing is valid
            return Stored()
        whole = stamp.sources == sources
        groups = parts.stamp(self._part(chunk, ".parquet")).checks if whole else [n for n in valid if n != EXPLAIN]
        texts = parts.read_part(self._part(chunk, ".texts.parquet")).to_pylist()
        findings = parts.read_rows(self._part(chunk, ".parquet"), groups)
        return Stored(texts, findings, self._timing(chunk), frozenset(valid) - {EXPLAIN}, whole)

    def write(
        self,
        chunk: int,
        findings: Sequence[tuple[int, Finding]],
        texts: Sequence[Mapping[str, Any]],
        timing: Mapping[str, Any],
        stored: Sequence[FindingRow] = (),
    ) -> None:
        """Store a chunk: findings with the numbers of their texts; a row as in `parts.TEXTS` for each of its texts.

        `stored` are findings that it had before.

        Numbers are positions in the run's order. Every text of the chunk has its row, also one without findings: a
        chunk is finished when all rows are there.
        """
        numbers = [row.get("number") for row in texts]
        if not 0 < len(numbers) <= CHUNK_TEXTS or numbers != list(
            range(chunk * CHUNK_TEXTS, chunk * CHUNK_TEXTS + len(numbers))
        ):
            raise ValueError(
                f"chunk {chunk} has the texts {numbers}; expected up to {CHUNK_TEXTS} from {chunk * CHUNK_TEXTS} on"
            )
        if unknown := {n for n, _ in findings} - set(numbers):
            raise ValueError(f"texts {sorted(unknown)} are not in chunk {chunk}")
        stamp = parts.chunk_stamp(self.manifest.identity, chunk, texts, self.manifest.sources)
        write_files(
            {
                self._part(chunk, ".texts.parquet"): parts.texts_part(texts, stamp),
                self._part(chunk, ".timing.json"): pretty(timing),
                self._part(chunk, ".parquet"): parts.findings_part(findings, stamp, stored),
            }
        )

    def findings(self, check: str | None = None, columns: Sequence[str] | None = None) -> pa.Table:
        """The findings of all finished chunks, or those of one check, in the order of chunks; see `parts.FINDINGS`."""
        return parts.concat(list(self.each(check, columns)), FINDINGS, columns)

    def each(self, check: str | None = None, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The same, chunk by chunk, with one in memory at a time."""
        return (parts.read_part(self._part(c, ".parquet"), check, columns) for c in self._finished())

    def texts(self, columns: Sequence[str] | None = None) -> pa.Table:
        """The texts of all finished chunks, in the run's order; see `parts.TEXTS_SCHEMA`."""
        return parts.concat(list(self.each_texts(columns)), TEXTS_SCHEMA, columns)

    def each_texts(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The same, chunk by chunk, with one in memory at a time."""
        return (parts.read_part(self._part(c, ".texts.parquet"), None, columns) for c in self._finished())

    def count(self) -> int:
        """How many texts are in finished chunks."""
        return sum(stamp.texts for stamp in self._finished().values())

    def size(self, chunk: int) -> int:
        """How many texts a chunk has: fewer than it is to have, where the time ended it."""
        return sum(stamp.texts for stamp in self._stamps([chunk]).values())

    def timings(self) -> list[dict[str, Any]]:
        """Seconds, bytes and passes of each finished chunk."""
        return [self._timing(chunk) for chunk in self._finished()]

    def finish(self, summary: Mapping[str, Any], timing: Mapping[str, Any]) -> None:
        """Store the summary and the timing of all texts, and remove what killed workers were writing."""
        for inside in (self.folder, self.folder / PARTS):
            with write_errors(inside):
                sweep(inside)
        write_files(
            {self.folder / TIMING: pretty(sorted_keys(timing)), self.folder / SUMMARY: pretty(sorted_keys(summary))}
        )

    def drop(self) -> None:
        """Delete the chunks beyond the span, which other processes computed before they were told of the end."""
        span = self.span
        for chunk in replace(self, span=None)._stamps():
            for kind in KINDS if span is not None and chunk not in span else ():
                self._part(chunk, kind).unlink(missing_ok=True)

    def end_shares(self) -> None:
        """Forget which shares were started: the run is whole, and may be extended by others."""
        for name in _names(self.folder / SHARES):
            (self.folder / SHARES / name).unlink(missing_ok=True)

    def _part(self, chunk: int, kind: str) -> Path:
        return self.folder / PARTS / f"{chunk:05d}{kind}"

    def _timing(self, chunk: int) -> dict[str, Any]:
        file = self._part(chunk, ".timing.json")
        try:
            timing: dict[str, Any] = json.loads(file.read_bytes())
        except (OSError, ValueError) as e:
            raise parts.damaged(file) from e
        return timing

    def _finished(self) -> dict[int, Stamp]:
        """Chunks with the methods, the checks and the settings of this run, in order."""
        sources = self.manifest.sources
        return {chunk: stamp for chunk, stamp in self._stamps().items() if stamp.sources == sources}

    def _stamps(self, chunks: Sequence[int] | None = None) -> dict[int, Stamp]:
        """Chunks with all three files of this run, in order, or those among `chunks`, each with its stamp.

        Files of another chunk, or of other texts, do not count: a process that is killed between the moves of an
        extended chunk leaves files that disagree on its texts or its checks.
        """
        names = _names(self.folder / PARTS) if chunks is None else []
        files = Counter(int(match["chunk"]) for match in map(_PART.fullmatch, names) if match)
        files += Counter({c: sum(self._part(c, kind).exists() for kind in KINDS) for c in chunks or ()})
        stamps, identity = {}, self.manifest.identity
        for chunk in (c for c, n in sorted(files.items()) if n == 3 and (self.span is None or c in self.span)):
            texts, findings = (parts.stamp(self._part(chunk, kind)) for kind in (".texts.parquet", ".parquet"))
            own = (texts.run, texts.chunk) == (identity, chunk)
            if own and replace(findings, checks=()) == texts:
                stamps[chunk] = texts
        return stamps


def _end(stamps: Iterable[Stamp]) -> int:
    """The number of texts up to the last of these chunks."""
    return max((stamp.chunk * CHUNK_TEXTS + stamp.texts for stamp in stamps), default=0)


def open_run(folder: str | Path, manifest: Manifest, restart: bool = False) -> Run:
    """The run in a folder, resumed, extended or new.

    Further methods and checks, and other settings of them, extend a run: chunks without them count as missing. A run of
    something else is refused, and so is a manifest that lacks a method or a check. `restart` deletes the files of the
    run in the folder, and never any other file.
    """
    place, present = place_of(folder), present_manifest(folder)
    if present is not None and not restart:
        refuse_changes(folder, present, manifest, "run", extensible=True)
    if (place / PARTS).is_symlink():
        raise BadInput(f"'{place / PARTS}' is a link, which a run does not follow; delete it, or give another folder.")
    with write_errors(place):
        (place / PARTS).mkdir(parents=True, exist_ok=True)
        for inside in (place, place / PARTS):
            probe(inside)
            sweep(inside)
        if restart and present is not None:
            # subtle: the manifest stays until it is replaced, so that the folder is always recognised as a run's
            stored = (f"{PARTS}/{name}" for name in _names(place / PARTS) if _PART.fullmatch(name))
            shares = (f"{SHARES}/{name}" for name in _names(place / SHARES))
            for name in (SUMMARY, TIMING, REPORT, *shares, *stored):
                (place / name).unlink(missing_ok=True)
    if restart:
        write_files({place / MANIFEST: encode_manifest(manifest)})
        present = manifest
    elif present is None:
        # subtle: several shares may start at once; the first one's manifest stays, and the others are compared with it
        if write_new(place / MANIFEST, encode_manifest(manifest)):
            present = manifest
        else:
            refuse_changes(folder, present := read_manifest(place / MANIFEST), manifest, "run")
    elif present.stamp != manifest.stamp:
        with write_errors(place):
            # subtle: the summary stays, because it says when the run was looked at; without a timing nobody reads it
            for name in (TIMING, REPORT):
                (place / name).unlink(missing_ok=True)
        present = replace(present, settings=manifest.settings)  # model and data keep their names
        write_files({place / MANIFEST: encode_manifest(present)})
    return Run(place, present)


def read_run(folder: str | Path) -> Run:
    """The run in a folder, to read it."""
    place = place_of(folder)
    if MANIFEST not in _names(place):
        raise BadInput(f"'{folder}' holds no run (no {MANIFEST}); give the folder that an audit wrote.")
    return Run(place, read_manifest(place / MANIFEST))


def present_manifest(folder: str | Path) -> Manifest | None:
    """The manifest of the run in a folder; None where there is no run."""
    place = place_of(folder)
    with write_errors(place):
        return _present(place)


def _present(place: Path) -> Manifest | None:
    """The manifest in a folder; None where the folder is empty or absent."""
    if place.exists() and not place.is_dir():
        raise BadInput(f"'{place}' is a file; give a folder for the run (--out).")
    others = [name for name in _names(place) if not leftover(name) and name != PARTS]
    others += [f"{PARTS}/{name}" for name in _names(place / PARTS) if not leftover(name)]
    # subtle: after the names, since another process may start the run at the same moment, and its manifest comes first
    if (place / MANIFEST).exists():
        return read_manifest(place / MANIFEST)
    refuse_files(place, others, "run")
    return None


def _names(folder: Path) -> list[str]:
    try:
        return [file.name for file in folder.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as e:
        raise BadInput(f"'{folder}' cannot be read ({e.strerror or e}); give another folder.") from e


# the order of texts


def order(examples: Sequence[Example], seed: int) -> list[int]:
    """All examples shuffled within each label, such that every prefix has the labels in proportion.

    It depends on the seed, the texts and the labels alone; where texts are equal, on their place in the data.
    """

    def random_key(i: int) -> tuple[bytes, int]:
        key = json.dumps([seed, examples[i].text, examples[i].pair]).encode()
        return hashlib.blake2b(key, digest_size=16).digest(), i

    # several labels count as one, whatever their order
    labels = [e.label if e.label is None or isinstance(e.label, str) else ", ".join(sorted(e.label)) for e in examples]
    shuffled = sorted(range(len(examples)), key=random_key)
    count, before = Counter(labels), Counter[str | None]()
    due: list[tuple[float, int]] = []
    for place, i in enumerate(shuffled):
        due.append(((before[labels[i]] + 0.5) / count[labels[i]], place))
        before[labels[i]] += 1
    return [shuffled[place] for _, place in sorted(due)]
