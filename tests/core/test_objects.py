"""Object stores: a run in one has the bytes of a run in a folder, and a part is there as a whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, cast

import pytest
from click.testing import CliRunner
from pyarrow import fs

import heedful
from heedful.audits.audit import audit
from heedful.audits.job import AuditRequest
from heedful.audits.shares import Finish, Share, compute_share
from heedful.cli import main
from heedful.core.errors import BadInput
from heedful.core.files import probe, sweep, write_files, write_new
from heedful.core.objects import ObjectPath, place_of
from heedful.data import Example
from tests.support import models, toys
from tests.support.store import ENVIRONMENT, s3_server

NETWORK = models.build("bilstm", labels=2)
TEXTS = [Example(text) for text in toys.texts(40)]
ASKED: dict[str, Any] = {"methods": ["attention-mean"], "checks": ["complexity", "cost"], "limit": 40}


def as_path(place: ObjectPath) -> Path:
    """For the functions that take a Path."""
    return cast(Path, place)


@pytest.fixture
def place(tmp_path: Path) -> ObjectPath:
    """A store whose objects are files of this machine."""
    (tmp_path / "bucket" / "run" / "parts").mkdir(parents=True)
    return ObjectPath("s3", PurePosixPath(tmp_path / "bucket" / "run"), "region=x", fs.LocalFileSystem())


def test_a_place_is_named_by_its_uri(place: ObjectPath) -> None:
    assert str(place / "a" / "b").endswith("/bucket/run/a/b?region=x")
    assert (place / "a").parent == place
    assert (place / "a").name == "a"
    assert isinstance(place_of("s3://bucket/run?region=us-east-1"), ObjectPath)
    assert place_of("s3-run") == Path("s3-run")


@pytest.mark.parametrize(
    "uri",
    [
        "s3://bucket/a%20b/run?region=x",
        "s3://key:secret@bucket/run/x?endpoint_override=localhost:1&scheme=http",
        "abfs://container@account.dfs.core.windows.net/dir/run",
        "gs://bucket/run",
    ],
)
def test_another_process_reads_the_same_place(uri: str) -> None:
    place = ObjectPath.read(uri)
    assert place.uri == uri
    again = ObjectPath.read((place / "a b" / "c").uri)
    assert (again.key, again.uri) == (place.key / "a b" / "c", (place / "a b" / "c").uri)
    assert "secret" not in str(place)
    assert "secret" not in repr(place)


@pytest.mark.parametrize("folder", ["az://bucket/run", "hdfs://x/y", "file:///tmp/run"])
def test_an_unknown_kind_of_store_is_refused(folder: str) -> None:
    with pytest.raises(
        BadInput, match=r"is not in a store that is supported; give a folder, s3://…, gs://… or abfs://…\.$"
    ):
        place_of(folder)


def test_a_folder_may_look_like_a_uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert audit(NETWORK, TEXTS[:2], ["attention-mean"], ["cost"], "run:1").complete
    assert heedful.open("run:1").summary.texts.n == 2


def test_a_store_that_does_not_answer_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    uri = "s3://bucket/run?endpoint_override=127.0.0.1:9&scheme=http&region=us-east-1"
    result = CliRunner().invoke(main, ["report", uri])
    assert result.exit_code == 2
    assert "cannot be read" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("uri", ["s3://", "s3://bucket", "s3://bucket/", "s3://bucket/run?nonsense=1"])
def test_what_is_no_folder_of_a_store_is_refused(uri: str) -> None:
    with pytest.raises(BadInput, match=r"cannot be used \(.+\); write it as s3://bucket/folder\.$"):
        place_of(uri)


def test_objects_are_put_and_read_like_files(place: ObjectPath) -> None:
    a, b = place / "a", place / "b"
    write_files({as_path(a): b"1", as_path(b): b"22"})
    assert (a.read_bytes(), b.read_bytes(), b.stat().st_size) == (b"1", b"22", 2)
    assert sorted(file.name for file in place.iterdir()) == ["a", "b", "parts"]
    assert not write_new(as_path(a), b"3")
    assert write_new(as_path(place / "c"), b"3")
    probe(as_path(place))
    sweep(as_path(place))
    assert sorted(file.name for file in place.iterdir()) == ["a", "b", "c", "parts"]
    a.unlink()
    a.unlink(missing_ok=True)
    with pytest.raises(FileNotFoundError):
        a.unlink()
    with pytest.raises(FileNotFoundError):
        a.stat()
    assert (a.exists(), b.is_file(), place.is_dir(), b.is_dir()) == (False, True, True, False)


def test_a_failed_put_leaves_out_all_later_ones(place: ObjectPath) -> None:
    files = {as_path(place / "a"): b"1", as_path(place / "absent" / "b"): b"2", as_path(place / "last"): b"3"}
    with pytest.raises(BadInput, match="cannot be written"):
        write_files(files)
    assert not (place / "last").exists()


def test_a_run_in_a_store_has_the_bytes_of_one_in_a_folder(place: ObjectPath, tmp_path: Path) -> None:
    audit(NETWORK, TEXTS, out=as_path(place), **ASKED)
    audit(NETWORK, TEXTS, out=as_path(place), **ASKED)  # resumes it
    audit(NETWORK, TEXTS, out=tmp_path / "folder", **ASKED)
    assert (place / "summary.json").read_bytes() == (tmp_path / "folder" / "summary.json").read_bytes()
    assert heedful.open(as_path(place)).complete


def test_a_study_is_not_put_into_a_store() -> None:
    result = CliRunner().invoke(main, ["study", "pruning", "corpus", "--out", "s3://bucket/study?region=us-east-1"])
    assert result.exit_code == 2
    assert "is in an object store, and a study trains models in a folder; give one (--out DIR)." in result.output


# a server


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The query of the URIs of an S3 server on this machine."""
    with s3_server() as query:
        yield query


