"""The command line as a user meets it: what it prints, what it refuses, and what it leaves behind."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result

import heedful
import heedful.core.tree
import heedful.model.loading
from heedful.cli import main
from heedful.core import files
from tests.support import processes
from tests.support.models import build
from tests.support.parameters import mostly_thorough

TEXT = "The film was not funny."
PLAIN = {"COLUMNS": "100", "NO_COLOR": None, "FORCE_COLOR": None, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
DEFAULT = Path(heedful.__file__).parent / "data" / "assets" / "model" / "model.safetensors"
Run = Callable[..., Result]


def save(classifier: heedful.Classifier, folder: Path) -> Path:
    classifier.model.save_pretrained(folder)
    classifier.tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model on disk with labels awful, fine, great."""
    classifier = build("bert")
    classifier.model.config.id2label = dict(enumerate(("awful", "fine", "great")))
    classifier.model.config.label2id = {"awful": 0, "fine": 1, "great": 2}
    return save(classifier, tmp_path_factory.mktemp("model"))


def command(*args: str, stdin: str | bytes | None = None, env: dict[str, str | None] | None = None) -> Result:
    return CliRunner().invoke(main, args, input=stdin, env=PLAIN | (env or {}))


@pytest.fixture
def run(folder: Path) -> Run:
    """`heedful explain` on the tiny model; quick unless a test says otherwise."""

    def explain(*args: str, method: str | None = "position", **more: Any) -> Result:
        chosen = ["--method", method] if method else []
        return command("explain", *args, "--model", str(folder), *chosen, **more)

    return explain


def read(result: Result) -> list[Any]:
    """Every line of stdout as an explanation."""
    assert result.exit_code == 0, result.stderr
    return [heedful.from_json(line) for line in result.stdout.split("\n") if line]


def said(result: Result) -> tuple[int, str, str]:
    return result.exit_code, result.stdout, result.stderr


def refusal(message: str) -> tuple[int, str, str]:
    return 2, "", f"heedful: {message}\n"


# commands


def test_help_names_every_command() -> None:
    assert set(main.commands) <= set(command("--help").stdout.split())


def test_an_unknown_command_suggests_the_nearest() -> None:
    assert "Did you mean 'explain'?" in command("explan").stderr


def test_an_unknown_command_exits_with_2() -> None:
    assert command("explan").exit_code == 2


@pytest.mark.parametrize("name", list(heedful.METHODS))
def test_methods_lists_each_with_its_line_and_paper(name: str) -> None:
    cls = heedful.METHODS[name]
    row = next(line for line in command("methods").stdout.splitlines() if line.split()[0] == name)
    assert (cls.summary in row, row.endswith(cls.paper)) == (True, True)


def test_methods_as_json_carry_their_settings() -> None:
    rows = {row["name"]: row for row in json.loads(command("methods", "--json").stdout)}
    layer = {"type": "a whole number or 'all'", "default": -1, "choices": None}
    assert (list(rows), rows["attention-mean"]["settings"]["layer"]) == (list(heedful.METHODS), layer)


def test_a_method_tells_all_about_itself() -> None:
    shown = command("methods", "ig").stdout
    assert shown.startswith("integrated-gradients: gradient integrated from a baseline to the text\nSundararajan")
    assert "by Gauss–Legendre nodes." in shown
    assert "  baseline           'auto', 'mask', 'pad' or 'zero'; default auto\n" in shown


def test_a_method_without_settings_says_so() -> None:
    assert command("methods", "rollout").stdout.endswith("no settings\n")


def test_one_method_as_json() -> None:
    assert [row["name"] for row in json.loads(command("methods", "IG", "--json").stdout)] == ["integrated-gradients"]


def test_an_unknown_method_cannot_be_told_about() -> None:
    assert said(command("methods", "rollou")) == refusal(
        "method 'rollou' is not known; did you mean 'rollout'? `heedful methods` lists them all."
    )


# what is explained


def test_the_prediction_is_printed_with_its_probability(run: Run) -> None:
    result = run(TEXT)
    label, chances = (p := read(run(TEXT, "--json"))[0].prediction).label, p.probabilities
    assert f"predicts {label} ({max(chances):.1%})" in result.stdout


def test_every_asked_method_has_a_row_in_the_asked_order(run: Run) -> None:
    rows = [line.split()[0] for line in run(TEXT, "-M", "uniform", "-M", "random").stdout.splitlines() if line]
    assert [row for row in rows if row in heedful.METHODS] == ["uniform", "random", "position"]


