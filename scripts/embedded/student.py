"""The student: its tokenizer, batches, losses and training loop."""

from __future__ import annotations

import copy
import math
import random
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import AutoModelForSequenceClassification, AutoTokenizer, BertConfig, PreTrainedTokenizerFast

from . import training
from .settings import Paths, Settings, atomic
from .teacher import Outputs, load_outputs, word_starts
from .texts import ASCII, LABELS, SPELLINGS, UNLABELLED, Example, Texts
from .training import MAX_TOKENS

SPECIAL_TOKENS = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
PAD, UNK, CLS, SEP, MASK = range(len(SPECIAL_TOKENS))
RAMP_STEPS = 250
SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)  # of the last weights, in an interpolation with the best
Weights = dict[str, Tensor]


def build_tokenizer(texts: Sequence[str], s: Settings) -> PreTrainedTokenizerFast:
    """A lower-case WordPiece tokenizer."""
    normalizer = normalizers.Sequence(
        [normalizers.Replace(*pair) for pair in ASCII.items()] + [normalizers.BertNormalizer(lowercase=True)]
    )
    core = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    core.normalizer, core.pre_tokenizer = normalizer, pre_tokenizers.BertPreTokenizer()
    counts = Counter(c for text in texts for c in normalizer.normalize_str(text) if not c.isspace())
    letters = sorted(c for c, count in counts.items() if count >= 20)
    # subtle: the order of single letters varies between runs unless they are special tokens of the trainer
    first = [*SPECIAL_TOKENS.values(), *letters, *("##" + c for c in letters)]
    size: dict[str, Any] = {"vocab_size": s.vocabulary, "limit_alphabet": len(letters)}
    core.train_from_iterator(texts, trainers.WordPieceTrainer(**size, special_tokens=first, show_progress=False))
    # a new model, in which the letters are no special tokens
    final = Tokenizer(models.WordPiece(core.get_vocab(), unk_token="[UNK]"))
    final.normalizer, final.pre_tokenizer, final.decoder = normalizer, core.pre_tokenizer, decoders.WordPiece()
    final.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", CLS), ("[SEP]", SEP)]
    )
    names = ["input_ids", "token_type_ids", "attention_mask"]
    return PreTrainedTokenizerFast(
        tokenizer_object=final, model_max_length=s.positions, model_input_names=names, **SPECIAL_TOKENS
    )


def load_tokenizer(texts: Texts, p: Paths, s: Settings) -> Any:
    """The tokenizer, trained once and then read from the work folder."""
    folder = p.work / "tokenizer"
    if not folder.exists():
        treebank = [text for e in texts.sentences + texts.phrases for text in (e.ordinary, e.treebank)]
        others = [e.ordinary for e in texts.snippets + texts.review_ends + texts.reviews]
        with atomic(folder) as part:
            build_tokenizer([*treebank, *others], s).save_pretrained(part)
    return AutoTokenizer.from_pretrained(folder)


class Dataset(NamedTuple):
    token_ids: list[list[list[int]]]  # by spelling, then by text
    word_starts: list[list[int]]  # in ordinary spelling
    targets: Float[Tensor, "texts 2"]
    label_weights: Float[Tensor, "texts"]


def build_dataset(tokenizer: Any, examples: Sequence[Example], s: Settings) -> Dataset:
    ordinary, treebank = (
        tokenizer([getattr(e, spelling) for e in examples], truncation=True, max_length=MAX_TOKENS)
        for spelling in SPELLINGS
    )
    starts = [word_starts(ordinary.word_ids(n)) for n in range(len(examples))]
    weights = [s.label_weight * max(2 * e.confidence - 1, 0) * (e.label != UNLABELLED) for e in examples]
    token_ids = [ordinary["input_ids"], treebank["input_ids"]]
    return Dataset(token_ids, starts, training.label_distribution(examples), torch.tensor(weights))


def schedule(data: Dataset, s: Settings) -> list[list[tuple[int, int]]]:
    """The batches of all epochs: index and spelling of each text.

    The first epoch shuffles within windows of some blocks, so that it can start before all outputs are stored.
    """
    batches: list[list[tuple[int, int]]] = []
    for epoch in range(math.ceil(s.epochs)):
        rng = random.Random(s.seed * 1000 + epoch)
        spellings = [int(rng.random() < s.treebank_share) for _ in data.word_starts]
        lengths = [len(data.token_ids[spelling][n]) for n, spelling in enumerate(spellings)]
        window = s.block_texts * s.window_blocks if epoch == 0 else len(lengths)
        groups = [
            [(start + n, spellings[start + n]) for n in group]
            for start in range(0, len(lengths), window)
            for group in training.group_by_length(lengths[start : start + window], s.batch_tokens, rng)
        ]
        batches += groups[: math.ceil(len(groups) * min(s.epochs - epoch, 1))]
    return batches