@pytest.mark.thorough
def test_processes_and_shares_put_a_run_into_s3_with_the_bytes_of_a_folder(server: str, tmp_path: Path) -> None:
    uri = f"s3://bucket/runs/%s?{server}"
    compute_share(AuditRequest(NETWORK, TEXTS, **ASKED), uri % "shares", Share(2, 2))
    with pytest.raises(BadInput, match=r"^2 chunks are missing, of share 1/2"):
        audit(NETWORK, TEXTS, out=uri % "shares", workers=Finish(), **ASKED)
    compute_share(AuditRequest(NETWORK, TEXTS, **ASKED), uri % "shares", Share(1, 2))
    audit(NETWORK, TEXTS, out=uri % "shares", workers=Finish(), **ASKED)
    audit(NETWORK, TEXTS, out=uri % "jobs", jobs=2, **ASKED)
    audit(NETWORK, TEXTS, out=tmp_path / "folder", **ASKED)
    expected = (tmp_path / "folder" / "summary.json").read_bytes()
    for name in ("shares", "jobs"):
        place = ObjectPath.read(uri % name)
        assert (place / "summary.json").read_bytes() == expected
        assert not [file.name for file in (place / "parts").iterdir() if file.name.endswith(".part")]
    (place / "parts" / "00001.parquet").unlink()  # the last of a chunk: without it, the chunk is not finished
    assert heedful.open(uri % "shares").complete
    with pytest.raises(BadInput, match="is incomplete: 24 texts, but the summary covers 40"):
        heedful.open(uri % "jobs")
    with pytest.raises(BadInput, match="holds a different run: the seed"):
        audit(NETWORK, TEXTS, out=uri % "jobs", seed=1, **ASKED)
    audit(NETWORK, TEXTS, out=uri % "jobs", restart=True, seed=1, **ASKED)


@pytest.mark.thorough
def test_a_bucket_that_does_not_exist_is_one_sentence(server: str) -> None:
    with pytest.raises(BadInput, match=r"^'s3://nowhere/run.*' cannot be written \(.*\); choose another path\.$"):
        audit(NETWORK, TEXTS, out=f"s3://nowhere/run?{server}", **ASKED)
