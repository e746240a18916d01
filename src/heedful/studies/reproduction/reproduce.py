"""reproduce: a paper by one command, in a folder that resumes to the same bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from heedful.audits.manifest import Manifest
from heedful.audits.workers import Processes
from heedful.core.catalogue import Catalogue
from heedful.core.errors import BadInput, nearest
from heedful.core.files import json_value, scratch_folder
from heedful.core.settings import read_assignments
from heedful.core.settings import values as settings_of
from heedful.data.examples import CORPUS
from heedful.studies.base import Subject, WatchStudy, check_parts
from heedful.studies.folder import open_study
from heedful.studies.outcome import Outcome
from heedful.studies.reproduction import PAPERS
from heedful.studies.reproduction.base import Paper
from heedful.studies.reproduction.data_sets import STANDS_IN
from heedful.studies.study import StudyJob, part_sizes, run, splits_fingerprint, study_versions

PROFILES = ("smoke", "quick", "full")


def reproduce(
    paper: str | Paper,
    data: str | Path | None = None,
    out: str | Path | None = None,
    *,
    profile: str = "quick",
    seeds: int | None = None,
    settings: Sequence[str] = (),
    seed: int = 0,
    jobs: int = 1,
    restart: bool = False,
    watch: WatchStudy | None = None,
) -> Outcome:
    """Reproduce a paper: train what it trains, run its audits and studies, and compare each published number with ours.

    `data` is a folder with a folder for each data set of the paper; what is missing is said, and the rest is run.
    Without it the embedded corpus takes the place of one data set, and nothing can be compared. `profile` is smoke
    (seconds), quick or full (the paper's sizes); `seeds` is the number of trainings of each network; `settings` are
    texts such as "scored=100". `out`, `seed`, `jobs`, `restart` and `watch` are as for `heedful.study`.
    """
    job = prepare(paper, data, profile=profile, seeds=seeds, settings=settings, seed=seed)
    workers = Processes(jobs) if jobs != 1 else None
    if out is not None:
        outcome = run(job, open_study(out, job.manifest(), restart), workers, watch)
        outcome.save_page()
        return outcome
    with scratch_folder() as folder:
        outcome = run(job, open_study(folder / "study", job.manifest()), workers, watch)
        return replace(outcome, folder=None)


@dataclass(frozen=True)
class PaperJob(StudyJob):
    """A paper with its settings, the data sets that were found, and its seed."""

    study: Paper

    catalogue: ClassVar[Catalogue] = PAPERS

    def manifest(self) -> Manifest:
        """All that the outcome depends on."""
        data = {s.name: {"from": s.data, "fingerprint": splits_fingerprint(s.splits)} for s in self.subjects}
        return Manifest(
            model={"name": self.study.networks, "fingerprint": ""},
            data={
                "name": ", ".join(data) or "generated data",
                "fingerprint": " ".join(entry["fingerprint"] for entry in data.values()),
                "texts": {s.name: part_sizes(s.splits) for s in self.subjects},
            },
            settings=json_value({"paper": self.name, "settings": settings_of(self.study), "data": data}),
            seed=self.seed,
            versions=study_versions(),
        )


def prepare(
    paper: str | Paper,
    data: str | Path | None = None,
    *,
    profile: str = "quick",
    seeds: int | None = None,
    settings: Sequence[str] = (),
    seed: int = 0,
) -> PaperJob:
    """The job of `reproduce` with these arguments."""
    if profile not in PROFILES:
        raise BadInput(f"profile '{profile}' is not one of {', '.join(PROFILES)}{nearest(profile, PROFILES) or '.'}")
    sizes: Any = getattr(PAPERS[paper], profile, None) if isinstance(paper, str) else None
    chosen: Paper = PAPERS.make(paper, sizes)
    name = PAPERS.name_of(chosen)
    own = read_assignments(settings, [(name, type(chosen))], PAPERS.full_name)[0]
    own |= {} if seeds is None else {"seeds": seeds}
    chosen = replace(chosen, **own) if own else chosen  # type: ignore[type-var]
    subjects = _subjects(chosen, data)
    chosen.check(subjects)
    return PaperJob(name, chosen, tuple(subjects), seed)


def _subjects(paper: Paper, data: str | Path | None) -> list[Subject]:
    """The data sets that were found; the embedded corpus where no folder is given."""
    if data is None:
        stand_ins = [known for known in paper.data if known.embedded]
        return [
            replace(known.subject(CORPUS), note=f"Nothing is judged: {STANDS_IN.format(known.short)}.")
            for known in stand_ins
        ]
    folder = Path(data).expanduser()
    if not folder.is_dir():
        raise BadInput(f"'{data}' is not a folder; give one with a folder for each data set of the paper (--data).")
    found = {known: path for known in paper.data if (path := known.find(folder)) is not None}
    if paper.data and not found:
        wanted = ", ".join(f"'{known.name}'" for known in paper.data)
        raise BadInput(
            f"'{data}' has none of the paper's data sets ({wanted}); `heedful reproduce --list` has their form."
        )
    subjects = [known.subject(path) for known, path in found.items()]
    for subject in subjects:
        check_parts(subject, paper.uses)
    return subjects
