"""Writers: the formats that a document can be written in. A new format is a line here, and its module."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from heedful.report.document import Document


@dataclass(frozen=True)
class Writer:
    """The ending of a file, and the function of heedful.report (`module`, `function`) that makes its content.

    A writer that `links` refers to the files of figures, and is given their folder.
    """

    ending: str
    module: str
    function: str
    links: bool = False

    def __call__(self, document: Document, figures: str | None = None) -> bytes:
        """The content of a file."""
        write = getattr(import_module(f"heedful.report.{self.module}"), self.function)
        content: str = write(document, figures) if self.links else write(document)
        return content.encode("utf-8")


WRITERS = {
    "html": Writer("html", "page", "document_page"),
    "md": Writer("md", "markdown", "markdown", links=True),
    "csv": Writer("csv", "markdown", "csv"),
    "latex": Writer("tex", "latex", "latex"),
}
