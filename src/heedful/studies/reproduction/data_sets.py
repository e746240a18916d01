"""The data sets of the papers: where each is looked for, and the form that its files must have."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from heedful import data as datasets
from heedful.core.errors import BadInput
from heedful.data import Columns, Selection
from heedful.data.examples import CORPUS
from heedful.studies.base import Subject, disjoint
from heedful.studies.study import TRAINED_SHARES

STANDS_IN = "the embedded corpus takes the place of {}"


@dataclass(frozen=True)
class Layout:
    """How files are read: the kind and text column of `heedful.data.splits`; None: by their names and headers."""

    kind: str | None = None
    text: str | None = None


@dataclass(frozen=True)
class DataSet:
    """A data set of a paper: its name in the published tables, what it is, and the form that its files must have.

    Reports call it by its `title` up to the colon. It is looked for in the folder --data under `name` and the other
    names in `folders`; `inner` is the folder in it that has the parts, in the published archive. `labels` are those
    that the paper uses, as different copies spell them; empty: all. `layouts` are the kinds and text columns of its
    files, of which the first that can be read is taken. `min_words` and `max_words` are those of a `Selection`. Without
    --data, the embedded corpus takes the place of a data set that may be `embedded`.
    """

    name: str
    title: str
    form: str
    folders: tuple[str, ...] = ()
    inner: str = ""
    labels: tuple[tuple[str, ...], ...] = ()
    layouts: tuple[Layout, ...] = (Layout(),)
    min_words: int | None = None
    max_words: int | None = None
    embedded: bool = False

    @property
    def short(self) -> str:
        """Its name in reports."""
        return self.title.partition(":")[0]

    def find(self, folder: Path) -> Path | None:
        """Its folder or file inside this folder; upper and lower case are the same."""
        names = [name.casefold() for name in (self.name, *self.folders)]
        inside = {path.name.casefold(): path for path in sorted(folder.iterdir())}
        found = next((inside[name] for name in names if name in inside), None)
        return found / self.inner if found is not None and (found / self.inner).is_dir() else found

    def subject(self, source: str | Path) -> Subject:
        """Its texts, divided."""
        splits = self._splits(source)
        known = set(datasets.label_names([*splits.train, *splits.test]))
        spelling = next((names for names in self.labels if known.issuperset(names)), known)
        train, dev, test = (
            [e for e in part if e.label in spelling] for part in (splits.train, splits.dev, splits.test)
        )
        splits = replace(splits, train=train, dev=dev, test=test)
        parts, note = disjoint(splits)
        return Subject(self.name, Path(source).name, parts, note=note)

    def _splits(self, source: str | Path) -> datasets.Splits:
        dev_share, test_share = TRAINED_SHARES
        select = Selection(min_words=self.min_words, max_words=self.max_words)
        layouts = self.layouts if source != CORPUS else (Layout(),)
        for layout in layouts:
            try:
                return datasets.splits(
                    source,
                    Columns(layout.text),
                    dev_share=dev_share,
                    test_share=test_share,
                    kind=layout.kind,
                    select=select,
                )
            except BadInput:
                if layout is layouts[-1]:
                    raise
        raise AssertionError("a data set has a layout")

    @property
    def absence(self) -> str:
        """What is said where it is missing."""
        return f"{self.short} is not in the data; it must be a folder '{self.name}': {self.form}"


SST = DataSet(
    "sst",
    "SST-2: the Stanford Sentiment Treebank, two labels",
    "train, dev and test with a sentence and its label, 0 or 1",
    ("sst2", "sst-2"),
    embedded=True,
)
IMDB = DataSet("imdb", "IMDB", "train and test with a review and its label, 0 or 1", ("aclImdb",))
AGNEWS = DataSet(
    "agnews",
    "AG News: World against Business",
    "train and test with a description and its label",
    ("ag_news", "ag-news", "ag_news_csv"),
    labels=(("0", "2"), ("World", "Business"), ("1", "3")),
    layouts=(Layout(), Layout(text="3")),  # after the title
)
NEWSGROUPS = DataSet(
    "20news",
    "20 Newsgroups: baseball against hockey",
    "a folder for each group, a file for each message",
    ("20news_sports", "20newsgroups", "20news-bydate", "20_newsgroups", "20news-18828"),
    labels=(("rec.sport.baseball", "rec.sport.hockey"),),
    layouts=(Layout("newsgroups"),),
    min_words=7,
    max_words=499,
)
# as Jain & Wallace and Wiegreffe & Pinter use them; their limits are strict
SST_JW, IMDB_JW = replace(SST, min_words=6), replace(IMDB, min_words=7, max_words=399)
TWEET = DataSet(
    "tweet",
    "ADR tweets: adverse drug reactions",
    "train and test with a tweet and its label, 0 or 1",
    ("adr",),
    layouts=(Layout(), Layout("tweets")),
    min_words=6,
    max_words=99,
)
DIABETES, ANEMIA = (
    DataSet(
        name,
        f"MIMIC {name}: discharge summaries of MIMIC-III",
        "train, dev and test with a discharge summary and its label, 0 or 1",
    )
    for name in ("diabetes", "anemia")
)
_PAIRS = "train, dev and test with text, text_pair and label"
_JSON = (Layout(), Layout("jsonl"))  # the published archives have each part as .jsonl and as .txt
SNLI = DataSet("snli", "SNLI: entailment", _PAIRS, ("snli_1.0",), layouts=_JSON)
CNN = DataSet(
    "cnn",
    "CNN: questions on news",
    "train, dev and test with .question files, or text, text_pair and label",
    inner="questions",
)
BABI1, BABI2, BABI3 = (
    DataSet(
        f"babi{n}",
        f"bAbI {n}: questions on stories",
        f"the files qa{n}_…_train.txt and qa{n}_…_test.txt",
        (f"babi_{n}", f"qa{n}"),
    )
    for n in (1, 2, 3)
)
MRPC = DataSet("mrpc", "MRPC: paraphrases", _PAIRS)
RTE = DataSet("rte", "RTE: entailment", _PAIRS)
MNLI = DataSet("mnli", "MNLI: entailment", _PAIRS, ("multinli_1.0",), layouts=_JSON)
IMDB10 = DataSet(
    "imdb10",
    "IMDB-10: IMDB with ten ratings",
    "the files imdb.train.txt.ss, imdb.dev.txt.ss and imdb.test.txt.ss, or train and test with a review and its rating",
    ("imdb-10",),
)
_ZHANG = "train.csv and test.csv without a header: the class, then the text in {}; or with the columns text and label"
YAHOO = DataSet(
    "yahoo",
    "Yahoo Answers: ten topics",
    _ZHANG.format("three columns"),
    ("yahoo_answers_csv", "yahoo_answers"),
    layouts=(Layout(), Layout("csv-escaped", "2,3,4")),
)
AMAZON = DataSet(
    "amazon",
    "Amazon: reviews, five ratings",
    _ZHANG.format("two columns"),
    ("amazon_review_full_csv",),
    layouts=(Layout(), Layout("csv-escaped", "2,3")),
)
YELP = DataSet(
    "yelp",
    "Yelp: reviews, five ratings",
    _ZHANG.format("one column"),
    ("yelp_review_full_csv",),
    layouts=(Layout("csv-escaped"), Layout()),
)
