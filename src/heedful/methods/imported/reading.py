"""Bringing: explanations made elsewhere, read from a file of JSON lines, as methods like any other.

A line is one explanation of one text: text, method and scores; tokens or spans where the scores are not of words; pair,
label and signed if need be. Scores go to the model's tokens by the characters that both stand for.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from heedful.core.errors import BadInput, nearest
from heedful.core.explanation import Attribution
from heedful.core.target import label_index
from heedful.core.tokens import check_text
from heedful.methods import METHODS, Method, Passes
from heedful.methods.imported.placement import Line, Place, mapped

if TYPE_CHECKING:
    import torch

    from heedful.core.target import Target
    from heedful.core.tokens import Tokens
    from heedful.data import Example
    from heedful.model.classifier import Classifier

KEYS = ("text", "pair", "method", "scores", "tokens", "spans", "label", "signed")
LONGEST = 60  # characters of a name
_LARGEST = 1e100  # so that sums of squares stay finite
RESERVED = ("greedy", "optimum", "attention-ascending", "attention-slope", "attention-x-slope")  # rows of checks
Key = tuple[str, str | None]
Lines = Mapping[Key, Sequence[Line]]


@dataclass(frozen=True)
class Brought:
    """Scores that were made elsewhere, under a name. It is asked for texts of its file, and explains nothing anew.

    `fingerprint` is that of the whole file, so that a run does not go on with another one. `again` tells checks that
    explain a second time (another text, model or seed) that the same scores would be no answer.
    """

    name: str
    file: str
    fingerprint: str
    # not a field: a manifest holds the fingerprint and not the scores; `replace` hands it on
    lines: InitVar[Lines | None] = None

    summary: ClassVar[str] = "scores that were brought from a file"
    paper: ClassVar[str] = "–"
    again: ClassVar[bool] = False

    def __post_init__(self, lines: Lines | None) -> None:
        object.__setattr__(self, "lines", lines or {})
        object.__setattr__(self, "_loose", {_loose(key) for key in lines or {}})

    def passes(self, classifier: Classifier, tokens: Tokens) -> Passes:
        """None: the model is not asked."""
        return Passes(0)

    def __call__(self, classifier: Classifier, tokens: Tokens, target: Target, rng: torch.Generator) -> Attribution:
        """The scores of this text for this label, on the model's tokens."""
        line = self._line((tokens.text, tokens.pair), target, classifier.labels)
        try:
            found = mapped(line, tokens)
        except BadInput as e:
            raise BadInput(f"'{self.file}': {e}") from e
        return Attribution(tokens=tokens, scores=found.scores, signed=bool(line.signed), details=found.details)

    def knows(self, text: str, pair: str | None = None) -> bool:
        """Whether the file has an explanation of this text."""
        return (text, pair) in self._lines

    @property
    def _lines(self) -> Lines:
        found: Lines = vars(self)["lines"]
        return found

    def _line(self, key: Key, target: Target, labels: Sequence[str]) -> Line:
        """The one line about this text and label. Reasons name no text, so that they can be counted."""
        own = self._lines.get(key, ())
        if not own:
            spaces = ", but one with other white space" if _loose(key) in vars(self)["_loose"] else ""
            raise BadInput(f"'{self.file}' has no explanation of this text{spaces}.")
        fitting = [line for line in own if line.label is None or label_index(line.label, labels) == target.label]
        if not fitting:
            raise BadInput(f"'{self.file}' explains this text for another label than the one that this run explains.")
        if len(fitting) > 1:
            raise BadInput(f"'{self.file}' explains this text twice for the same label; keep one of them.")
        return fitting[0]


def _loose(key: Key) -> Key:
    text, pair = key
    return " ".join(text.split()), None if pair is None else " ".join(pair.split())


# reading


