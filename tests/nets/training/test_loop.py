"""The training loop: chooses by the validation score, survives a kill, and repeats itself to the byte."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from heedful.core.errors import BadInput
from heedful.nets.training.loop import LOG, STATE, TrainingPlan, TrainingProgress, clip, delete_state, fit, rate_share


@dataclass
class Line:
    """y = 2x + 1 through a little dropout; scores may be given."""

    told: Sequence[float] | None = None
    model: nn.Module = field(default_factory=lambda: _network())
    asked: int = 0
    identity: str = ""

    def batches(self, epoch: int) -> Sequence[Any]:
        rng = torch.Generator().manual_seed(epoch)
        return list(torch.randn(6, 5, 1, generator=rng))

    def loss(self, batch: Tensor) -> Tensor:
        loss: Tensor = ((self.model(batch) - (2 * batch + 1)) ** 2).mean()
        return loss

    def score(self) -> dict[str, float]:
        self.asked += 1
        x = torch.linspace(-1, 1, 9)[:, None]
        told = self.told[self.asked - 1] if self.told else -float(((self.model(x) - (2 * x + 1)) ** 2).mean())
        return {"fit": told}

    def decays(self, name: str) -> bool:
        return "bias" not in name


def _network() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, 1))


PLAN = TrainingPlan(epochs=4, lr=0.05, weight_decay=0.01)


class _KilledError(Exception):
    pass


def killed_at(epoch: int, step: int) -> Any:
    def watch(now: TrainingProgress) -> None:
        if (now.epoch, now.step) == (epoch, step):
            raise _KilledError

    return watch


def weights(job: Line) -> list[Tensor]:
    return [p.detach().clone() for p in job.model.parameters()]


def same(one: Line, other: Line) -> bool:
    return all(torch.equal(a, b) for a, b in zip(weights(one), weights(other), strict=True))


def test_it_learns(tmp_path: Path) -> None:
    fitted = fit(Line(), TrainingPlan(epochs=40, lr=0.02), tmp_path)
    assert max(row["fit"] for row in fitted.history) > -0.1 > fitted.history[0]["fit"]


@pytest.mark.parametrize("optimiser", ["adam", "amsgrad", "adamw"])
@pytest.mark.parametrize(("epoch", "step"), [(0, 1), (1, 6), (2, 0), (3, 5)])
def test_a_killed_run_ends_with_the_same_bytes(tmp_path: Path, optimiser: Any, epoch: int, step: int) -> None:
    plan = TrainingPlan(
        epochs=4, lr=0.05, weight_decay=0.01, optimiser=optimiser, schedule="linear", warmup=0.2, clip=1.0
    )
    (tmp_path / "whole").mkdir()
    whole = Line()
    expected = fit(whole, plan, tmp_path / "whole")
    with pytest.raises(_KilledError):
        fit(Line(), plan, tmp_path, killed_at(epoch, step), every=-1)
    resumed = Line()
    assert fit(resumed, plan, tmp_path) == expected
    assert same(resumed, whole)
    assert (tmp_path / LOG).read_bytes() == (tmp_path / "whole" / LOG).read_bytes()


def test_a_resumed_run_does_not_begin_again(tmp_path: Path) -> None:
    with pytest.raises(_KilledError):
        fit(Line(), PLAN, tmp_path, killed_at(2, 3), every=-1)
    seen: list[tuple[int, int]] = []
    fit(Line(), PLAN, tmp_path, lambda now: seen.append((now.epoch, now.step)))
    assert seen[0] == (2, 3)  # killed after the step, before its state was written


def test_more_epochs_go_on_from_a_finished_state(tmp_path: Path) -> None:
    short, longer, whole = Line(), Line(), Line()
    fit(short, TrainingPlan(epochs=2, lr=0.05), tmp_path)
    fit(longer, TrainingPlan(epochs=4, lr=0.05), tmp_path)
    (tmp_path / "whole").mkdir()
    fit(whole, TrainingPlan(epochs=4, lr=0.05), tmp_path / "whole")
    assert same(longer, whole)


def test_the_best_epoch_is_kept_and_ties_go_to_the_earlier(tmp_path: Path) -> None:
    kept = Line(told=(0.1, 0.7, 0.7, 0.3))
    assert fit(kept, PLAN, tmp_path).best == 2
    (tmp_path / "two").mkdir()
    two = Line(told=(0.1, 0.7))
    fit(two, TrainingPlan(epochs=2, lr=0.05, weight_decay=0.01), tmp_path / "two")
    assert same(kept, two)


def test_accuracy_decides_between_equal_scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = iter([(0.9, 0.8), (1.0, 0.5), (1.0, 0.7), (1.0, 0.7)])
    monkeypatch.setattr(Line, "score", lambda self: dict(zip(("roc_auc", "accuracy"), next(rows), strict=True)))
    assert fit(Line(), TrainingPlan(epochs=4), tmp_path).best == 3


def test_patience_counts_epochs_without_a_better_score(tmp_path: Path) -> None:
    fitted = fit(Line(told=(0.5, 0.6, 0.4, 0.6, 0.9)), TrainingPlan(epochs=5, patience=2), tmp_path)
    assert len(fitted.history) == 4


def test_a_plateau_halves_the_rate(tmp_path: Path) -> None:
    rates: list[float] = []

    @dataclass
    class Watched(Line):
        def loss(self, batch: Tensor) -> Tensor:
            return super().loss(batch)

    job = Watched(told=(0.5, 0.4, 0.3))
    adam = torch.optim.Adam.step

    def step(self: Any, closure: Any = None) -> Any:
        rates.append(self.param_groups[0]["lr"])
        return adam(self, closure)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.optim.Adam, "step", step)
        fit(job, TrainingPlan(epochs=3, lr=0.4, schedule="plateau"), tmp_path)
    assert rates[::6] == [0.4, 0.4, 0.2]


def test_the_linear_schedule_warms_up_and_falls_to_nothing() -> None:
    plan = TrainingPlan(schedule="linear", warmup=0.1)
    shares = [rate_share(plan, step, 100) for step in range(100)]
    assert shares[:3] == [1 / 11, 2 / 11, 3 / 11]
    assert max(shares) == shares[10] == 1.0
    assert shares[99] == pytest.approx(1 / 90)


def test_weight_decay_spares_what_the_job_spares(tmp_path: Path) -> None:
    decayed, plain = Line(), Line()
    for job, rate in ((decayed, 0.5), (plain, 0.0)):
        (tmp_path / str(rate)).mkdir()
        with torch.no_grad():
            for p in job.model.parameters():
                p.fill_(1.0)
        job.loss = lambda batch, job=job: sum(p.sum() * 0 for p in job.model.parameters())  # type: ignore[method-assign, misc]
        fit(job, TrainingPlan(epochs=1, optimiser="adamw", weight_decay=rate), tmp_path / str(rate))
    shrunk = {n: float(p.detach().max()) < 1 for n, p in decayed.model.named_parameters()}
    assert shrunk == {"0.weight": True, "0.bias": False, "3.weight": True, "3.bias": False}
    assert all(float(p.detach().max()) == 1 for p in plain.model.parameters())


def test_other_settings_do_not_continue_a_run(tmp_path: Path) -> None:
    with pytest.raises(_KilledError):
        fit(Line(), PLAN, tmp_path, killed_at(1, 1), every=-1)
    with pytest.raises(BadInput, match="unfinished training with other settings or data"):
        fit(Line(), TrainingPlan(epochs=4, lr=0.04, weight_decay=0.01), tmp_path)
    with pytest.raises(BadInput, match="unfinished training with other settings or data"):
        fit(Line(identity="other texts"), PLAN, tmp_path)


def test_a_loss_that_explodes_says_when(tmp_path: Path) -> None:
    job = Line()
    job.loss = lambda batch: job.model(batch).sum() * float("nan")  # type: ignore[method-assign]
    with pytest.raises(BadInput, match=r"the loss is nan in epoch 1, step 1; set a smaller lr \(now 0.05\)"):
        fit(job, PLAN, tmp_path)


def test_the_callers_chance_is_not_touched(tmp_path: Path) -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    fit(Line(), PLAN, tmp_path)
    assert torch.equal(torch.rand(3), expected)


def test_chance_is_the_plans(tmp_path: Path) -> None:
    jobs = [Line(), Line(), Line()]
    for job, seed, globally in zip(jobs, (0, 0, 1), (1, 2, 1), strict=True):
        folder = tmp_path / f"{seed}{globally}"
        folder.mkdir()
        torch.manual_seed(globally)
        fit(job, TrainingPlan(epochs=2, lr=0.05, seed=seed), folder)
    assert same(jobs[0], jobs[1])
    assert not same(jobs[0], jobs[2])


def test_the_log_has_a_line_per_epoch(tmp_path: Path) -> None:
    fitted = fit(Line(), PLAN, tmp_path)
    rows = [json.loads(line) for line in (tmp_path / LOG).read_text().splitlines()]
    assert rows == list(fitted.history)
    assert list(rows[0]) == ["epoch", "loss", "fit"]


def test_afterwards_the_network_answers_without_dropout(tmp_path: Path) -> None:
    job = Line()
    fit(job, PLAN, tmp_path)
    assert not any(m.training for m in job.model.modules())


def test_a_finished_run_can_be_forgotten(tmp_path: Path) -> None:
    fit(Line(), PLAN, tmp_path)
    assert (tmp_path / STATE).exists()
    delete_state(tmp_path)
    assert {p.name for p in tmp_path.iterdir()} == {LOG}


@pytest.mark.parametrize("wrong", [{"epochs": 0}, {"lr": 0.0}, {"patience": 0}, {"warmup": 1.0}, {"clip": 0.0}])
def test_plans_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(BadInput, match=rf"^{next(iter(wrong))} is a .*, not {next(iter(wrong.values()))}\.$"):
        TrainingPlan(**wrong)


@dataclass
class Words(Line):
    """Sums of word vectors."""

    model: nn.Module = field(default_factory=lambda: _bag())

    def batches(self, epoch: int) -> Sequence[Any]:
        rng = torch.Generator().manual_seed(epoch)
        return list(torch.randint(0, 6, (5, 4, 3), generator=rng))

    def loss(self, batch: Tensor) -> Tensor:
        loss: Tensor = ((self.model(batch) - (batch == 2).any(1).float()[:, None]) ** 2).mean()
        return loss

    def score(self) -> dict[str, float]:
        return {"fit": -float(self.loss(torch.arange(6)[:, None].expand(6, 3)))}


class _Bag(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.out = nn.Embedding(9, 4), nn.Linear(4, 1)

    def forward(self, ids: Tensor) -> Tensor:
        out: Tensor = self.out(self.words(ids).sum(1))
        return out


def _bag() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return _Bag()


def test_lazily_only_the_words_of_a_batch_move(tmp_path: Path) -> None:
    job = Words()
    before = [p.detach().clone() for p in job.model.parameters()]
    fit(job, TrainingPlan(epochs=3, lr=0.05, lazy=True, clip=5.0), tmp_path)
    assert isinstance(job.model, _Bag)
    moved = (job.model.words.weight.detach() != before[0]).any(1)
    assert moved.tolist() == [True] * 6 + [False] * 3
    assert not job.model.words.sparse


def test_a_first_lazy_step_is_adams(tmp_path: Path) -> None:
    jobs = [Words(), Words()]
    for job, lazy in zip(jobs, (False, True), strict=True):
        job.batches = lambda epoch: [torch.tensor([[0, 1, 2]])]  # type: ignore[method-assign]
        (tmp_path / str(lazy)).mkdir()
        fit(job, TrainingPlan(epochs=1, lr=0.05, lazy=lazy), tmp_path / str(lazy))
    for one, other in zip(weights(jobs[0]), weights(jobs[1]), strict=True):
        assert torch.allclose(one, other, atol=1e-6)


def test_a_killed_lazy_run_ends_with_the_same_bytes(tmp_path: Path) -> None:
    plan = TrainingPlan(epochs=3, lr=0.05, lazy=True)
    (tmp_path / "whole").mkdir()
    whole, resumed = Words(), Words()
    fit(whole, plan, tmp_path / "whole")
    with pytest.raises(_KilledError):
        fit(Words(), plan, tmp_path, killed_at(1, 3), every=-1)
    fit(resumed, plan, tmp_path)
    assert same(resumed, whole)


def test_clipping_is_torchs(tmp_path: Path) -> None:
    one, other = nn.Linear(3, 2), nn.Linear(3, 2)
    other.load_state_dict(one.state_dict())
    for network in (one, other):
        (network(torch.ones(4, 3)) * 7).sum().backward()
    nn.utils.clip_grad_norm_(one.parameters(), 2.0)
    clip(list(other.parameters()), 2.0)
    for p, q in zip(one.parameters(), other.parameters(), strict=True):
        assert torch.allclose(p.grad, q.grad)  # type: ignore[arg-type]