def test_without_a_method_integrated_gradients_explains(run: Run) -> None:
    assert [e.method for e in read(run(TEXT, "--json", method=None))] == ["integrated-gradients"]


@pytest.mark.parametrize(
    ("alias", "name"),
    [("ig", "integrated-gradients"), ("saliency", "gradient-l2"), ("input_x_gradient", "gradient-x-input")],
)
def test_aliases_and_underscores_are_understood(run: Run, alias: str, name: str) -> None:
    assert read(run(TEXT, "--json", method=alias))[0].method == name


def test_all_means_every_method(run: Run) -> None:
    result = run(TEXT, "--all", "--json", method=None)
    found = [e.method for e in read(result)]
    assert found == [name for name in heedful.METHODS if name in found]
    assert len(found) + result.stderr.count("skipped ") == len(heedful.METHODS)


def test_all_leaves_out_what_the_model_does_not_support(tmp_path: Path) -> None:
    fnet = save(build("fnet"), tmp_path)
    found = {e.method for e in read(command("explain", TEXT, "--model", str(fnet), "--all", "--json"))}
    assert {"gradient-l2", "random"} <= found <= set(heedful.METHODS) - {"attention-mean", "rollout"}


@pytest.mark.parametrize("target", ["great", "GREAT", "2"])
def test_a_target_is_a_name_in_any_case_or_an_index(run: Run, target: str) -> None:
    assert read(run(TEXT, "--json", "--target", target))[0].target.label == "great"


def test_one_label_against_another_is_the_difference_of_both(run: Run) -> None:
    def scores(*more: str) -> Any:
        return read(run(TEXT, "--json", *more, method="gradient-x-input"))[0].scores

    difference = scores("--target", "great") - scores("--target", "awful")
    assert scores("--target", "great", "--against", "awful") == pytest.approx(difference, abs=1e-6)


def test_the_probability_can_be_explained(run: Run) -> None:
    assert "explained: probability of awful" in run(TEXT, "--scale", "probability", "--target", "awful").stdout


def test_the_pair_is_read_as_the_second_text(run: Run) -> None:
    tokens = read(run("one film", "--pair", "two films", "--json"))[0].tokens
    assert (tokens.pair, set(tokens.segments)) == ("two films", {0, 1, None})


def test_both_texts_of_a_pair_are_printed(run: Run) -> None:
    shown = run("one film", "--pair", "two sisters", method="uniform").stdout
    assert "film" in shown.split("sisters")[0]


@pytest.mark.parametrize(("unit", "count"), [("word", 7), ("sentence", 2)])
def test_json_has_the_unit_that_is_asked_for(run: Run, unit: str, count: int) -> None:
    assert len(read(run("It was dull. Dull unbelievably!", "--json", "--by", unit))[0].tokens.content) == count


def test_json_keeps_tokens_if_no_unit_is_asked_for(run: Run) -> None:
    default, tokens = (read(run("Undulled films", "--json", *by))[0].to_json() for by in ((), ("--by", "token")))
    assert default == tokens


def test_the_terminal_shows_sentences_if_asked(run: Run) -> None:
    shown = run("It was dull. Music was good.", "--by", "sentence", method="position").stdout
    assert "It was dull.(1.00) Music was good.(" in shown


def test_the_terminal_shows_the_sentences_that_a_method_removed(run: Run) -> None:
    shown = run("It was dull. Music was good.", "--set", "leave-one-out.by=sentence", method="leave-one-out").stdout
    assert "unit sentence, 2 features" in shown
    assert "a sentence has the sum of its tokens" in shown
    one = run("It was dull", "--set", "by=sentence", method="leave-one-out").stdout
    assert "the text is one sentence" in " ".join(one.split())


@pytest.mark.parametrize(("given", "same"), [("-1", "1"), ("-2", "0")])
def test_negative_layers_count_from_the_last(run: Run, given: str, same: str) -> None:
    a, b = (read(run(TEXT, "--json", "--layer", n, method="attention-mean"))[0].scores for n in (given, same))
    assert a.tolist() == b.tolist()


def test_all_layers_are_the_mean_of_each(run: Run) -> None:
    every, *each = (
        read(run(TEXT, "--json", "--layer", n, method="attention-mean"))[0].scores for n in ("all", "0", "1")
    )
    assert every == pytest.approx(np.mean(each, axis=0))


def test_the_layer_is_set_only_where_there_is_one(run: Run) -> None:
    found = read(run(TEXT, "--json", "--layer", "0", "-M", "attention-max", method="random"))
    assert [e.source.settings.get("layer") for e in found] == [0, None]


