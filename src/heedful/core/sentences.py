"""Sentences: a text cut into sentences by rules, which depend neither on a model nor on its tokenizer.

A sentence ends after . ! ? … (and closing quotes and brackets) before white space, after 。！？ without it, at the end
of a line, at <br> and before a bullet. It does not end after an abbreviation or an initial, after the number of a
list item, at an ellipsis in mid-sentence, inside brackets that opened in mid-sentence, or inside a URL.
"""

from __future__ import annotations

from collections.abc import Iterator

import regex

Span = tuple[int, int]
MAX_AUTO_WORDS = 64  # of a text whose features are words under "auto"; those of a longer one are sentences
MAX_ABBREVIATION = 12  # characters
MAX_BRACKET = 500  # characters between brackets in mid-sentence


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# always followed by more of the sentence: a name, an example
_BEFORE_MORE = _words("approx ca cf dr e.g eg i.e ie messrs mr mrs ms prof sgt st viz vs")
_BEFORE_NAME = _words("Adm Assoc Brig Capt Cmdr Col Fr Gen Gov Hon Lt Maj Mlle Mme Mt Pres Rep Reps Rev Sen Sens Supt")
_BEFORE_NUMBER = _words("art ch eq fig figs no nos nr p para pp pt sec sect vol vols")
# may also end a sentence: it ends where a word follows that often begins one
_MAY_END = _words("a.m al bros corp dept etc inc jr ltd p.m ph.d sr")
_MAY_END_CAPITAL = _words(
    "Apr Assn Aug Ave Bldg Blvd Co Dec Ed Eds Est Feb Fri Hwy Jan Jul Jun Mar Mon Nov Oct Rd Sat Sep Sept Sun Thu Thur "
    "Thurs Tue Tues Univ Wed"
)
_STARTERS = _words(
    "a after all also although an and another as at because before but by despite each even every finally for from he "
    "her here his how however i if in instead it it's its later many meanwhile most my no not now of on once one or "
    "our perhaps she since so some still such that the their then there these they this those though thus to today "
    "under until we what when where whether which while who why with yes yet you your"
)

_LINE = r"\n\r\x0b\x0c\x85\u2028\u2029"
_CLOSERS = r"""(?:["'”’»›)\]}]|[^\S{_LINE}](?:''|[”»)\]}]))*""".replace("{_LINE}", _LINE)
_EXTEND = r"[\p{GCB=Extend}\p{GCB=SpacingMark}\p{GCB=ZWJ}]*"  # a grapheme is not cut
_END = regex.compile(
    rf"""(?P<line>(?:[{_LINE}]|<[bB][rR]\s*/?>)+)
       | (?P<bullet>(?<=\s)(?=[•‣▪●◦∙]\s))
       | (?P<wide>(?:[。！？｡]|．(?!\p{{N}}))+[」』”’）】》〉"')\]]*{_EXTEND})
       | (?P<stop>[.!?…‽؟۔।॥]+(?:[^\S{_LINE}]?[.!?…]+)*)(?P<closers>{_CLOSERS})(?=\s|$)""",
    regex.VERBOSE | regex.VERSION1,
)
_URL = regex.compile(r"(?:(?:https?|ftp|file)://|www\.)(?:[^\s。！？，、；「」『』（）《》“”]|[？！](?=\w+=))+")
_BRACKET = regex.compile(r"(?<=[\s“‘])[(\[]")  # not that of :(
_BEFORE = regex.compile(r"[\p{L}\p{M}\p{N}.'’-]*$")  # the word before a full stop
_AFTER = regex.compile(r"""[\s"'“‘«‹(\[{]*(?P<word>[\p{L}\p{M}]+(?:['’][\p{L}\p{M}]+)?|\p{N}+)?(?P<other>.)?""")
_LINE_END = regex.compile(rf"[^\S{_LINE}]*(?:[{_LINE}]|$)")
_INITIALS = regex.compile(r"(?:\p{L}\.)*\p{L}")  # J, U.S, p.m
_ITEM = regex.compile(r"\W*(?:\p{N}{1,3}|\p{L}|[ivxIVX]{1,5})\W*")  # 1. or (a) or iv.
_CONTENT = regex.compile(r"[\p{L}\p{N}\p{So}]")
_QUOTATIVE = ("と", "って")  # 「…！」と言った is one sentence


