"""Corpora: the files of published data sets that are no tables. Rows have a text, a pair, a label and a rationale.

Every reader is a generator that holds one line, document or story.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from heedful.core.errors import BadInput
from heedful.data.columns import Columns
from heedful.data.rows import Drop, FileRow, Reader, content, numbered_lines
from heedful.data.tables import ragged, read_jsonl, tab_records

QUESTION = ".question"  # the suffix of a file with one question
# lines of a message that quote another, or introduce what they quote
_QUOTE = re.compile(r"^(?:In article|Quoted from|[|>])|writes in|(?:writes|wrote|says|said):")


# a folder for each class


def read_folder(path: Path, _: Columns) -> Iterator[FileRow]:
    """A folder for each class with a file for each text (Maas et al. 2011); `unsup` has no class."""
    for folder, file in _files_of_classes(path):
        yield f"'{file}'", {"text": content(file), "label": folder.name}


def newsgroups(bodies: bool) -> Reader:
    """20 Newsgroups: a folder for each group with a file for each message, in Latin-1; or only their bodies."""

    def read(path: Path, _: Columns) -> Iterator[FileRow]:
        for folder, file in _files_of_classes(path):
            message = content(file, "latin-1").replace("\r\n", "\n").replace("\0", " ")
            text = message_body(message) if bodies else message
            empty = Drop("without words of their own")
            yield f"'{file}'", {"text": text, "label": folder.name} if text.strip() else empty

    return read


def message_body(message: str) -> str:
    """A message without headers, footer and quotes, as in Jain & Wallace 2019, who use scikit-learn's rules.

    Headers end at the first empty line. The footer begins at the last line that is empty or has only hyphens.
    """
    body = message.partition("\n\n")[2]
    lines = body.strip().split("\n")
    rules = [i for i, line in enumerate(lines) if not line.strip().strip("-")]
    # subtle: what consists of a footer alone is kept, with the empty lines around it
    own = lines[: rules[-1]] if rules and rules[-1] > 0 else body.split("\n")
    return "\n".join(line for line in own if not _QUOTE.search(line))


def _files_of_classes(path: Path) -> Iterator[tuple[Path, Path]]:
    classes = class_folders(path)
    if not classes:
        raise BadInput(f"'{path}' has no folder with .txt files for each class; give a file, or a folder of classes.")
    return ((folder, file) for folder in classes for file in text_files(folder))


def class_folders(path: Path) -> list[Path]:
    """The folders with the texts of one class each."""
    others = ("unsup", "train", "test")  # subtle: aclImdb/train has .txt files beside its classes
    inside = sorted(p for p in path.iterdir() if p.is_dir() and p.name not in others and p.name[0] != ".")
    return [folder for folder in inside if text_files(folder)]


def text_files(folder: Path) -> list[Path]:
    """The .txt files; where there are none, the files without a suffix (20 Newsgroups)."""
    plain = [p for p in folder.iterdir() if p.is_file() and not p.suffix and p.name[0] != "."]
    return sorted(folder.glob("*.txt")) or sorted(plain)


# a line or a paragraph for each text


def read_ratings(path: Path, _: Columns) -> Iterator[FileRow]:
    """Tang et al. 2015 (IMDB and Yelp): user, product, rating and text in each line; <sssss> ends a sentence."""
    for number, line in numbered_lines(path):
        if line.strip():
            fields = line.rstrip("\r\n").split("\t\t", 3)
            if len(fields) != 4:
                found = f"'{path}' line {number} has {len(fields)} fields"
                raise BadInput(f"{found}; write user, product, rating and text, with two tabs between them.")
            sentences = (sentence.strip() for sentence in fields[3].split("<sssss>"))
            yield f"'{path}' line {number}", {"text": "\n".join(filter(None, sentences)), "label": fields[2]}


def read_tweets(path: Path, _: Columns) -> Iterator[FileRow]:
    """Sarker & Gonzalez 2015 (adverse drug reactions): label and tweet, after the numbers of the tweet and its author.

    The numbers may be absent. What could not be downloaded is "Not Available".
    """
    for number, fields in tab_records(path):
        if len(fields) not in (2, 4):
            raise ragged(path, number, len(fields), "should have a label and a tweet, or four fields")
        gone = fields[-1].strip() == "Not Available"
        row = {"label": fields[-2], "text": fields[-1]}
        yield f"'{path}' line {number}", Drop("that are not available") if gone else row


def read_cloze(path: Path, _: Columns) -> Iterator[FileRow]:
    """Hermann et al. 2015 (CNN, Daily Mail): the text is a passage, the pair a question, the label its answer.

    A `.question` file, or a folder of them, has the address, the passage, the question, the answer and the names of the
    entities, separated by empty lines. Another file has the lines question, answer and passage for each question, as
    Chen et al. 2016 write them. "@entity5" becomes the word "entity5", which can be a network's answer.
    """
    if path.is_dir() or path.suffix == QUESTION:
        for file in sorted(path.glob(f"*{QUESTION}")) if path.is_dir() else [path]:
            fields = [" ".join(lines) for _, lines in _paragraphs(file)]
            yield _cloze(f"'{file}'", [*fields[2:4], *fields[1:2]])
    else:
        yield from (_cloze(f"'{path}' line {number}", lines) for number, lines in _paragraphs(path))


def _paragraphs(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Lines between empty lines, with the number of the first."""
    lines: list[str] = []
    number = 0
    for number, line in numbered_lines(path):
        if line.strip():
            lines.append(line.strip())
        elif lines:
            yield number - len(lines), lines
            lines = []
    if lines:
        yield number - len(lines) + 1, lines


