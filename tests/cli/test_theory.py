"""heedful theory: LIME and gradients beside their closed forms, computed, printed, written as JSON and drawn."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch
from click.testing import CliRunner, Result
from matplotlib.axes import Axes
from matplotlib.patches import PathPatch
from matplotlib.text import Annotation

import heedful.model.loading
from heedful.cli import main
from heedful.core.errors import BadInput, Unsupported
from heedful.core.explanation import Attribution
from heedful.core.target import Target
from heedful.methods.explain import Step, explain
from heedful.methods.lime import Lime
from heedful.methods.theory import TheoryLime
from heedful.methods.theory_comparison import (
    FORMS,
    REDUCES,
    Form,
    Gradients,
    TheoryComparison,
    Trial,
    closeness,
    compare_gradients,
    compare_with_theory,
)
from heedful.report.figures import draw_paper, draw_theory, encode
from heedful.report.figures.sheet import Picture
from heedful.report.figures.theory import MAX_LETTERS, MAX_WORDS, WORDS_PER_ROW, Coefficients
from tests.report.test_terminal import cut
from tests.support.models import build, multihead

TEXT = "The film was not funny, but the ending was warm and the music was good"
QUICK = Trial(runs=3, samples=60)


@pytest.fixture(scope="module")
def classifier() -> heedful.Classifier:
    return multihead()


@pytest.fixture(scope="module")
def found(classifier: heedful.Classifier) -> TheoryComparison:
    return compare_with_theory(classifier, TEXT, QUICK)


def by_word(why: Any) -> dict[str, float]:
    """Coefficients of the distinct words, their occurrences added up."""
    assert isinstance(why, Attribution)
    words: dict[str, float] = {}
    for word, score in why.by("word").as_list():
        words[word] = words.get(word, 0.0) + score
    return words


# what is compared


def test_words_are_distinct_and_in_reading_order(found: TheoryComparison) -> None:
    assert found.words == tuple(dict.fromkeys(TEXT.replace(",", " ,").split()))


def test_each_run_can_be_made_again_by_its_seed(classifier: heedful.Classifier, found: TheoryComparison) -> None:
    settings = Lime(masking="unk", by="bag", samples=60)
    for run, seed in zip(found.runs, QUICK.seeds(), strict=True):
        again = by_word(explain(classifier, TEXT, settings, seed=seed))
        assert run == pytest.approx([again[word] for word in found.words], abs=1e-12)


def test_runs_are_independent_and_other_seeds_give_others(found: TheoryComparison) -> None:
    assert len({run.tobytes() for run in found.runs}) == 3
    assert not set(Trial(seed=0).seeds()) & set(Trial(seed=1).seeds())


@pytest.mark.parametrize("form", FORMS)
def test_forms_are_those_of_theory_lime(form: Any, classifier: heedful.Classifier, found: TheoryComparison) -> None:
    twin = by_word(explain(classifier, TEXT, TheoryLime(form=form)))
    assert found.forms[form] == pytest.approx([twin[word] for word in found.words], abs=1e-12)


def coordinates_by_hand(classifier: heedful.Classifier) -> tuple[torch.Tensor, torch.Tensor]:
    """e_t and its gradient: a shift of a position is a shift of e_t."""
    net, ids = classifier.model, torch.tensor([classifier.tokens(TEXT).ids])
    whole = net.positions.clone()
    net.positions = whole.clone().requires_grad_()
    best = int(net(ids).logits[0].argmax())
    slopes = torch.autograd.grad(net(ids).logits[0, best], net.positions)[0][: ids.shape[1]]
    net.positions = whole
    return (net.words.weight[ids[0]] + whole[: ids.shape[1]]).detach(), slopes


def by_hand(classifier: heedful.Classifier, how: str) -> list[float]:
    """The gradient, reduced."""
    vectors, slopes = coordinates_by_hand(classifier)
    each = {"x-input": slopes * vectors, "l1": slopes.abs(), "l2": slopes**2, "mean": slopes / slopes.shape[1]}
    reduced = each[how].sum(-1)
    return [float(x) for x in (reduced.sqrt() if how == "l2" else reduced)]


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("how", REDUCES)
def test_the_gradient_and_theorem_4_1_are_the_gradient_by_hand(how: Any, masked: bool) -> None:
    wide = multihead(masked=masked)
    wide.model.double()
    found = compare_with_theory(wide, TEXT, Trial(runs=1, samples=2, reduce=how))
    twin = by_hand(wide, how)
    assert found.gradient == pytest.approx(twin, abs=1e-12)
    assert found.slopes == pytest.approx(twin, abs=1e-12)
    assert found.worst < 1e-12


def test_the_theorem_as_stated_is_off_at_the_first_token_alone(found: TheoryComparison) -> None:
    differs = np.abs(found.stated - found.gradient) > 1e-5
    assert differs.tolist() == [True] + [False] * (len(found.tokens) - 1)
    assert found.overlooked == abs(found.stated[0] - found.gradient[0])


@pytest.mark.parametrize("masked", [True, False])
def test_every_coordinate_is_the_gradient_by_hand(masked: bool) -> None:
    wide = multihead(masked=masked)
    wide.model.double()
    tokens = wide.tokens(TEXT)
    found = compare_gradients(wide, tokens, Target(0))
    vectors, slopes = coordinates_by_hand(wide)
    for got in (found.autograd, found.theory):
        np.testing.assert_allclose(got, slopes, atol=1e-12)
    np.testing.assert_allclose(found.vectors, vectors, atol=1e-12)
    assert np.abs(found.published - found.autograd).max(1).argmax() == 0


def test_coordinates_are_summarised_by_their_largest_differences() -> None:
    autograd = np.array([[1.0, -3.0], [0.5, 0.0]])
    theory = autograd + np.array([[0.0, 0.1], [0.2, 0.0]])
    published = autograd + np.array([[-0.7, 0.1], [0.3, 0.0]])
    assert Gradients(autograd, autograd, theory, published).summary() == pytest.approx(
        {"count": 4, "largest": 3.0, "worst": 0.2, "worst_as_stated": 0.7, "worst_as_stated_elsewhere": 0.3}
    )


def test_the_papers_explainers_are_the_seven_of_its_figure(classifier: heedful.Classifier) -> None:
    whys = explain(classifier, TEXT, QUICK.explainers())
    scores = {why.method: why.scores for why in whys if isinstance(why, Attribution)}
    assert list(scores) == [
        "attention-mean", "attention-max", "lime", "gradient-mean", "gradient-l1", "gradient-l2", "gradient-x-input"
    ]  # fmt: skip
    assert scores["gradient-x-input"] == pytest.approx(by_hand(classifier, "x-input"), abs=1e-5)


def test_with_many_samples_lime_is_at_the_exact_form_and_not_at_the_papers(classifier: heedful.Classifier) -> None:
    found = compare_with_theory(classifier, TEXT, Trial(runs=3, samples=4000))
    exact, paper = found.agreement("exact").off, found.agreement("paper").off
    assert exact is not None
    assert paper is not None
    assert exact < 0.02 < 0.1 < paper


def test_the_target_is_the_predicted_label_or_the_one_asked_for(classifier: heedful.Classifier) -> None:
    one, other, both = (compare_with_theory(classifier, TEXT, QUICK, t) for t in (1, 2, Target(1, against=2)))
    assert str(compare_with_theory(classifier, TEXT, QUICK).target) == "logit of LABEL_0"
    assert str(both.target) == "logit of LABEL_1 against LABEL_2"
    assert both.runs == pytest.approx(one.runs - other.runs, abs=1e-6)
    assert both.gradient == pytest.approx(one.gradient - other.gradient, abs=1e-6)


def test_a_word_of_both_texts_of_a_pair_is_two_words(classifier: heedful.Classifier) -> None:
    assert compare_with_theory(classifier, "good film", QUICK, pair="good music").words == (
        "good",
        "film",
        "good",
        "music",
    )


def test_progress_hears_of_every_run(classifier: heedful.Classifier) -> None:
    heard: list[Step] = []
    compare_with_theory(classifier, TEXT, QUICK, watch=heard.append)
    assert heard == [Step("LIME, run", n, 3, 60) for n in (1, 2, 3)]


# how well they agree


def test_agreement_is_pearson_kendall_and_a_relative_distance() -> None:
    rng = np.random.default_rng(0)
    one, other = rng.normal(size=(2, 30)).round(1)
    near = closeness(one, other)
    assert near.pearson == pytest.approx(scipy.stats.pearsonr(one, other).statistic)
    signs = [np.sign((one[i] - one[j]) * (other[i] - other[j])) for i, j in combinations(range(30), 2)]
    untied = [sum(a != b for a, b in combinations(x.tolist(), 2)) for x in (one, other)]
    assert near.kendall == pytest.approx(sum(signs) / np.sqrt(untied[0] * untied[1]))
    assert near.off == pytest.approx(np.sqrt(((one - other) ** 2).sum() / (other**2).sum()))


@pytest.mark.parametrize(("found", "measured", "off"), [([1.0], [2.0], 0.5), ([1.0, 2.0], [0.0, 0.0], None)])
def test_where_nothing_varies_there_is_no_correlation(
    found: list[float], measured: list[float], off: float | None
) -> None:
    near = closeness(np.array(found), np.array(measured))
    assert (near.pearson, near.kendall, near.off) == (None, None, off)


def test_chance_is_the_standard_error_of_the_mean(found: TheoryComparison) -> None:
    errors = scipy.stats.sem(found.runs, axis=0)
    assert found.chance == pytest.approx(np.linalg.norm(errors) / np.linalg.norm(found.runs.mean(0)))


def test_a_single_run_tells_nothing_of_chance(classifier: heedful.Classifier) -> None:
    assert compare_with_theory(classifier, TEXT, Trial(runs=1, samples=20)).chance is None


# what is refused


def test_a_model_of_another_kind_is_refused_before_lime_runs() -> None:
    other = build("bilstm")
    with pytest.raises(Unsupported, match="tiny-bilstm is a Single; theory-lime applies to a"):
        compare_with_theory(other, TEXT)
    assert other.forwards <= 1


@pytest.mark.parametrize(("settings", "message"), [
    ({"runs": 0}, "runs is a whole number of at least 1, not 0."),
    ({"samples": 1}, "samples is a whole number of at least 2, not 1."),
    ({"masking": "delete"}, "masking 'delete' replaces no word by a token; use mask, unk, pad or token:WORD."),
    ({"masking": "mlm:good"}, "masking 'mlm:good' replaces no word by a token; use mask, unk, pad or token:WORD."),
    ({"reduce": "max"}, "reduce 'max' is not one of x-input, l2, l1, mean; did you mean 'mean'?"),
])  # fmt: skip
def test_settings_that_mean_nothing_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput) as refused:
        Trial(**settings)
    assert str(refused.value) == message


# the command


def run(monkeypatch: pytest.MonkeyPatch, classifier: heedful.Classifier, *args: str) -> Result:
    monkeypatch.setattr(heedful.model.loading, "load", lambda *_, **__: classifier)
    quick = ["--runs", "3", "--samples", "60"]
    return CliRunner().invoke(main, ["theory", *args, *quick], env={"COLUMNS": "100", "NO_COLOR": "1"})


def test_json_is_one_line_with_all_that_was_found(
    monkeypatch: pytest.MonkeyPatch, classifier: heedful.Classifier, found: TheoryComparison
) -> None:
    result = run(monkeypatch, classifier, TEXT, "--json")
    assert (result.exit_code, result.stdout) == (0, found.to_json() + "\n")
    read = json.loads(result.stdout)
    assert [row["word"] for row in read["words"]] == list(found.words)
    assert [row["runs"] for row in read["words"]] == found.runs.T.tolist()
    assert [row["gradient"] for row in read["tokens"]] == found.gradient.tolist()
    assert read["agreement"]["paper"] == asdict(found.agreement("paper"))
    assert read["seeds"] == QUICK.seeds()
    assert read["coordinates"] == found.gradients.summary()


def test_words_are_listed_by_size_and_the_rest_is_counted(
    monkeypatch: pytest.MonkeyPatch, classifier: heedful.Classifier, found: TheoryComparison
) -> None:
    lines = run(monkeypatch, classifier, TEXT, "--words", "4").stdout.splitlines()
    start = next(i for i, line in enumerate(lines) if line.split()[:2] == ["word", "LIME"]) + 1
    largest = sorted(range(len(found.words)), key=lambda j: -abs(found.mean[j]))[:4]
    assert [line.split()[0] for line in lines[start : start + 4]] == [found.words[j] for j in largest]
    shown = [float(cell.replace("−", "-")) for cell in lines[start].split()[1:]]
    own = found.runs[:, largest[0]]
    forms = [found.forms[form][largest[0]] for form in FORMS]
    assert shown == pytest.approx([own.mean(), own.min(), own.max(), *forms], abs=1e-4)
    assert lines[start + 4] == f"… and {len(found.words) - 4} more words: see them with --words or --json"


def test_agreement_and_the_worst_difference_are_printed(
    monkeypatch: pytest.MonkeyPatch, classifier: heedful.Classifier, found: TheoryComparison
) -> None:
    shown = run(monkeypatch, classifier, TEXT).stdout
    near = found.agreement("derived")
    row = next(line for line in shown.splitlines() if line.startswith("derived")).replace("−", "-").split()
    assert row == ["derived", f"{near.pearson:+.4f}", f"{near.kendall:+.4f}", f"{near.off:.1%}"]
    assert f"gradient and theory differ by at most {found.worst:.1e}\n".replace("-", "−") in shown
    worst = found.gradients.summary()["worst"]
    assert f"the {found.gradients.theory.size} coordinates, of which the largest has" in shown
    assert f", by at most {worst:.1e}\n".replace("e-", "e−") in shown


def test_a_figure_is_written_and_announced(
    monkeypatch: pytest.MonkeyPatch, classifier: heedful.Classifier, tmp_path: Path
) -> None:
    file = tmp_path / "theory.png"
    result = run(monkeypatch, classifier, TEXT, "--figure", str(file), "--json")
    assert (result.exit_code, result.stderr) == (0, f"wrote {file}\ndevice: cpu\n")
    assert file.read_bytes().startswith(b"\x89PNG")


def test_every_figure_of_the_paper_is_written_into_a_folder(
    monkeypatch: pytest.MonkeyPatch, classifier: heedful.Classifier, tmp_path: Path
) -> None:
    folder = tmp_path / "new" / "figures"
    result = run(monkeypatch, classifier, TEXT, "--figures", str(folder), "--json")
    assert (result.exit_code, result.stderr) == (0, f"wrote {folder}\ndevice: cpu\n")
    names = ["attention.svg", "explainers.svg", "gradient.svg", "lime.svg", "network.svg"]
    assert sorted(file.name for file in folder.iterdir()) == names
    assert all(file.read_bytes().startswith(b"<?xml") for file in folder.iterdir())


def test_a_folder_for_figures_is_refused_if_it_is_a_file_and_left_out_after_an_error(
    monkeypatch: pytest.MonkeyPatch, classifier: heedful.Classifier, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("mine")
    result = run(monkeypatch, classifier, TEXT, "--figures", str(tmp_path / "file"))
    assert (result.exit_code, result.stderr) == (2, f"heedful: '{tmp_path / 'file'}' is a file; give a folder.\n")
    assert run(monkeypatch, build("bilstm"), TEXT, "--figures", str(tmp_path / "figures")).exit_code == 2
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(("args", "message"), [
    ([TEXT, "--masking", "delete"], "masking 'delete' replaces no word by a token; use mask, unk, pad or token:WO"),
    ([TEXT, "--figure", "x.gif"], "'x.gif' does not end in .png, .pdf or .svg; give a figure one of these endings."),
    ([TEXT, "--target", "LABEL_9"], "label 'LABEL_9' is not one of"),
    ([""], "the text is empty; give at least one word."),
])  # fmt: skip
def test_what_cannot_be_done_is_said_in_one_sentence(
    args: list[str], message: str, monkeypatch: pytest.MonkeyPatch, classifier: heedful.Classifier
) -> None:
    result = run(monkeypatch, classifier, *args)
    assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert result.stderr.startswith(f"heedful: {message}")


def test_the_command_refuses_another_model(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(monkeypatch, build("bilstm"), TEXT)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.endswith(
        "applies to a heedful.nets.MultiHead, the single-layer attention classifier of its paper.\n"
    )


# the figure


def made(found: TheoryComparison, words: int, repeat: str = "extraordinarily") -> TheoryComparison:
    """The same with so many words, long ones among them, and as many tokens."""
    rng = np.random.default_rng(words)
    names = tuple(repeat if i % 3 == 0 else f"w{i}" for i in range(words))
    size = rng.normal(size=words) * 0.95 ** np.arange(words)
    forms: dict[Form, Any] = {"exact": size, "derived": size * 1.01, "paper": size * 1.4}
    tokens = cut(" ".join(names))
    slopes = rng.normal(size=(len(tokens), 1)) ** 3
    gradients = Gradients(np.ones_like(slopes), slopes, slopes, np.r_[slopes[:1] + 0.4, slopes[1:]])
    return replace(
        found, tokens=tokens, words=names, runs=size + 0.03 * rng.normal(size=(5, words)), forms=forms,
        gradients=gradients, trial=Trial(),
    )  # fmt: skip


def names(axes: Axes) -> list[str]:
    return [label.get_text() for label in axes.get_xticklabels()]


def marked(axes: Axes, marker: str) -> list[float]:
    return next(np.asarray(line.get_ydata()).tolist() for line in axes.get_lines() if line.get_marker() == marker)


def test_words_are_drawn_by_size_with_theorys_marks_on_their_boxes(found: TheoryComparison) -> None:
    axes = draw_theory(found).axes[0]
    order = sorted(range(len(found.words)), key=lambda j: -abs(found.mean[j]))
    assert names(axes) == [found.words[j] for j in order]
    assert marked(axes, "x") == [found.forms["exact"][j] for j in order]
    assert marked(axes, "D") == [found.forms["paper"][j] for j in order]
    assert marked(axes, "+") == [found.forms["derived"][j] for j in order]
    boxes = [patch.get_path().get_extents() for patch in axes.patches if isinstance(patch, PathPatch)]
    quartiles = np.percentile(found.runs[:, order], [25, 75], axis=0).T
    assert [[box.y0, box.y1] for box in boxes] == [pytest.approx(ends) for ends in quartiles.tolist()]


def test_the_gradient_lies_over_theory_and_the_ring_over_the_theorem_as_stated(found: TheoryComparison) -> None:
    axes = draw_theory(found).axes[-1]
    points, ring = [line for line in axes.get_lines() if line.get_marker() == "o"]
    assert np.asarray(points.get_xdata()).tolist() == found.slopes.tolist()
    assert np.asarray(points.get_ydata()).tolist() == found.gradient.tolist()
    assert (np.asarray(ring.get_xdata())[0], np.asarray(ring.get_ydata())[0]) == (found.stated[0], found.gradient[0])


def test_every_coordinate_lies_over_theory_and_over_the_theorem_as_stated(
    classifier: heedful.Classifier, found: TheoryComparison
) -> None:
    drawn = draw_paper(found, explain(classifier, TEXT, ["random", "attention-weights"]), classifier.model.config)
    panels, slopes = drawn["gradient"].axes[:2], found.gradients
    for axes, theory in zip(panels, (slopes.theory, slopes.published), strict=True):
        others, first = [line for line in axes.get_lines() if line.get_marker() == "o"]
        for line, rows in ((others, slice(1, None)), (first, slice(0, 1))):
            assert np.asarray(line.get_xdata()).tolist() == theory[rows].ravel().tolist()
            assert np.asarray(line.get_ydata()).tolist() == slopes.autograd[rows].ravel().tolist()


def extents(figure: Picture, axes: Axes) -> tuple[list[Any], list[Any]]:
    """Where the words below a panel and the names inside it stand, in pixels."""
    canvas: Any = figure.canvas
    renderer = canvas.get_renderer()
    words = [label.get_window_extent(renderer) for label in axes.get_xticklabels() if label.get_text()]
    notes = [note for note in axes.texts if isinstance(note, Annotation)]
    for note in notes:
        note.get_window_extent(renderer)  # subtle: this places it, but gives the extent of its line too
    return words, [super(Annotation, note).get_window_extent(renderer) for note in notes]


@pytest.mark.parametrize("words", [2, 74, 200])
def test_no_name_touches_another_or_leaves_the_sheet(words: int, found: TheoryComparison) -> None:
    figure = draw_theory(made(found, words))
    width, height = figure.get_size_inches() * figure.dpi
    for axes in figure.axes:
        below, inside = extents(figure, axes)
        assert all(one.x1 < other.x0 for one, other in pairwise(below))
        assert not any(one.overlaps(other) for one, other in combinations(inside, 2))
        assert all(min(b.x0, b.y0) >= 0 and b.x1 <= width and b.y1 <= height for b in [*below, *inside])
    assert len(extents(figure, figure.axes[-1])[1]) > 1


def test_many_words_go_on_below_and_the_largest_are_shown(found: TheoryComparison) -> None:
    many = made(found, 200)
    rows = [names(axes) for axes in draw_theory(many).axes[:-1]]
    largest = [many.words[j] for j in many.order[:MAX_WORDS]]
    shown = [name.rstrip("…") for row in rows for name in row]
    assert shown == [w if len(w) <= MAX_LETTERS else w[: MAX_LETTERS - 1] for w in largest]
    assert max(map(len, rows)) <= WORDS_PER_ROW
    note = Coefficients(many).texts()[-1]
    assert f"the {MAX_WORDS} largest of 200 words" in note


def test_the_same_comparison_is_drawn_the_same(found: TheoryComparison) -> None:
    assert encode(draw_theory(found), "svg") == encode(draw_theory(found), "svg")


def test_nothing_in_a_word_breaks_the_figure(found: TheoryComparison) -> None:
    nasty = ("$x^2$", "日本語", "\\frac{1}", "👩‍👧", "a_b", "$")
    drawn = draw_theory(replace(made(found, 6), words=nasty))
    assert encode(drawn, "png").startswith(b"\x89PNG")
    assert "$x^2$" in names(drawn.axes[0])


def test_one_word_and_one_run_are_drawn(classifier: heedful.Classifier) -> None:
    alone = compare_with_theory(classifier, "good good good", Trial(runs=1, samples=20))
    assert names(draw_theory(alone).axes[0]) == ["good"]