def test_a_setting_reaches_every_method_that_has_it(run: Run) -> None:
    found = read(run(TEXT, "--json", "--set", "steps=8", "-M", "ig", method="random"))
    assert [e.source.settings.get("steps") for e in found] == [8, None]


def test_layer_and_set_layer_are_the_same(run: Run) -> None:
    a, b = (
        read(run(TEXT, "--json", *more, method="attention-mean"))[0].to_json()
        for more in (("--layer", "0"), ("--set", "layer=0"))
    )
    assert a == b


def test_the_seed_changes_chance(run: Run) -> None:
    one, two = (read(run(TEXT, "--json", "--seed", n, method="random"))[0].scores for n in "12")
    assert one.tolist() != two.tolist()


def test_the_seed_changes_nothing_but_chance(run: Run) -> None:
    one, two = (read(run(TEXT, "--json", "--seed", n, method="gradient-l2"))[0].scores for n in "12")
    assert one.tolist() == two.tolist()


def test_json_is_utf8_whatever_the_terminal(folder: Path) -> None:
    args = ["explain", "film ★", "--model", str(folder), "-M", "uniform", "--json"]
    result = CliRunner(charset="latin-1").invoke(main, args)
    assert heedful.from_json(result.stdout_bytes.decode("utf-8")).tokens.text == "film ★"


# where texts come from


def test_a_dash_reads_stdin_without_its_last_line_end(run: Run) -> None:
    assert read(run("-", "--json", stdin="two\nlines\n"))[0].tokens.text == "two\nlines"


def test_lines_of_a_file_become_json_lines_in_order(run: Run, tmp_path: Path) -> None:
    texts = [f"film {i} was {'good ' * (i % 5)}" for i in range(70)]
    (tmp_path / "texts").write_text("\n".join(texts), encoding="utf-8")
    assert [e.tokens.text for e in read(run("--file", str(tmp_path / "texts")))] == texts


def test_every_method_of_a_line_comes_before_the_next_line(run: Run) -> None:
    found = read(run("--file", "-", "-M", "uniform", stdin="one\ntwo\n"))
    assert [(e.tokens.text, e.method) for e in found] == [
        ("one", "uniform"), ("one", "position"), ("two", "uniform"), ("two", "position"),
    ]  # fmt: skip


def test_only_line_ends_end_a_line(run: Run) -> None:
    found = read(run("--file", "-", stdin="\ufeffone\u2028still one\r\ntwo\x0cstill two\n"))
    assert [e.tokens.text for e in found] == ["one\u2028still one", "two\x0cstill two"]


def test_every_line_is_read_with_the_pair(run: Run) -> None:
    assert [e.tokens.pair for e in read(run("--file", "-", "--pair", "music", stdin="one\ntwo\n"))] == ["music"] * 2


@pytest.mark.parametrize(
    ("stdin", "message"),
    [
        (b"one\n\nthree\n", "the text in line 2 is empty; give at least one word."),
        (b"one\nt\0o\n", "the text in line 2 has a NUL character at position 1, which is not text; remove it."),
        (b"", "'-' is empty; give one text per line."),
        (b"one\n[CLS]\n",
         "line 2: the text has only special tokens for this model; give at least one word."),
    ],
)  # fmt: skip
def test_a_bad_line_is_named_before_anything_is_printed(run: Run, stdin: bytes, message: str) -> None:
    assert said(run("--file", "-", stdin=stdin)) == refusal(message)


