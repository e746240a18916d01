"""Papers by one command: what a paper trains, audits and studies, with its published numbers beside ours."""

from __future__ import annotations

from heedful.core.catalogue import Catalogue

PAPERS = Catalogue(
    "paper",
    "papers",
    __name__,
    {
        "lopardo2024": "lopardo2024:Lopardo2024",
        "jain2019": "jain2019:Jain2019",
        "wiegreffe2019": "wiegreffe2019:Wiegreffe2019",
        "serrano2019": "serrano2019:Serrano2019",
        "poster": "poster:Poster",
        "hao2021": "hao2021:Hao2021",
        "seq2seq": "seq2seq:Seq2SeqPapers",
    },
    listing="heedful reproduce --list",
)