class Batch(NamedTuple):
    token_ids: Int[Tensor, "texts tokens"]
    positions: Int[Tensor, "rows"]  # in the flattened batch, of the tokens with hidden states of the teacher
    states: tuple[Float[Tensor, "rows components"], ...]  # of the teacher, middle and last layer
    logits: Float[Tensor, "texts 2"]  # of the teacher
    targets: Float[Tensor, "texts 2"]
    label_weights: Float[Tensor, "texts"]


def build_batch(
    data: Dataset, items: Sequence[tuple[int, int]], mask_rate: float, rng: np.random.Generator, p: Paths, s: Settings
) -> Batch:
    """Mask random tokens; the outputs of the teacher are those for the text without masks, in ordinary spelling."""
    indices, texts = [n for n, _ in items], [data.token_ids[spelling][n] for n, spelling in items]
    outputs = [load_outputs(n, p, s) for n in indices]
    ids = np.full((len(texts), max(map(len, texts))), PAD)
    positions: list[int] = []
    for row, (n, spelling) in enumerate(items):
        ids[row, : len(texts[row])] = texts[row]
        # words of teacher and student are aligned by their order; otherwise only the first token has a hidden state
        if spelling == 0 and len(data.word_starts[n]) == len(outputs[row].middle):
            positions += [row * ids.shape[1] + start for start in data.word_starts[n]]
        else:
            positions.append(row * ids.shape[1])
            outputs[row] = Outputs(outputs[row].logits, outputs[row].middle[:1], outputs[row].last[:1])
    ids[(rng.random(ids.shape) < mask_rate) & (ids >= len(SPECIAL_TOKENS))] = MASK
    logits, *states = (torch.cat(part).float() for part in zip(*outputs, strict=True))
    targets, weights = data.targets[indices], data.label_weights[indices]
    return Batch(torch.from_numpy(ids), torch.tensor(positions), tuple(states), logits, targets, weights)


def classification_loss(logits: Float[Tensor, "texts 2"], batch: Batch, scale: float, s: Settings) -> Float[Tensor, ""]:
    """Hinton et al. 2015: cross-entropy with the softened prediction of the teacher, mixed with that of the label."""
    soft_targets = (scale * batch.logits / s.temperature).softmax(-1)
    soft = cross_entropy(logits / s.temperature, soft_targets, reduction="none") * s.temperature**2
    hard = cross_entropy(logits, batch.targets, reduction="none")
    return ((1 - batch.label_weights) * soft + batch.label_weights * hard).mean()