def test_a_missing_file_is_refused(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "none"
    assert said(run("--file", str(path))) == refusal(
        f"'{path}' cannot be read (No such file or directory); give a file with one text per line."
    )


def test_bytes_that_are_not_utf8_are_refused_with_line_and_position(run: Run, tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes("good\ncaf\xe9\n".encode("latin-1"))
    message = run("--file", str(tmp_path / "latin")).stderr
    assert ("line 2" in message, "position 3" in message) == (True, True)


@pytest.mark.parametrize("args", [(), (TEXT, "--file", "-")])
def test_text_and_file_exclude_each_other(run: Run, args: tuple[str, ...]) -> None:
    assert said(run(*args)) == refusal("give one text, or --file with one text per line.")


# long texts


def test_ten_thousand_words_are_cut_with_a_notice(run: Run) -> None:
    assert "Notice: the model reads 62 of this text's 10,000 tokens" in run("film " * 10_000).stdout


def test_a_text_that_may_not_be_cut_is_refused(run: Run, folder: Path) -> None:
    assert said(run("film " * 100, "--no-truncate")) == refusal(
        f"the text has 102 tokens and {folder} reads 64; shorten it, allow truncation, or use windows."
    )


def test_windows_explain_every_token_of_a_long_text(run: Run) -> None:
    found = read(run("film " * 100, "--windows", "--json", method="uniform"))[0]
    assert (int(np.count_nonzero(found.scores)), found.truncation is None) == (100, True)


# the page


@pytest.fixture
def page(tmp_path: Path) -> Path:
    return tmp_path / "page.html"


def test_the_page_is_written_whole_and_alone(run: Run, page: Path) -> None:
    run(TEXT, "--html", str(page))
    assert (page.read_text("utf-8").strip()[-7:], list(page.parent.iterdir())) == ("</html>", [page])


def test_the_page_can_be_read_by_everyone(run: Run, page: Path) -> None:
    run(TEXT, "--html", str(page))
    assert stat.S_IMODE(page.stat().st_mode) == 0o644


def test_the_page_is_announced_on_stderr(run: Run, page: Path) -> None:
    assert run(TEXT, "--html", str(page)).stderr == f"wrote {page}\ndevice: cpu\n"


def test_a_page_brings_the_head_grid_without_printing_it(run: Run, page: Path) -> None:
    shown = run(TEXT, "--html", str(page)).stdout
    assert ("attention-weights" in page.read_text("utf-8"), "attention-weights" in shown) == (True, False)


def test_a_link_to_a_page_stays_a_link(run: Run, page: Path) -> None:
    link = page.with_name("link.html")
    link.symlink_to(page)
    run(TEXT, "--html", str(link))
    assert (link.is_symlink(), page.is_file()) == (True, True)


def test_markup_in_a_text_is_escaped_in_the_page(run: Run, page: Path) -> None:
    run("<script>alert(1)</script>", "--html", str(page))
    assert "<script>alert" not in page.read_text("utf-8")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("none/page.html", "cannot be written (No such file or directory); choose another path."),
        ("", "is a folder; give a file name for the page."),
        ("n" * 300, "cannot be written (File name too long); choose another path."),
    ],
)
def test_an_unwritable_page_is_refused(run: Run, tmp_path: Path, name: str, reason: str) -> None:
    path = tmp_path / name
    assert said(run(TEXT, "--html", str(path))) == refusal(f"'{path}' {reason}")


@pytest.mark.parametrize("name", ["none/page.html", "", "n" * 300])
def test_a_refused_page_leaves_nothing_behind(run: Run, tmp_path: Path, name: str) -> None:
    run(TEXT, "--html", str(tmp_path / name))
    assert list(tmp_path.iterdir()) == []


