"""Shares: one run computed by several machines that know nothing of each other, as in a Slurm array.

Each machine computes every n-th chunk into the common folder (`compute_share`); when all have ended, one of them
summarises (`audit(workers=Finish())`).
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from heedful.audits.chunk import Chunks
from heedful.audits.extension import extended
from heedful.audits.job import AuditProgress, AuditRequest, Job, WatchAudit, prepare
from heedful.audits.manifest import change_list
from heedful.audits.run import CHUNK_TEXTS, SHARES, open_run, present_manifest
from heedful.audits.workers import ReportShare, Work, Workers, in_process, silent
from heedful.core.errors import BadInput
from heedful.core.files import write_errors, write_new
from heedful.core.objects import place_of

MAX_NAMES = 8  # of shares or chunks in a message
_MARK = re.compile(r"([0-9]+)-of-([0-9]+)")


@dataclass(frozen=True)
class Share:
    """Workers: the first of `count` shares has chunks 0, count, 2 count …; `by` computes those of this share."""

    number: int
    count: int
    by: Workers = in_process

    def __post_init__(self) -> None:
        if not 1 <= self.number <= self.count:
            raise BadInput(f"the share is {self.number}/{self.count}; give one from 1/{max(1, self.count)} on.")

    @staticmethod
    def read(text: str, by: Workers = in_process) -> Share:
        """The share that a text such as "3/8" names."""
        match = re.fullmatch(r"\s*([0-9]{1,9})\s*/\s*([0-9]{1,9})\s*", text)
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise BadInput(f"'{text}' is not a share; write the third of eight as 3/8, from 1/8 to 8/8.")
        return Share(int(match[1]), int(match[2]), by)

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def own(self, chunks: Sequence[int]) -> list[int]:
        """Those of the chunks that belong to this share."""
        return [chunk for chunk in chunks if chunk % self.count == self.number - 1]

    def __call__(
        self, work: Work, chunks: Sequence[int], tell: ReportShare = silent, until: float | None = None
    ) -> Iterator[int]:
        """See `Workers`. Chunks of other shares are left out."""
        return self.by(work, self.own(chunks), tell, until)


@dataclass(frozen=True)
class Finish:
    """Workers: nobody. For a run whose parts other machines computed; one with missing parts is refused."""

    def __call__(
        self, work: Work, chunks: Sequence[int], tell: ReportShare = silent, until: float | None = None
    ) -> Iterator[int]:
        """See `Workers`."""
        if chunks:
            raise BadInput(_missing(chunks, started(work.place)))
        return iter(())


@dataclass(frozen=True)
class Shared:
    """What a share left: how many chunks it computed, and the numbers of those that the run still lacks."""

    share: Share
    computed: int
    missing: tuple[int, ...]
    shares: Mapping[int, frozenset[int]]

    def __str__(self) -> str:
        done = f"share {self.share}: computed {self.computed:,} {'chunk' if self.computed == 1 else 'chunks'}"
        if not self.missing:
            return f"{done}; none is missing: run the same command with --finish instead of --share."
        return f"{done}; {_missing(self.missing, self.shares)}"


def compute_share(
    request: AuditRequest,
    out: str | Path,
    share: Share,
    time_budget: float | None = None,
    watch: WatchAudit | None = None,
) -> Shared:
    """Compute the parts of a share of the run in `out`, which all machines see. No summary is written."""
    until = None if time_budget is None else time.monotonic() + time_budget
    job = extended(prepare(request), request, out)
    if started(place_of(out)):
        refuse_other_settings(out, job, "the run has other shares already")
    run = open_run(out, job.manifest())
    mark = run.folder / SHARES / f"{share.number}-of-{share.count}"
    with write_errors(mark):
        mark.parent.mkdir(exist_ok=True)
    write_new(mark, b"")
    missing = {chunk: part.stop - part.start for chunk, part in run.missing(job.total)}
    own = share.own(list(missing))
    total, finished = sum(missing[chunk] for chunk in own), 0

    def tell(doing: str, part: float) -> None:
        if watch is not None:
            watch(AuditProgress(finished, total, doing, part * CHUNK_TEXTS))

    if watch is not None and job.note:
        watch(AuditProgress(0, total, note=job.note))
    computed = 0
    for chunk in share(Chunks(job, run), own, tell, until):
        computed, finished = computed + 1, finished + (missing[chunk] if until is None else run.size(chunk))
        tell("", 0.0)
    left = tuple(chunk for chunk, _ in run.missing(job.total))
    return Shared(share, computed, left, started(run.folder))


def refuse_other_settings(out: str | Path, job: Job, why: str) -> None:
    """Refuse a job with other methods, checks or settings than the run in the folder has, before anything changes."""
    present = present_manifest(out)
    if present is not None and (changed := present.differences(job.manifest())):
        differs = f"this command differs from the run in '{out}': {change_list(changed)}"
        raise BadInput(f"{why}, and {differs}; use the settings of the run.")


def started(folder: Path) -> dict[int, frozenset[int]]:
    """The shares of a run that were started: their numbers, by how many shares there are."""
    place = folder / SHARES
    files = place.iterdir() if place.is_dir() else ()
    marks = [match for file in files if (match := _MARK.fullmatch(file.name))]
    counts = sorted({int(match[2]) for match in marks})
    return {count: frozenset(int(match[1]) for match in marks if int(match[2]) == count) for count in counts}


def _missing(chunks: Sequence[int], shares: Mapping[int, frozenset[int]]) -> str:
    """How many chunks are missing, of which shares, and what to do."""
    absent = f"{len(chunks):,} {'chunk is' if len(chunks) == 1 else 'chunks are'} missing"
    if len(shares) != 1:  # none, or an array was started again with another number of shares
        return f"{absent} ({_listed(chunks)}); run the same command without --share and --finish."
    count = next(iter(shares))
    names = [f"{number}/{count}" for number in sorted({chunk % count + 1 for chunk in chunks})]
    word, others = ("share", "") if len(names) == 1 else ("shares", " and the others")
    return f"{absent}, of {word} {_listed(names)}; run --share {names[0]}{others}, then --finish."


def _listed(items: Sequence[object]) -> str:
    return ", ".join(map(str, items[:MAX_NAMES])) + (" …" if len(items) > MAX_NAMES else "")