def _cloze(where: str, fields: list[str]) -> FileRow:
    """A row of a question, its answer and its passage."""
    if len(fields) != 3 or "@placeholder" not in fields[0] or not re.fullmatch(r"@entity\d+", fields[1]):
        raise BadInput(f"{where} is not a question with @placeholder, its answer such as @entity5, and a passage.")
    question, answer, passage = (re.sub(r"@(?=entity\d|placeholder)", "", field) for field in fields)
    return where, {"text": passage, "pair": question, "label": answer}


# a tree or a story for each text


def trees(five: bool, phrases: bool) -> Reader:
    """Socher et al. 2013: a tree in each line; two classes drop neutral texts, phrases are all subtrees."""

    def read(path: Path, _: Columns) -> Iterator[FileRow]:
        for number, line in numbered_lines(path):
            where = f"'{path}' line {number}"
            subtrees = _subtrees(line, where) if line.strip() else []
            for score, text in subtrees if phrases else subtrees[-1:]:
                if five or score != 2:
                    yield where, {"text": text, "label": str(score) if five else ("negative", "positive")[score > 2]}
                else:
                    yield where, Drop("that are neutral")

    return read


def _subtrees(line: str, where: str) -> list[tuple[int, str]]:
    """Every subtree's score and words, the whole tree last; escaped brackets and slashes are restored."""
    done: list[tuple[int, str]] = []
    stack: list[tuple[int, int]] = []
    words: list[str] = []
    for opened, word, closed in re.findall(r"\(\s*([0-4])\s|([^\s()]+)|(\))", line):
        if opened:
            stack.append((int(opened), len(words)))
        elif word:
            words.append(word.replace("-LRB-", "(").replace("-RRB-", ")").replace("\\/", "/").replace("\\*", "*"))
        if closed and stack:
            score, start = stack.pop()
            done.append((score, " ".join(words[start:])))
    balanced = line.count("(") == line.count(")") == len(done)
    if not (balanced and words and done[-1][1] == " ".join(words)):
        raise BadInput(f"{where} is not one tree with scores from 0 to 4, such as (3 (2 So) (3 good)).")
    return done


def read_babi(path: Path, _: Columns) -> Iterator[FileRow]:
    """Weston et al. 2016: numbered statements and questions; the text of a question is the story before it."""
    story, spans = "", dict[str, tuple[int, int]]()
    for number, line in numbered_lines(path):
        where = f"'{path}' line {number}"
        if not line.strip():
            continue
        match = re.fullmatch(r"(\d+) ([^\t]+)(?:\t([^\t]+)(?:\t([\d ]*))?)?", line.strip())
        if match is None:
            raise BadInput(f"{where} is neither 'number statement' nor 'number question, answer, lines' with tabs.")
        index, sentence, answer, support = match.groups()
        if index == "1":
            story, spans = "", {}
        if answer is None:
            start = len(story) + bool(story)
            story += (" " if story else "") + sentence.strip()
            spans[index] = (start, len(story))
            continue
        marks = support.split() if support is not None else []
        lost = [mark for mark in marks if mark not in spans]
        if lost:
            raise BadInput(f"{where} is supported by statement {lost[0]}, which is not in its story.")
        marked = [spans[mark] for mark in marks] if marks else None
        yield where, {"text": story, "pair": sentence.strip(), "label": answer.strip(), "rationale_characters": marked}


# annotations beside documents


def read_eraser(path: Path, columns: Columns) -> Iterator[FileRow]:
    """DeYoung et al. 2020: annotations beside a folder docs/; evidence is counted in tokens of the whole document."""
    for where, row in read_jsonl(path, columns):
        assert isinstance(row, Mapping)
        try:
            marks = [mark for group in row["evidences"] for mark in group]
            named = [mark["docid"] for mark in marks] or row.get("docids") or [row["annotation_id"]]
            label, query = row["classification"], row.get("query")
        except (KeyError, TypeError) as e:
            raise BadInput(f"{where} is not an ERASER annotation ({e}); give its kind, or correct the line.") from e
        text, spans = "", list[tuple[int, int]]()
        for docid in dict.fromkeys(named):
            text += "\n" if text else ""
            document = _document(path.parent / "docs", docid, where)
            spans += [_evidence(document, len(text), m, where) for m in marks if m["docid"] == docid]
            text += document
        yield where, {"text": text, "pair": query or None, "label": label, "rationale_characters": spans}


def _document(folder: Path, docid: Any, where: str) -> str:
    path = folder / str(docid)
    if not path.resolve().is_relative_to(folder.resolve()) or not path.is_file():
        raise BadInput(f"{where} names the document '{docid}', which is not in '{folder}'; add one file per document.")
    return content(path)


def _evidence(document: str, offset: int, mark: Mapping[str, Any], where: str) -> tuple[int, int]:
    tokens = [match.span() for match in re.finditer(r"[^ \r\n]+", document)]
    begin, end = mark.get("start_token"), mark.get("end_token")
    if not (isinstance(begin, int) and isinstance(end, int) and 0 <= begin <= end <= len(tokens)):
        raise BadInput(f"the evidence [{begin}, {end}) in {where} is not inside the document's {len(tokens)} tokens.")
    return (offset + tokens[begin][0], offset + tokens[end - 1][1]) if begin < end else (0, 0)