def read(path: str | Path) -> dict[str, Brought]:
    """The methods of a file, by name, in the file's order."""
    place = Path(path).expanduser()
    try:
        raw = place.read_bytes()
    except OSError as e:
        raise BadInput(f"'{path}' cannot be read ({e.strerror or e}); give a file of explanations.") from e
    methods: dict[str, dict[Key, list[Line]]] = {}
    for number, one in enumerate(raw.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if one.strip():
            line = _line(one, f"'{path}' line {number}")
            _add(methods.setdefault(line.method, {}).setdefault((line.text, line.pair), []), line)
    if not methods:
        raise BadInput(f"'{path}' has no explanations; write one on each line, as JSON.")
    digest = blake2b(raw, digest_size=16).hexdigest()
    return {name: Brought(name, place.name, digest, _told(own)) for name, own in methods.items()}


def read_all(paths: Iterable[str | Path]) -> dict[str, Brought]:
    """The methods of several files; two of the same name are refused."""
    found: dict[str, Brought] = {}
    for path in paths:
        for name, brought in read(path).items():
            if name in found:
                raise BadInput(f"method '{name}' is in '{path}' and in '{found[name].file}'; rename one of them.")
            found[name] = brought
    return found


def explained_in(methods: Mapping[str, Method], examples: Sequence[Example]) -> Sequence[Example]:
    """The texts that some brought method explains; all, if none was brought. One that explains none is refused."""
    brought = {name: one for name, one in methods.items() if isinstance(one, Brought)}
    for name, one in brought.items():
        if not any(one.knows(example.text, example.pair) for example in examples):
            raise BadInput(
                f"'{one.file}' has no explanation by '{name}' of any text in the data; "
                "its texts must be those of the data, character by character."
            )
    if not brought:
        return examples
    return [e for e in examples if any(one.knows(e.text, e.pair) for one in brought.values())]


def _add(own: list[Line], line: Line) -> None:
    """A text may have an explanation for each label; one that names none must be the only one."""
    for other in own:
        if None in (line.label, other.label) or str(line.label) == str(other.label):
            raise BadInput(
                f"{line.where} explains the text of line {other.where.rpartition(' ')[2]} with '{line.method}' again; "
                "keep one of them, or give each the label that it explains."
            )
    own.append(line)


def _told(lines: Mapping[Key, Sequence[Line]]) -> Lines:
    """A method's scores are signed if a line says so; if none says anything, if any of them is negative."""
    every = [line for own in lines.values() for line in own]
    told = {line.signed: line for line in every if line.signed is not None}
    if len(told) == 2:
        raise BadInput(
            f"{told[True].where} says that the scores of '{told[True].method}' are signed, and "
            f"{told[False].where} that they are not; say the same in both."
        )
    signed = next(iter(told), any(score < 0 for line in every for score in line.scores))
    return {key: [replace(line, signed=signed) for line in own] for key, own in lines.items()}


# one line


def _line(raw: bytes, where: str) -> Line:
    given = _object(raw, where)
    text, pair = _text(given, "text", where), None if given.get("pair") is None else _text(given, "pair", where)
    scores = _scores(given["scores"], where)
    tokens, spans = given.get("tokens"), given.get("spans")
    if tokens is not None and spans is not None:
        raise BadInput(f"{where} has both tokens and spans; give one of them.")
    return Line(
        text,
        _name(given["method"], where),
        scores,
        pair,
        None if tokens is None else _tokens(tokens, len(scores), where),
        None if spans is None else _spans(spans, len(scores), (text, pair), where),
        _label(given.get("label"), where),
        _signed(given.get("signed"), where),
        where,
    )


def _object(raw: bytes, where: str) -> dict[str, Any]:
    try:
        given = json.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as e:
        raise BadInput(f"{where} is not UTF-8; save the file as UTF-8.") from e
    except (ValueError, RecursionError) as e:
        raise BadInput(f"{where} is not JSON; write each explanation as one object on a line of its own.") from e
    if not isinstance(given, dict):
        raise BadInput(f"{where} is a {type(given).__name__}; write an object with text, method and scores.")
    for key in given:
        if key not in KEYS:
            raise BadInput(f"{where} has '{key[:40]}', which means nothing here{nearest(key, KEYS) or '; remove it.'}")
    for key in ("text", "method", "scores"):
        if given.get(key) is None:
            raise BadInput(f"{where} has no {key}; give each explanation text, method and scores.")
    return given


def _text(given: Mapping[str, Any], what: str, where: str) -> str:
    check_text(given[what], f"{what} in {where}")
    return str(given[what])


def _name(given: Any, where: str) -> str:
    if not isinstance(given, str) or not given.strip() or not given.isprintable() or len(given) > LONGEST:
        raise BadInput(f"{where} names its method {str(given)[:40]!r}; give a name of 1 to {LONGEST} characters.")
    name = given.strip()
    if name in METHODS or METHODS.full_name(name) in (*METHODS, *RESERVED):
        raise BadInput(f"{where} names its method '{name}', which is heedful's own; give another, such as 'my-{name}'.")
    return name


def _scores(given: Any, where: str) -> tuple[float, ...]:
    if not isinstance(given, list) or not given:
        raise BadInput(f"{where} has scores that are not a list of numbers; give one for each token, span or word.")
    for i, score in enumerate(given):
        if isinstance(score, bool) or not isinstance(score, (int, float)) or not abs(score) < _LARGEST:
            raise BadInput(f"{where} has the score {str(score)[:40]} at place {i}; give finite numbers.")
    return tuple(map(float, given))


def _tokens(given: Any, count: int, where: str) -> tuple[str, ...]:
    if not isinstance(given, list) or not all(isinstance(token, str) for token in given):
        raise BadInput(f"{where} has tokens that are not a list of strings; give the pieces that the scores are of.")
    if len(given) != count:
        raise BadInput(f"{where} has {len(given):,} tokens and {count:,} scores; give as many of both.")
    return tuple(given)


def _spans(given: Any, count: int, texts: tuple[str, str | None], where: str) -> tuple[Place | None, ...]:
    if not isinstance(given, list) or len(given) != count:
        many = f"{len(given):,} spans" if isinstance(given, list) else "spans that are not a list"
        raise BadInput(f"{where} has {many} and {count:,} scores; give as many of both.")
    return tuple(_span(one, texts, where) for one in given)


def _span(given: Any, texts: tuple[str, str | None], where: str) -> Place | None:
    """Tokenizers give [0, 0] to a special token."""
    if given is None or given == [0, 0]:
        return None
    whole = isinstance(given, list) and len(given) in (2, 3) and all(type(n) is int for n in given)
    start, end, segment = [*given, 0][:3] if whole else (0, -1, 0)
    source = texts[segment] if segment in (0, 1) else None
    if source is None or not 0 <= start <= end <= len(source):
        raise BadInput(
            f"{where} has the span {str(given)[:40]}; give [start, end) in characters of the text, [start, end, 1] of "
            "the pair, or null for a special token."
        )
    return start, end, segment


def _label(given: Any, where: str) -> str | int | None:
    if given is None or type(given) is int or (isinstance(given, str) and given.strip()):
        return given
    raise BadInput(f"{where} has the label {str(given)[:40]!r}; give a name or an index.")


def _signed(given: Any, where: str) -> bool | None:
    if given is None or isinstance(given, bool):
        return given
    raise BadInput(f"{where} has {str(given)[:40]!r} for signed; give true or false.")