def sentence_spans(text: str) -> list[Span]:
    """The span of each sentence, without the white space between: sentence_spans("Hi. Mr. X?") -> [(0, 3), (4, 10)].

    Spans are in order and disjoint, and hold every visible character. A part of punctuation marks alone belongs to the
    sentence before it (to the next, if it is the first).
    """
    spans: list[Span] = []
    start = 0
    for end in [*_borders(text), len(text)]:
        span = _trim(text, start, end)
        if span[0] < span[1]:
            bare = not _CONTENT.search(text, *span) or (bool(spans) and not _CONTENT.search(text, *spans[-1]))
            spans.append((spans.pop()[0], span[1]) if spans and bare else span)
        start = end
    return spans


def _trim(text: str, start: int, end: int) -> Span:
    part = text[start:end]
    return end - len(part.lstrip()), start + len(part.rstrip())


def _borders(text: str) -> Iterator[int]:
    """Where one sentence ends and another may begin."""
    urls = [m.span() for m in _URL.finditer(text)]
    start = closed = 0
    for m in _END.finditer(text):
        if m["line"] is None and m.start() < closed:
            continue
        if m["wide"] is not None:
            inside = any(a < m.start() and m.end() < b for a, b in urls)
            ends = not inside and not (m["wide"][-1] in "」』" and text.startswith(_QUOTATIVE, m.end()))
        else:
            ends = m["stop"] is None or _ends(text, start, m)
        # subtle: a bracket that opens after the sentence began, and closes on its line, belongs to it as a whole
        bracket = _BRACKET.search(text, start + 1, m.start()) if ends and m["line"] is None else None
        while bracket is not None and (until := _closing(text, bracket.start())) <= m.start():
            bracket = _BRACKET.search(text, max(until, bracket.end()), m.start())
        if bracket is not None and text[start : bracket.start()].strip():
            closed, ends = _closing(text, bracket.start()), False
        if ends:
            yield m.end()
            start = m.end()


def _closing(text: str, at: int) -> int:
    """The place of the bracket that closes the one at `at`; 0 where none does near it on its line."""
    depth, close = 0, {"(": ")", "[": "]"}[text[at]]
    near = text[at : at + MAX_BRACKET].splitlines()[0]
    for i, c in enumerate(near) if close in near else ():
        depth += (c == text[at]) - (c == close)
        if depth == 0:
            return at + i
    return 0


def _ends(text: str, start: int, m: regex.Match[str]) -> bool:
    """Whether a full stop, question mark or ellipsis ends the sentence that began at `start`."""
    stop, after = m["stop"], _AFTER.match(text, m.end())
    assert after is not None
    word = after["word"] or ""
    if not (word or after["other"]) or _LINE_END.match(text, m.end()):
        return True
    if word[:1].islower() and (m["closers"] or "…" in stop or stop.count(".") > 1):
        return False  # "No." he said; well … maybe
    if stop != ".":
        return True
    if _ITEM.fullmatch(text, start, m.start()):
        return False
    part = text[max(start, m.start() - MAX_ABBREVIATION) : m.start()]
    before = _BEFORE.search(part.rstrip())
    name = before[0].lstrip(".") if before is not None else ""
    small = name.lower()
    if part.rstrip() != part:  # tokenized text: mr . j . reed
        return small not in _BEFORE_MORE and (len(small) != 1 or small in "ai" or not small.isalpha())
    if small in _BEFORE_MORE or name in _BEFORE_NAME or (small in _BEFORE_NUMBER and word.isnumeric()):
        return False
    if small == "etc":
        return word[:1].isupper()
    if small in _MAY_END or name in _MAY_END_CAPITAL or _INITIALS.fullmatch(name):
        return word[:1].isupper() and word.lower() in _STARTERS
    return True