def hidden_state_loss(hidden_states: Sequence[Tensor], projections: nn.ModuleList, batch: Batch) -> Tensor:
    """Share of the variance of the teacher's hidden states that projections of the student's do not explain."""
    loss = torch.zeros(())
    for n, layer in enumerate((len(hidden_states) // 2, -1)):
        estimate = projections[n](hidden_states[layer].flatten(0, 1)[batch.positions]).float()
        loss = loss + (estimate - batch.states[n]).square().sum(-1).mean() / 2
    return loss


def attention_entropy(
    attentions: Sequence[Float[Tensor, "texts heads tokens tokens"]], mask: Int[Tensor, "texts tokens"]
) -> Float[Tensor, ""]:
    """Mean entropy of the attention of each token, as a share of the maximum for the length of the text."""
    queries, maximum = mask[:, None, :].float(), mask.sum(-1).float().log()[:, None, None]
    mean = torch.zeros(())
    for weights in attentions:
        entropy = -(weights.float() * (weights.float() + 1e-6).log()).sum(-1)
        mean = mean + (entropy / maximum * queries).sum() / (queries.sum() * weights.shape[1] * len(attentions))
    return mean


def compute_losses(model: Any, projections: nn.ModuleList, batch: Batch, scale: float, s: Settings) -> list[Tensor]:
    mask = (batch.token_ids != PAD).long()
    with training.autocast(s):
        out = model(input_ids=batch.token_ids, attention_mask=mask, output_hidden_states=True, output_attentions=True)
        return [
            classification_loss(out.logits.float(), batch, scale, s),
            hidden_state_loss(out.hidden_states, projections, batch),
            attention_entropy(out.attentions, mask),
        ]


def build_student(vocabulary: int, s: Settings) -> Any:
    """A BERT classifier with random weights."""
    config = BertConfig(
        vocab_size=vocabulary,
        hidden_size=s.width,
        intermediate_size=4 * s.width,
        max_position_embeddings=s.positions,
        num_hidden_layers=s.layers,
        num_attention_heads=s.heads,
        pad_token_id=PAD,
        hidden_dropout_prob=s.dropout,
        attention_probs_dropout_prob=0.0,
        id2label=dict(enumerate(LABELS)),
        label2id={label: n for n, label in enumerate(LABELS)},
    )
    model = AutoModelForSequenceClassification.from_config(config)
    model.set_attn_implementation("eager")  # the only one that returns attention weights
    return model


def train(tokenizer: Any, examples: Sequence[Example], p: Paths, s: Settings) -> Any:
    """The student, its weights rounded to float16."""
    data = build_dataset(tokenizer, examples, s)
    torch.manual_seed(s.seed)
    model = build_student(len(tokenizer), s).train()
    projections = nn.ModuleList(nn.Linear(s.width, s.components) for _ in ("middle", "last"))
    average, parameters = copy.deepcopy(model), [*model.parameters(), *projections.parameters()]
    for parameter in projections.parameters():
        nn.init.zeros_(parameter)  # so that the first estimate is the mean
    optimizer = training.build_optimizer(parameters, s.learning_rate, s.weight_decay)
    modules = {"model": model, "average": average, "projections": projections}
    checkpoint, best_weights = p.work / "student-checkpoint.safetensors", p.work / "student-best.safetensors"
    batches, first, best = schedule(data, s), 0, -1.0
    if checkpoint.exists():
        first, best = training.load_checkpoint(checkpoint, optimizer, **modules)
    history: list[list[float]] = []
    start = time.monotonic()
    for n in range(first, len(batches)):
        decay = min((1 - n / len(batches)) / s.decay_share, 1)
        ramp = min(max((n - s.ramp_step) / RAMP_STEPS, 0), 1)
        batch = build_batch(data, batches[n], s.mask_rate * decay, np.random.default_rng([s.seed, n]), p, s)
        losses = compute_losses(model, projections, batch, 1 + ramp * (s.logit_scale - 1), s)
        loss = losses[0] + s.hidden_weight * losses[1] + ramp * s.entropy_weight * losses[2]
        training.take_step(loss, optimizer, parameters, s.learning_rate * min((n + 1) / s.warmup_steps, decay))
        training.update_average(average, model, s.ema_decay)
        history.append([x.item() for x in losses])
        if (n + 1) % s.evaluation_steps == 0 or n + 1 == len(batches):
            candidate = copy.deepcopy(average).half().float().eval()
            accuracies = [dev.accuracy for dev in training.dev_scores(candidate, tokenizer, p)]
            means, dev = (", ".join(f"{x:.3f}" for x in row) for row in (np.mean(history, 0), accuracies))
            seconds = time.monotonic() - start
            print(f"student: step {n + 1} of {len(batches)}, losses {means}, dev {dev}, {seconds:.0f} s", flush=True)
            history = []
            if sum(accuracies) > best:
                best = sum(accuracies)
                with atomic(best_weights) as part:
                    save_file(candidate.state_dict(), part)
            training.save_checkpoint(checkpoint, n + 1, best, optimizer, **modules)
    return select_weights(model.eval(), load_file(best_weights), average.state_dict(), tokenizer, p)


def select_weights(model: Any, best: Weights, last: Weights, tokenizer: Any, p: Paths) -> Any:
    """The model with the interpolation of both weights that has the lowest cross-entropy on the development sets.

    The accuracy of the best checkpoint is the largest of many, so the last one may be better; their mean often is.
    """
    choices: list[tuple[float, Weights]] = []
    for share in SHARES:
        weights = {name: torch.lerp(best[name], last[name], share).half().float() for name in best}
        model.load_state_dict(weights)
        scores = training.dev_scores(model, tokenizer, p)
        choices.append((sum(dev.loss for dev in scores), weights))
        print(f"student: {share} of the last weights, dev {scores}", flush=True)
    model.load_state_dict(min(choices, key=lambda choice: choice[0])[1])
    return model
