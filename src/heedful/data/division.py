"""Division: train, dev and test of a data set, found or divided; a division is equal on every machine."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

from heedful.core.errors import BadInput
from heedful.data.columns import GUESSED, Columns, name_list
from heedful.data.corpora import class_folders
from heedful.data.example import Example, label_names
from heedful.data.examples import DataSource, items, selected, source_name
from heedful.data.formats import FORMATS, format_of
from heedful.data.rows import Drop
from heedful.data.selection import EVERYTHING, Selection, drop_note, selection_record

ReadItems = Callable[[DataSource, Columns, str | None], Iterator[Example | Drop]]

SUFFIXES = {suffix for form in FORMATS.values() for suffix in form.suffixes}
_DEV = ("dev", "val", "valid", "validation", "eval")
_ROLES = {"train": "train", "training": "train", "test": "test", **dict.fromkeys(_DEV, "dev")}
# "train.csv", "train-00000-of-00002.parquet", "qa1_train.txt", "imdb.train.txt.ss"; of MNLI "dev_matched.tsv", whose
# genres are those of train, and not "dev_mismatched.tsv"
_ROLE = re.compile(rf"(.*[_.-])?({'|'.join(_ROLES)})(?:_matched)?(?:-[0-9]+-of-[0-9]+)?(?:\.[a-z]+)*", re.IGNORECASE)


@dataclass(frozen=True)
class Splits:
    """Examples for training, validation and test; an empty list is an absent split.

    `selection` says which texts of the data they are; `dropped` counts the others, by part and reason. The only part of
    a source that was divided is "all".
    """

    train: list[Example]
    dev: list[Example]
    test: list[Example]
    selection: Selection = field(default=EVERYTHING, kw_only=True)
    dropped: Mapping[str, Mapping[str, int]] = field(default_factory=dict, kw_only=True)

    def record(self) -> dict[str, Any]:
        """The selection and what was dropped, for a record; empty if every text is used."""
        return selection_record(self.selection, self.dropped)

    @property
    def note(self) -> str:
        """A sentence on the texts that were dropped, if there are any."""
        reasons = dict.fromkeys(reason for counts in self.dropped.values() for reason in counts)
        return drop_note({reason: sum(c.get(reason, 0) for c in self.dropped.values()) for reason in reasons})


def splits(
    source: DataSource,
    columns: Columns = GUESSED,
    *,
    dev: DataSource | None = None,
    test: DataSource | None = None,
    dev_share: float = 0.1,
    test_share: float = 0.1,
    seed: int = 0,
    keep: Sequence[str] | None = None,
    kind: str | None = None,
    select: Selection = EVERYTHING,
    read: ReadItems = items,
) -> Splits:
    """Train, dev and test of a folder, a mapping of datasets, or one source that is divided.

    A missing dev is split off train. A missing test stays empty, unless the source is a single file or list, which is
    divided into three. Equal texts are in one split, splits are stratified by label, and row order has no effect.
    `select` says which texts are used, in all parts alike, before anything is divided; `keep` is short for its labels.
    `read` reads the examples of one source.
    """
    if not (min(dev_share, test_share) >= 0 and dev_share + test_share < 1):
        raise BadInput(f"dev_share {dev_share} and test_share {test_share} must be at least 0 and sum to less than 1.")
    if keep is not None:
        select = replace(select, labels=tuple(keep))
    sources = _parts(source, kind)
    alone = not sources and dev is None and test is None
    sources = sources or {"train": [source]}
    sources |= {role: [part] for role, part in (("dev", dev), ("test", test)) if part is not None}
    every = {role: [item for part in parts for item in read(part, columns, kind)] for role, parts in sources.items()}
    select.check(label_names(e for part in every.values() for e in part if isinstance(e, Example)))
    place = source_name(source)
    chosen = {role: selected(e, select, place if alone else f"the {role} part of {place}") for role, e in every.items()}
    train, dev_part, test_part = (chosen[role][0] if role in chosen else [] for role in ("train", "dev", "test"))
    dropped = {"all" if alone else role: counts for role, (_, counts) in chosen.items() if counts}
    whole = Splits(train, dev_part, test_part, selection=select, dropped=dropped)
    if dev_part:
        return whole
    if not alone:
        _check_alike(source)
    cut = _divided(train, {"dev": dev_share, "test": test_share if alone else 0.0}, seed)
    return replace(whole, train=cut.train, dev=cut.dev, test=cut.test or test_part)


def _parts(source: Any, kind: str | None) -> dict[str, list[Any]]:
    """The splits of a folder or mapping, each one part or several shards; none for a single source."""
    if isinstance(source, Mapping):
        what, named = "the data", {str(name): part for name, part in source.items()}
    elif isinstance(source, (str, Path)) and Path(source).expanduser().is_dir():
        inside = sorted(Path(source).expanduser().iterdir())
        own = FORMATS[kind].suffixes if kind in FORMATS else ()  # SNLI has each part as .jsonl and as .txt
        what, named = f"'{source}'", {p.name: p for p in inside if p.suffix.lower() in (own or SUFFIXES) or p.is_dir()}
        if not any(map(_ROLE.fullmatch, named)):  # "qa1_train", with no suffix
            named |= {p.name: p for p in inside if not p.suffix and _ROLE.fullmatch(p.name)}
    else:
        return {}
    matches = {name: match for name in named if (match := _ROLE.fullmatch(name))}
    parts: dict[str, list[Any]] = {}
    for role in ("train", "dev", "test"):
        similar = [name for name, match in matches.items() if _ROLES[match[2].lower()] == role]
        same = [name for name in similar if not matches[name][1]] or similar
        if len(same) > 1 and not all("-of-" in name for name in same):
            raise BadInput(f"{len(same)} parts of {what} could be {role} ({', '.join(same)}); give one of each.")
        parts |= {role: [named[name] for name in same]} if same else {}
    if not parts and (isinstance(source, Mapping) or not _one_source(Path(source).expanduser())):
        raise BadInput(f"{what} has no part named train, dev or test ({name_list(named)}); rename its parts.")
    return parts


def _one_source(folder: Path) -> bool:
    """Whether a folder is a data set: folders of classes, or files of one text each."""
    return format_of(folder) != "folder" or bool(class_folders(folder))


def _check_alike(source: Any) -> None:
    """Refuse to split off a dev if one seems to exist under another name (MNLI's dev_mismatched)."""
    if isinstance(source, Mapping):
        names = [str(name) for name in source]
    else:
        folder = Path(source).expanduser() if isinstance(source, (str, Path)) else None
        names = [p.name for p in folder.iterdir()] if folder is not None and folder.is_dir() else []
    alike = sorted(
        name for name in names if re.match(r"(dev|valid|eval)|.*[_.-](dev|valid|eval).*\.", name, re.IGNORECASE)
    )
    if alike:
        raise BadInput(f"the data may have a dev already ({name_list(alike)}); give it with --dev, or name it dev.")


def _divided(examples: Sequence[Example], shares: Mapping[str, float], seed: int) -> Splits:
    """Assign texts, by label and in the order of a keyed hash, each to the split that lacks most.

    So the shares are met within a few texts, for every label and in total, if no text has many copies.
    """
    groups: dict[bytes, list[int]] = {}
    for i, example in enumerate(examples):
        groups.setdefault(_hash(seed, example.text, example.pair), []).append(i)
    labels = {key: sorted({examples[i].labels for i in members}) for key, members in groups.items()}
    lacking = {"train": 0.0, **{role: 0.0 for role, share in shares.items() if share > 0}}
    all_shares = {"train": 1 - sum(shares.values()), **shares}
    split_of: dict[int, str] = {}
    for key in sorted(groups, key=lambda key: (_hash(seed, labels[key]), key)):
        for role in lacking:
            lacking[role] += all_shares[role] * len(groups[key])
        chosen = max(lacking, key=lambda role: lacking[role])
        lacking[chosen] -= len(groups[key])
        split_of |= dict.fromkeys(groups[key], chosen)
    return Splits(*([e for i, e in enumerate(examples) if split_of[i] == role] for role in ("train", "dev", "test")))


def _hash(*parts: Any) -> bytes:
    return blake2b(json.dumps(parts).encode(), digest_size=16).digest()