def test_a_device_is_never_replaced_by_a_page(run: Run, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    run(TEXT, "--html", str(tmp_path / "pipe"))
    assert [stat.S_ISFIFO(path.stat().st_mode) for path in tmp_path.iterdir()] == [True]


def _read_only(*_: Any) -> Any:
    raise PermissionError(13, "Permission denied")


def test_a_read_only_folder_is_refused(run: Run, page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_new_part", _read_only)
    assert said(run(TEXT, "--html", str(page))) == refusal(
        f"'{page}' cannot be written (Permission denied); choose another path."
    )


def _full(self: Path, content: bytes) -> int:
    with self.open("wb") as file:
        file.write(content[:100])
    raise OSError(28, "No space left on device")


def test_a_disk_that_fills_up_leaves_the_old_page_alone(run: Run, page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page.write_bytes(b"old")
    monkeypatch.setattr(Path, "write_bytes", _full)
    result = run(TEXT, "--html", str(page))
    assert (result.exit_code, page.read_bytes(), list(page.parent.iterdir())) == (2, b"old", [page])


def test_a_failing_explanation_leaves_the_old_page_alone(run: Run, page: Path) -> None:
    page.write_bytes(b"old")
    result = run(TEXT, "--html", str(page), "--target", "unheard")
    assert (result.exit_code, page.read_bytes(), list(page.parent.iterdir())) == (2, b"old", [page])


def test_a_page_shows_one_text(run: Run, page: Path) -> None:
    assert said(run("--file", "-", "--html", str(page))) == refusal(
        "--html shows one text, and --file has several; leave one of them out."
    )


# the figure


@pytest.mark.parametrize(("ending", "magic"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("SVG", b"<?xml")])
def test_a_figure_is_written_whole_and_alone(run: Run, tmp_path: Path, ending: str, magic: bytes) -> None:
    path = tmp_path / f"figure.{ending}"
    result = run(TEXT, "--figure", str(path), method="attention-mean")
    assert (result.stderr, list(tmp_path.iterdir())) == (f"wrote {path}\ndevice: cpu\n", [path])
    assert path.read_bytes().startswith(magic)


def test_a_figure_and_a_page_are_written_together(run: Run, page: Path) -> None:
    figure = page.with_suffix(".svg")
    run(TEXT, "--html", str(page), "--figure", str(figure))
    assert sorted(page.parent.iterdir()) == [page, figure]


def test_a_figure_of_another_kind_is_refused_before_the_model_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "figure.jpg"
    assert said(command("explain", TEXT, "--model", "/nowhere", "--figure", str(path))) == refusal(
        f"'{path}' does not end in .png, .pdf or .svg; give a figure one of these endings."
    )


def test_a_figure_shows_one_text(run: Run) -> None:
    assert said(run("--file", "-", "--figure", "x.png")) == refusal(
        "--figure shows one text, and --file has several; leave one of them out."
    )


@pytest.mark.parametrize("more", [["--target", "unheard"], []])
def test_a_figure_that_fails_leaves_the_old_one_alone(
    run: Run, tmp_path: Path, more: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "figure.png"
    path.write_bytes(b"old")
    monkeypatch.setattr(Path, "write_bytes", _full)
    result = run(TEXT, "--figure", str(path), *more)
    assert (result.exit_code, path.read_bytes(), list(tmp_path.iterdir())) == (2, b"old", [path])


# the tree


def tree(folder: Path, *args: str) -> Result:
    return command("tree", TEXT, "--model", str(folder), "--set", "steps=5", "--set", "layers=0,1", *args)


def test_a_tree_is_printed_from_its_root(folder: Path) -> None:
    shown = tree(folder).stdout
    assert ("  the root" in shown, "built by greedy search" in shown) == (True, True)


def test_a_tree_as_json_can_be_read_back(folder: Path) -> None:
    found = heedful.core.tree.Tree.from_dict(json.loads(tree(folder, "--json", "--threshold", "0.1").stdout))
    assert (found.threshold, found.source.settings["steps"], found.source.settings["layers"]) == (0.1, 5, [0, 1])


def test_a_tree_is_made_of_the_same_attributions_as_explain(folder: Path) -> None:
    why = read(command("explain", TEXT, "--model", str(folder), "-M", "attattr", "--json"))[0]
    shown = command("tree", TEXT, "--model", str(folder), "--json").stdout
    assert json.loads(shown)["edges"] == json.loads(heedful.tree(why).to_json())["edges"]


def test_a_tree_is_written_as_a_page_and_as_a_figure(folder: Path, tmp_path: Path) -> None:
    page, figure = tmp_path / "tree.html", tmp_path / "tree.svg"
    said = tree(folder, "--html", str(page), "--figure", str(figure)).stderr
    assert said == f"wrote {page}\nwrote {figure}\ndevice: cpu\n"
    assert ("<svg" in page.read_text("utf-8"), figure.read_bytes()[:5]) == (True, b"<?xml")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--threshold", "2"],
         "threshold 2.0 is not between 0 and 1; it is a share of the largest weight of a layer."),
        (["--penalty", "1"], "greedy search has no penalty; use how='exact', or leave it out."),
        (["--set", "stesp=3"], "attattr has no setting 'stesp'; did you mean 'steps'?"),
        (["--target", "graet"], "label 'graet' is not one of 'awful', 'fine', 'great'; did you mean 'great'?"),
    ],
)  # fmt: skip
def test_a_tree_that_cannot_be_made_is_refused(folder: Path, args: list[str], message: str) -> None:
    assert said(tree(folder, *args)) == refusal(message)


# the plan


def test_a_dry_run_counts_passes(run: Run) -> None:
    rows = [" ".join(line.split()) for line in run(TEXT, "--dry-run", "-M", "ig").stdout.splitlines()]
    assert rows == ["method forward backward", "integrated-gradients 34 32", "position 0 0",
                    "the prediction itself 1 0", "total 35 32"]  # fmt: skip


def test_a_dry_run_knows_what_a_page_needs(run: Run, page: Path) -> None:
    shown = run(TEXT, "--dry-run", "--html", str(page)).stdout
    assert ("attention-weights" in shown, page.exists()) == (True, False)


def test_a_dry_run_counts_every_line_of_a_file(run: Run) -> None:
    plan = json.loads(run("--file", "-", "--dry-run", "--json", stdin="one\ntwo\n", method="gradient-l2").stdout)
    assert plan["total"] == {"forwards": 4, "backwards": 2, "exactly": True}


def test_a_dry_run_is_what_a_run_costs(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[heedful.Classifier] = []
    load = heedful.model.loading.load

    def spy(*args: Any, **more: Any) -> heedful.Classifier:
        loaded.append(load(*args, **more))
        return loaded[-1]

    monkeypatch.setattr(heedful.model.loading, "load", spy)
    run(TEXT, "-M", "rollout", method="ig")
    plan = json.loads(run(TEXT, "--dry-run", "--json", "-M", "rollout", method="ig").stdout)
    assert (loaded[0].forwards, loaded[0].backwards) == (plan["total"]["forwards"], plan["total"]["backwards"])
    assert loaded[1].forwards == 0


# what is refused


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the text is empty; give at least one word."),
        (" \n\t", "the text is empty; give at least one word."),
        ("[CLS] [SEP]", "the text has only special tokens for this model; give at least one word."),
        ("a\0b", "the text has a NUL character at position 1, which is not text; remove it."),
        ("ab\ud800c", "the text has a lone surrogate (U+D800) at position 2, which is not text; remove it."),
    ],
)
def test_what_is_no_text_is_refused(run: Run, text: str, message: str) -> None:
    assert said(run(text)) == refusal(message)


