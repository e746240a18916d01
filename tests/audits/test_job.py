"""The protocols of papers: Jain & Wallace 2019, against a slow twin of their program, text by text with scipy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from scipy.stats import kendalltau
from torch import Tensor

import heedful
from heedful.audits.job import PROFILES, AuditRequest, battery, prepare
from heedful.audits.record import Record, load_record
from heedful.audits.verdict import NEEDED
from heedful.checks import CHECKS
from heedful.checks.tables import AgreementTables
from heedful.cli import main
from heedful.core.arrays import Floats
from heedful.core.target import Target
from heedful.data import Example
from heedful.model.classifier import Classifier
from heedful.nets.single import Single, SingleShape
from tests.support import models

SENTENCES = (
    "not funny but good", "a slow and dull film", "good", "the story is warm and the film is good fun",
    "bad film , bad story", "it was not bad at all", "great fun",
)  # fmt: skip
TEXTS = [Example(sentence) for sentence in SENTENCES]
SMALL = ["adversarial.steps=3", "permutation.draws=9"]


def network() -> Classifier:
    """One logit, and marks at the ends of a text to which attention is not allowed."""
    torch.manual_seed(0)
    t = models.tokenizer("wordpiece")
    ends = (t.cls_token_id, t.sep_token_id)
    net = Single(SingleShape(len(t), 1, ("no", "yes"), embedding=8, hidden=6, special=ends))
    return Classifier(models.loud(net, 0, 0.7), t, name="tiny")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Record:
    folder = tmp_path_factory.mktemp("runs") / "protocol"
    heedful.audit(network(), TEXTS, out=folder, profile="jain2019", settings=SMALL)
    return load_record(folder)


def importance(net: Single, ids: list[int]) -> tuple[float, dict[str, Floats]]:
    """ŷ, and the three importances of the tokens between the ends, as the authors' program computes them."""

    @torch.no_grad()
    def chance(kept: list[int]) -> float:
        return float(net(torch.tensor([kept])).logits.sigmoid())

    row = torch.tensor([ids])
    alpha = net.attend(row)
    leaf = net.words(row).detach().requires_grad_()
    states = net.encoder(leaf, torch.ones_like(row, dtype=torch.bool))[0]
    y = net.decoder((alpha[..., None] * states).sum(1)).sigmoid()  # attention is a constant
    slope: Tensor = torch.autograd.grad(y.sum(), leaf)[0]
    gradient = (leaf * slope).sum(-1).abs()[0, 1:-1].detach().double().numpy()
    loo = [abs(chance(ids) - chance(ids[:t] + ids[t + 1 :])) for t in range(1, len(ids) - 1)]
    return chance(ids), {
        "gradient-x-input": gradient / gradient.sum(),
        "leave-one-out": np.array(loo),
        "attention-mean": alpha[0, 1:-1].double().numpy(),
    }


@pytest.mark.filterwarnings("ignore:One or more sample arguments is too small")  # a text of one word
def test_the_table_is_that_of_kendalltau_text_by_text(run: Record) -> None:
    classifier = network()
    twins = [importance(classifier.model.eval(), list(classifier.tokens(text).ids)) for text in SENTENCES]
    tables = run.tables("agreement", AgreementTables)
    assert tables is not None
    for row in tables.published[:3]:
        pairs = [(y > 0.5, kendalltau(each[row.method], each[row.other])) for y, each in twins]
        for label, cell in (("all", row.all), *row.classes.items()):
            wanted = [k for yes, k in pairs if label in ("all", "yes" if yes else "no")]
            known = [k for k in wanted if not np.isnan(k.statistic)]
            assert (cell.n, cell.missing) == (len(known), len(wanted) - len(known))
            taus = [k.statistic for k in known]
            expected = (np.mean(taus), np.std(taus), np.mean([k.pvalue <= 0.05 for k in known]))
            assert (cell.mean, cell.std, cell.significant) == pytest.approx(expected, abs=1e-9)


def test_a_text_of_one_word_has_no_tau_and_is_counted(run: Record) -> None:
    tables = run.tables("agreement", AgreementTables)
    assert tables is not None
    assert [row.all.missing for row in tables.published] == [1] * 5


def test_the_default_profile_has_what_the_verdict_and_the_ranking_need() -> None:
    chosen, standard = battery(), battery("standard")
    assert chosen.to_dict()["methods"] == standard.to_dict()["methods"]
    assert set(chosen.checks) < set(standard.checks) == set(CHECKS)
    roles = {role for name in chosen.checks for role in getattr(CHECKS[name], "roles", ())}
    assert roles == {*NEEDED, "ranking", "cost"}
    assert all(len({*NEEDED, "ranking", "cost"} & set(CHECKS[name].roles)) for name in chosen.checks)


def test_a_check_that_the_default_profile_leaves_out_has_the_settings_of_standard() -> None:
    asked = ["sensitivity", "input-erasure"]
    chosen, standard = (battery(profile, checks=asked).checks for profile in ("verdict", "standard"))
    assert chosen["sensitivity"] == standard["sensitivity"] != CHECKS["sensitivity"]()
    assert chosen["input-erasure"] != standard["input-erasure"]


def test_the_profile_has_the_settings_of_the_paper() -> None:
    chosen = battery("jain2019").to_dict()
    assert chosen["target"] == {"label": None, "scale": "probability", "against": None}
    gradients = [name for name in chosen["methods"] if name.startswith("gradient")]
    assert gradients == ["gradient-x-input", "gradient-x-vocabulary", "gradient-states"]
    assert not any(chosen["methods"][name]["through_attention"] for name in gradients)
    loo, permutation, adversarial = (
        chosen["methods"]["leave-one-out"],
        chosen["checks"]["permutation"],
        chosen["checks"]["adversarial"],
    )
    assert (loo["masking"], loo["change"], loo["by"]) == ("delete", "variation", "token")
    assert (permutation["draws"], permutation["special"]) == (100, False)
    search = tuple(adversarial[name] for name in ("epsilon", "candidates", "steps", "loss"))
    assert search == (0.05, 5, 500, "code")
    assert list(chosen["checks"]) == ["agreement", "permutation", "adversarial"]
    assert PROFILES["jain2019"].limit is None


def test_the_encoders_states_are_left_out_where_there_are_none() -> None:
    methods = prepare(AuditRequest(models.shared("bert"), TEXTS, profile="jain2019")).battery.methods
    assert "gradient-x-vocabulary" in methods
    assert "gradient-states" not in methods


@pytest.mark.parametrize(("options", "target"), [
    ((), Target(scale="probability")),
    (("--target", "1"), Target("1", "probability")),
    (("--scale", "logit"), Target(scale="logit")),
])  # fmt: skip
def test_the_command_explains_what_the_profile_does_unless_told(
    options: tuple[str, ...], target: Target, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given: list[AuditRequest] = []

    def stop(request: AuditRequest) -> None:
        given.append(request)
        raise heedful.BadInput("seen.")

    monkeypatch.setattr("heedful.audits.job.prepare", stop)
    arguments = ["audit", "corpus", "--profile", "jain2019", "--dry-run", "--out", str(tmp_path / "a"), *options]
    CliRunner().invoke(main, arguments)
    assert [request.target for request in given] == [target]