@pytest.mark.parametrize(("raw", "position"), [(b"film\0", 4), (b"fi\xfflm", 2), (b"\xed\xa0\x80", 0)])
def test_what_is_no_text_is_refused_from_stdin(run: Run, raw: bytes, position: int) -> None:
    result = run("-", stdin=raw)
    assert (result.exit_code, result.stdout, f"at position {position}," in result.stderr) == (2, "", True)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--method", "rollou"],
         "method 'rollou' is not known; did you mean 'rollout'? `heedful methods` lists them all."),
        (["--method", "rollou", "--layer", "0"],
         "method 'rollou' is not known; did you mean 'rollout'? `heedful methods` lists them all."),
        (["--target", "graet"], "label 'graet' is not one of 'awful', 'fine', 'great'; did you mean 'great'?"),
        (["--against", "graet"], "label 'graet' is not one of 'awful', 'fine', 'great'; did you mean 'great'?"),
        (["--target", "3"], "label index 3 is outside 0 … 2 (awful, fine, great)."),
        (["--target", "fine", "--against", "1"],
         "label 'fine' is compared with itself; choose two different labels."),
        (["--pair", " "], "the pair is empty; give at least one word."),
        (["--layer", "0"], "--layer sets the layer of attention methods, and position has none; leave it out."),
        (["--layer", "2", "-M", "attention-mean"], "layer 2 is not one of 0 … 1 (or negative, from the last)."),
        (["--layer", "-3", "-M", "attention-mean"], "layer -3 is not one of 0 … 1 (or negative, from the last)."),
        (["--layer", "top", "-M", "attention-mean"], "layer is a whole number or 'all', not 'top'."),
        (["--set", "layer=top", "-M", "attention-mean"], "layer is a whole number or 'all', not 'top'."),
        (["--set", "steps=many", "-M", "ig"], "steps is a whole number of at least 1, not 'many'."),
        (["--set", "ig.steps=8"], "'ig' is not among those chosen; chosen are: position."),
        (["--set", "steps=8"], "position has no setting 'steps'; known are: by."),
        (["--dtype", "int8"], "dtype 'int8' is not one of float32, float64, float16, bfloat16, auto."),
    ],
)  # fmt: skip
def test_a_wrong_choice_is_refused_with_the_way_out(run: Run, args: list[str], message: str) -> None:
    method = None if "--method" in args else "position"
    assert said(run(TEXT, *args, method=method)) == refusal(message)


def test_a_wrong_method_is_refused_before_the_model_is_loaded() -> None:
    assert "rollou" in command("explain", TEXT, "--model", "/nowhere", "--method", "rollou").stderr


def one_sentence(result: Result) -> bool:
    lines = result.stderr.splitlines()
    return (result.exit_code, result.stdout, len(lines)) == (2, "", 1) and lines[0].startswith("heedful: ")


def damaged(folder: Path, into: Path) -> Path:
    """A copy of the model with its weights cut in the middle."""
    for path in folder.iterdir():
        raw = path.read_bytes()
        (into / path.name).write_bytes(raw[: len(raw) // 2] if path.suffix == ".safetensors" else raw)
    return into


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    assert said(command("explain", TEXT, "--model", str(tmp_path))) == refusal(
        f"'{tmp_path}' has no config.json, so it is not a model folder; save one with save_pretrained."
    )


def test_damaged_weights_are_refused_in_one_sentence(folder: Path, tmp_path: Path) -> None:
    result = command("explain", TEXT, "--model", str(damaged(folder, tmp_path)))
    assert (one_sentence(result), "damaged" in result.stderr) == (True, True)


def test_a_model_that_answers_nan_is_refused_in_one_sentence(tmp_path: Path) -> None:
    classifier = build("bert")
    with torch.no_grad():
        classifier.model.classifier.weight.fill_(torch.nan)
    result = command("explain", TEXT, "--model", str(save(classifier, tmp_path)))
    assert (one_sentence(result), "not finite" in result.stderr or "NaN" in result.stderr) == (True, True)


def test_a_hub_name_out_of_reach_is_refused_in_one_sentence() -> None:
    result = command("explain", TEXT, "--model", "nobody/nothing", env={"HF_HUB_OFFLINE": "1"})
    assert (one_sentence(result), "'nobody/nothing' is not a local folder" in result.stderr) == (True, True)


def test_an_error_cannot_steer_the_terminal(run: Run) -> None:
    assert "\x07" not in run(TEXT, "--target", "\x07red").stderr


# what is explained as usual


@pytest.mark.parametrize(
    "text",
    ["good 👩‍👧 film 🎬", "הסרט היה טוב", "فيلم رائع", "cafe\u0301 a\u0308\u0323 film", "<script>x</script>", "Dull"],
)
def test_unusual_texts_are_explained_as_usual(run: Run, text: str) -> None:
    shown = run(text, method="uniform").stdout
    words = "".join(c for c in text if c.isalpha())
    assert words in "".join(c for c in shown.split("uniform")[1] if c.isalpha())


# colour


def test_a_pipe_gets_numbers_instead_of_colour(run: Run) -> None:
    shown = run(TEXT, method="position").stdout
    assert ("The(1.00)" in shown, "\x1b" in shown) == (True, False)


def test_a_terminal_gets_colour_instead_of_numbers(run: Run) -> None:
    shown = run(TEXT, env={"FORCE_COLOR": "1"}).stdout
    assert ("The(1.00)" in shown, "48;2;" in shown) == (False, True)


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb", "COLORTERM": None}])
def test_a_terminal_without_colour_gets_numbers(run: Run, env: dict[str, str | None]) -> None:
    shown = run(TEXT, env={"FORCE_COLOR": "1"} | env).stdout
    assert ("(1.00)" in shown, "8;2;" in shown) == (True, False)


def test_a_terminal_without_the_letters_gets_question_marks(folder: Path) -> None:
    args = ["explain", "é film", "--model", str(folder), "-M", "uniform"]
    result = CliRunner(charset="ascii").invoke(main, args, env=PLAIN)
    assert (result.exit_code, b"? film" in result.stdout_bytes or b"?(1.00) film" in result.stdout_bytes) == (0, True)


# the embedded default


@pytest.mark.skipif(not DEFAULT.exists(), reason="the embedded model is not there yet")
def test_without_a_model_the_embedded_default_answers() -> None:
    assert (
        read(command("explain", "A warm, funny film.", "-M", "random", "--json"))[0].source.model == "heedful-default"
    )


# real processes, with methods of another package

PLUGIN = """
import os, pathlib, sys, time
from dataclasses import dataclass
from typing import ClassVar
import numpy as np
import heedful

@dataclass(frozen=True)
class Length:
    summary: ClassVar[str] = "longer words count more"
    paper: ClassVar[str] = "nobody 2030"
    wait: ClassVar[float] = 0

    def __call__(self, classifier, tokens, target, rng):
        if self.wait:
            pathlib.Path(os.environ["ASLEEP"]).touch()
            time.sleep(self.wait)
        return heedful.Attribution(tokens=tokens, scores=np.array([len(p) for p in tokens.pieces]), signed=False)

@dataclass(frozen=True)
class Slow(Length):
    wait: ClassVar[float] = 60
"""


@pytest.fixture(scope="module")
def plugins(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a shell in which another package adds two methods, and a third that is broken."""
    site = tmp_path_factory.mktemp("site")
    (site / "longer.py").write_text(PLUGIN)
    info = site / "longer-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: longer\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[heedful.methods]\nword_length = longer:Length\nslow = longer:Slow\nbroken = longer:Missing\n"
    )
    paths = os.pathsep.join(map(str, (site, Path(heedful.__file__).parents[1])))
    return {"PYTHONPATH": paths, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "TERM": "xterm"}


# a copy of this process by default; a new Python, which takes five CPU seconds, if thorough
copied_or_new = mostly_thorough([False, True], [False])


@pytest.fixture(scope="module", params=copied_or_new, ids=["copied", "new"])
def listed(request: pytest.FixtureRequest, plugins: dict[str, str]) -> tuple[str, str]:
    with processes.command(["methods"], plugins, new=request.param) as p:
        return p.stdout.read().decode(), p.stderr.read().decode()


def test_a_method_of_another_package_is_listed(listed: tuple[str, str]) -> None:
    assert ["word-length", "longer", "words", "count", "more", "nobody", "2030"] in map(
        str.split, listed[0].split("\n")
    )


def test_a_broken_method_of_another_package_is_left_out(listed: tuple[str, str]) -> None:
    assert "broken" not in listed[0]


def test_a_broken_method_of_another_package_is_one_line_in_the_log(listed: tuple[str, str]) -> None:
    lines = listed[1].splitlines()
    assert (len(lines), "method 'broken' of longer:Missing cannot be loaded (AttributeError" in lines[0]) == (1, True)


@pytest.fixture(scope="module", params=copied_or_new, ids=["copied", "new"])
def piped(
    request: pytest.FixtureRequest, plugins: dict[str, str], folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """`heedful explain … --json --html page | head -1`, with so much JSON that the pipe breaks."""
    page = tmp_path_factory.mktemp("page") / "page.html"
    args = ["explain", "film " * 60, "--model", str(folder), "--json", "--html", str(page), "-M", "word_length"]
    with processes.command([*args, *["-M", "attention-weights"] * 4], plugins, new=request.param) as p:
        first = p.stdout.readline()
        p.stdout.close()
        said = p.stderr.read().decode()
        code = p.wait()
    return {"first": first, "stderr": said, "code": code, "page": page}


def test_a_method_of_another_package_explains(piped: dict[str, Any]) -> None:
    assert heedful.from_json(piped["first"].decode()).method == "word-length"


def test_a_reader_that_leaves_early_meets_no_error(piped: dict[str, Any]) -> None:
    assert ("Traceback" in piped["stderr"], "Exception" in piped["stderr"], piped["code"]) == (False, False, 0)


def test_a_reader_that_leaves_early_does_not_cost_the_page(piped: dict[str, Any]) -> None:
    assert piped["page"].exists()


@pytest.fixture(scope="module")
def interrupted(plugins: dict[str, str], folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A slow explanation watched on a terminal until progress shows, then stopped with Ctrl-C."""
    ours, theirs = pty.openpty()
    asleep = tmp_path_factory.mktemp("slow") / "asleep"
    args = ["explain", TEXT, "--model", str(folder), "--json", "-M", "random", "-M", "slow"]
    with processes.command(args, plugins | {"ASLEEP": str(asleep)}, terminal=theirs, new=True) as p:
        os.close(theirs)
        seen = _watch(ours, b"slow, 2 of 2", 60)
        deadline = time.monotonic() + 60
        while not asleep.exists() and time.monotonic() < deadline:  # elsewhere a library might swallow the interrupt
            seen += _watch(ours, None, 0.1)
        os.kill(p.pid, signal.SIGINT)
        seen += _watch(ours, None, 30)  # subtle: a terminal that nobody reads is full at 4 kB, and who writes waits
        os.kill(p.pid, signal.SIGKILL)  # if it has not ended by then
        out = p.stdout.read()
        code = p.wait()
    os.close(ours)
    return {"stderr": seen.decode(), "stdout": out.decode(), "code": code}


def _watch(terminal: int, until: bytes | None, seconds: float) -> bytes:
    """What a terminal shows until some words, the end, or the time."""
    seen, end = b"", time.monotonic() + seconds
    while (until is None or until not in seen) and time.monotonic() < end:
        if not select.select([terminal], [], [], 0.2)[0]:
            continue
        try:
            seen += os.read(terminal, 65536)
        except OSError:  # Linux's way to say that the other side has closed
            break
    return seen


@pytest.mark.thorough
def test_progress_shows_on_a_terminal_after_a_while(interrupted: dict[str, Any]) -> None:
    assert "slow, 2 of 2" in interrupted["stderr"]


@pytest.mark.thorough
def test_progress_stays_out_of_stdout(interrupted: dict[str, Any]) -> None:
    assert interrupted["stdout"] == ""


@pytest.mark.thorough
def test_ctrl_c_ends_with_130_and_one_line(interrupted: dict[str, Any]) -> None:
    tail = interrupted["stderr"].split("heedful: ")[-1]
    assert (interrupted["code"], tail.strip(), "Traceback" in interrupted["stderr"]) == (130, "stopped.", False)
