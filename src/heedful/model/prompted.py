"""Prompted: a language model as a classifier of texts, by a prompt and a few words for each label.

The logit of a label is the log-probability of its words after the prompt, or in place of the prompt's mask. Only the
words of the text are explained and removed; those of the prompt are in every input. Attention is read at the position
from which the first word of a label is predicted.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from copy import deepcopy
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from heedful.core.arrays import Ints
from heedful.core.errors import BadInput, Unsupported, nearest
from heedful.core.tokens import Tokens, check_text
from heedful.model import huggingface, packed, probes, seam
from heedful.model.batch import Batch
from heedful.model.classifier import Classifier
from heedful.model.locks import LockedProperty, lock_of

Kind = Literal["causal", "masked", "seq2seq"]
Scoring = Literal["first", "sum", "mean"]
TEXT, PAIR, MASK = "{text}", "{pair}", "{mask}"
FILE = "heedful-prompt.json"  # in the folder of a model that is saved with its prompt
NEUTRAL = ("", "N/A", "[MASK]")  # the texts of Zhao et al. 2021 that say nothing
PROBE_TEXT = "A short probe"
MIN_SHARED_PREFIX = 16  # tokens


@dataclass(frozen=True)
class Prompt:
    """How a language model classifies: a template with {text}, and what the model says for each label.

    `template` may have {pair}, and needs {mask} for a masked language model. `chat` makes it the user's message in the
    tokenizer's chat template, after a message of the `system`. `scoring` is the log-probability of a label's first
    token, or of its whole string: the sum, or the mean per token. `calibrate` subtracts the log-probabilities that
    labels have for texts that say nothing (Zhao et al. 2021).
    """

    template: str
    verbalizer: Mapping[str, str]
    system: str | None = None
    chat: bool = False
    scoring: Scoring = "first"
    calibrate: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.template, str) or not isinstance(self.verbalizer, Mapping):
            raise BadInput("a prompt needs a template, which is a text, and a verbalizer, which maps labels to words.")
        for place, least in ((TEXT, 1), (PAIR, 0), (MASK, 0)):
            count = self.template.count(place)
            if not least <= count <= 1:
                expected = "write it once" if least else "write it at most once"
                raise BadInput(f"the template has {place} {count} times; {expected}: 'Review: {{text}}\\nSentiment:'.")
        if len(self.verbalizer) < 2:
            raise BadInput(f"the verbalizer has {len(self.verbalizer)} labels; give the words of at least two labels.")
        for label, words in self.verbalizer.items():
            if not isinstance(label, str) or not isinstance(words, str) or not words.strip() or not label.strip():
                raise BadInput(f"the verbalizer has {words!r} for {label!r}; give words for each label, as texts.")
        if self.scoring not in get_args(Scoring):
            raise BadInput(f"scoring '{self.scoring}' is not one of {', '.join(get_args(Scoring))}.")
        for name, value in (("chat", self.chat), ("calibrate", self.calibrate)):
            if not isinstance(value, bool):
                raise BadInput(f"{name} of the prompt is {value!r}; give true or false.")
        if self.system is not None and not isinstance(self.system, str):
            raise BadInput(f"system of the prompt is {self.system!r}; give a text.")
        if self.system is not None and not self.chat:
            raise BadInput("a system prompt is for chat templates; use chat as well, or write it into the template.")

    @staticmethod
    def of(fields_: Any) -> Prompt:
        """From plain values, as in a file."""
        if not isinstance(fields_, Mapping):
            kind = type(fields_).__name__
            raise BadInput(f"the prompt is a {kind}; give a heedful.Prompt, a mapping of its fields, or a JSON file.")
        known = [field.name for field in fields(Prompt)]
        for name in fields_:
            if name not in known:
                hint = nearest(str(name), known) or f"; it has {', '.join(known)}."
                raise BadInput(f"a prompt has no '{name}'{hint}")
        if missing := [name for name in ("template", "verbalizer") if fields_.get(name) is None]:
            raise BadInput(f"the prompt has no {missing[0]}; a language model needs a template and a verbalizer.")
        return Prompt(**fields_)

    @staticmethod
    def read(file: str | Path) -> Prompt:
        """From a JSON file: {"template": "Review: {text}\\nSentiment:", "verbalizer": {"positive": " good", …}}."""
        try:
            content = json.loads(Path(file).read_text("utf-8"))
        except OSError as e:
            raise BadInput(f"'{file}' cannot be read ({e.strerror}); give a JSON file with a prompt.") from e
        except (ValueError, RecursionError) as e:
            raise BadInput(f"'{file}' is not JSON ({e}); give a template and a verbalizer.") from e
        if not isinstance(content, dict):
            raise BadInput(f"'{file}' is not a JSON object; give a template and a verbalizer.")
        return Prompt.of(content)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self) | {"verbalizer": dict(self.verbalizer)}

    def rendered(self, tokenizer: Any) -> str:
        """The template as the model reads it: in the tokenizer's chat, if it is for one."""
        return self._in_chat(tokenizer) if self.chat else self.template

    def parts(self, rendered: str, text: str, pair: str | None) -> list[tuple[str, int | None]]:
        """The whole input in parts: its characters, and the segment of the text (0) or of the pair (1)."""
        if (PAIR in self.template) != (pair is not None):
            found, do = ("two texts were", "no") if pair is not None else ("one text was", "a")
            raise BadInput(f"the template has {do} {PAIR}, and {found} given; change one of them.")
        parts: list[tuple[str, int | None]] = [(rendered, None)]
        for segment, (place, value) in enumerate(((TEXT, text), (PAIR, pair))):
            if value is not None:
                index = next(i for i, (characters, owner) in enumerate(parts) if owner is None and place in characters)
                before, after = parts[index][0].split(place)
                parts[index : index + 1] = [(before, None), (value, segment), (after, None)]
        return [part for part in parts if part[0]]

    def _in_chat(self, tokenizer: Any) -> str:
        if getattr(tokenizer, "chat_template", None) is None:
            raise BadInput("the tokenizer has no chat template; leave out chat, and write the whole prompt.")
        messages = [{"role": "user", "content": self.template}]
        if self.system is not None:
            messages.insert(0, {"role": "system", "content": self.system})
        try:
            whole = str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))
        except Exception as e:  # a template is a program of its own
            reason = " ".join(str(e).split())[:160].rstrip(".")
            raise BadInput(f"the tokenizer's chat template refuses this prompt ({reason}); change it.") from e
        for place in (TEXT, PAIR, MASK):
            if (count := whole.count(place)) != self.template.count(place):
                raise BadInput(f"the chat has {place} {count} times; write it in the template alone.")
        return whole


class LabelScorer(nn.Module):
    """A language model whose output is a logit for each label; token types of 2 or more mark a masked model's answer.

    `answers` are the tokens of each label's words. Where `min_shared_prefix` is not 0, a prefix of at least that many
    tokens that is common to a batch runs once. `rendered` is the template as the model reads it.
    """

    def __init__(self, model: Any, kind: Kind, answers: Sequence[Sequence[int]], prompt: Prompt, rendered: str) -> None:
        super().__init__()
        self.language_model, self.kind, self.prompt = model, kind, prompt
        self.answers = [list(tokens) for tokens in answers]
        self.config = deepcopy(model.config)
        self.config.num_labels = len(answers)
        self.config.id2label = dict(enumerate(prompt.verbalizer))
        self.config.label2id = {label: i for i, label in enumerate(prompt.verbalizer)}
        self.config.problem_type = None
        # part of the fingerprint
        self.config.prompt = prompt.to_dict() | ({"rendered": rendered} if prompt.chat else {})
        self.min_shared_prefix = 0
        parameters = inspect.signature(model.forward).parameters
        # an int8 head rounds its inputs together: it must read what it reads without heedful
        self._keeps_logits = "logits_to_keep" in parameters and not packed.layers(model)
        self._reads_types = "token_type_ids" in parameters
        self.prior: Tensor
        self.register_buffer("prior", torch.zeros(len(answers)), persistent=False)

    @property
    def _supports_sdpa(self) -> bool:
        return bool(getattr(self.language_model, "_supports_sdpa", False))

    @property
    def whole(self) -> bool:
        """Whether labels are scored by more than their first tokens."""
        return self.prompt.scoring != "first" and max(map(len, self.answers)) > 1

    def get_input_embeddings(self) -> Any:
        """The table of word embeddings."""
        return self.language_model.get_input_embeddings()

    @cached_property
    def decoder_start(self) -> tuple[int, ...]:
        """What the decoder of an encoder-decoder reads before its answer; of other models, nothing."""
        if self.kind != "seq2seq":
            return ()
        owners = (getattr(self.language_model, "generation_config", None), self.language_model.config)

        def first(*names: str) -> int | None:
            values = (getattr(owner, name, None) for name in names for owner in owners)
            return next((int(value) for value in values if value is not None), None)

        start, forced = first("decoder_start_token_id", "bos_token_id"), first("forced_bos_token_id")
        if start is None:
            raise Unsupported("its configuration does not say with which token its decoder starts.")
        return (start,) if forced is None else (start, forced)

    def forward(
        self,
        input_ids: Int[Tensor, "b t"],
        attention_mask: Int[Tensor, "b t"],
        token_type_ids: Int[Tensor, "b t"] | None = None,
        use_cache: bool = False,
        **options: Any,
    ) -> Any:
        """The language model's output, with a logit for each label in place of its own."""
        inputs = {"input_ids": input_ids, "attention_mask": attention_mask, **options}
        if self.kind == "masked":
            assert token_type_ids is not None
            inputs |= {"token_type_ids": token_type_ids % 2} if self._reads_types else {}
            out = self.language_model(**inputs)
            logits = self._first(out.logits, (token_type_ids >= 2).int().argmax(1))
        else:
            out, logits = self._continued(inputs)
        out.logits = logits - self.prior.to(logits)
        return out

    def _continued(self, inputs: dict[str, Any]) -> tuple[Any, Float[Tensor, "b c"]]:
        """The output of a model that continues its input, and the log-probability of each label's words."""
        ids, mask = inputs["input_ids"], inputs["attention_mask"]
        if self.kind == "seq2seq":
            starts = torch.tensor([self.decoder_start], device=ids.device).expand(len(ids), -1)
            out = self.language_model(**inputs, decoder_input_ids=starts, use_cache=self.whole)
            # the last: an adapter may put learned vectors before the start
            logits = self._first(out.logits, torch.full((len(ids),), out.logits.shape[1] - 1, device=ids.device))
        else:
            last = mask.shape[1] - 1 - mask.flip(1).argmax(1)
            shared = self._shared_prefix(ids, mask, last)
            if shared:
                inputs |= {"input_ids": ids[:, shared:], "past_key_values": self._prefix(ids[:1, :shared], len(ids))}
                last = last - shared
            if self._keeps_logits:  # the output of the head has the whole vocabulary
                inputs["logits_to_keep"], last = last.unique(return_inverse=True)
            out = self.language_model(**inputs, use_cache=self.whole or bool(shared))
            if not self._keeps_logits:  # an adapter may put learned vectors before the text
                last = last + out.logits.shape[1] - inputs["input_ids"].shape[1]
            logits = self._first(out.logits, last)
        if self.whole:
            logits = logits + self._rest(out, mask)
            lengths = torch.tensor([len(tokens) for tokens in self.answers]).to(logits)
            logits = logits / lengths if self.prompt.scoring == "mean" else logits
        out.past_key_values = None
        return out, logits

    def _first(self, scores: Float[Tensor, "b k v"], at: Int[Tensor, "b"]) -> Float[Tensor, "b c"]:
        """Log-probabilities of each label's first token at one position of each row."""
        rows = len(scores)  # copies that branched off have the position of the first
        at = at if len(at) == rows else at[:1].expand(rows)
        tokens = torch.tensor([tokens[0] for tokens in self.answers], device=scores.device)
        return _log_softmax(scores[torch.arange(rows, device=scores.device), at])[:, tokens]

    def _rest(self, out: Any, mask: Int[Tensor, "b t"]) -> Float[Tensor, "b c"]:
        """Log-probabilities of each label's tokens after its first. No edit reaches these steps, but their context."""
        b, device = len(mask), mask.device
        width = max(map(len, self.answers)) - 1
        read = torch.tensor(
            [[*tokens[:-1], *[0] * (width - len(tokens) + 1)] for tokens in self.answers], device=device
        )
        said = torch.tensor(
            [[*tokens[1:], *[-1] * (width - len(tokens) + 1)] for tokens in self.answers], device=device
        )
        cache, c = out.past_key_values, len(self.answers)
        cache.batch_repeat_interleave(c)
        inputs = {"past_key_values": cache, "use_cache": True}
        if self.kind == "seq2seq":
            states = out.encoder_last_hidden_state.repeat_interleave(c, 0)
            inputs |= {"encoder_outputs": (states,), "attention_mask": mask.repeat_interleave(c, 0)}
            inputs["decoder_input_ids"] = read.repeat(b, 1)
        else:
            longer = torch.cat([mask, mask.new_ones(b, width)], 1)
            inputs |= {"input_ids": read.repeat(b, 1), "attention_mask": longer.repeat_interleave(c, 0)}
        with seam.paused(self):
            scores = _log_softmax(self.language_model(**inputs).logits).reshape(b, c, width, -1)
        chosen = scores.gather(-1, said.clamp(min=0).expand(b, -1, -1)[..., None])[..., 0]
        return chosen.masked_fill(said < 0, 0).sum(-1)

    def _shared_prefix(self, ids: Int[Tensor, "b t"], mask: Int[Tensor, "b t"], last: Int[Tensor, "b"]) -> int:
        """How many first tokens run once for the whole batch; 0 where this is off, or does not pay."""
        if not self.min_shared_prefix or self.whole or len(ids) < 2:
            return 0
        same = (ids == ids[:1]).all(0) & mask.bool().all(0)
        shared = min(int(same.int().cumprod(0).sum()), int(last.min()))
        return shared if shared >= self.min_shared_prefix else 0

    def _prefix(self, ids: Int[Tensor, "1 p"], rows: int) -> Any:
        """The keys and values of a prefix, for each row."""
        few = {"logits_to_keep": 1} if self._keeps_logits else {}
        cache = self.language_model(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=True, **few)
        cache.past_key_values.batch_repeat_interleave(rows)
        return cache.past_key_values


def _log_softmax(scores: Tensor) -> Tensor:
    return scores.to(torch.promote_types(scores.dtype, torch.float32)).log_softmax(-1)


class Prompted(Classifier):
    """A language model (causal, masked, or with an encoder and a decoder), its tokenizer, and a prompt."""

    def __init__(self, model: Any, tokenizer: Any, prompt: Prompt, name: str | None = None) -> None:
        if not isinstance(model, nn.Module) or not hasattr(model, "config"):
            raise BadInput(f"the model is a {type(model).__name__}; give a Hugging Face language model.")
        if not callable(tokenizer):
            raise BadInput(f"the tokenizer is a {type(tokenizer).__name__}; give the model's Hugging Face tokenizer.")
        self.prompt, self.kind_of_model, self.tokenizer = prompt, _kind(model), tokenizer
        self._check_mask()
        if prompt.scoring != "first" and huggingface.virtual_tokens(model):
            raise BadInput(
                "an adapter that puts learned vectors before the text scores labels by their first token only; use "
                "scoring=first."
            )
        # once: a chat template may say the date
        self._rendered = prompt.rendered(tokenizer).replace(MASK, str(getattr(tokenizer, "mask_token", None)))
        answers = [self._answer(label, words) for label, words in prompt.verbalizer.items()]
        self._check_answers(answers)
        scorer = LabelScorer(model, self.kind_of_model, answers, prompt, self._rendered)
        super().__init__(scorer, tokenizer, name or getattr(model.config, "_name_or_path", "") or type(model).__name__)
        if prompt.calibrate:
            scorer.prior = self._prior()

    @property
    def architecture(self) -> str:
        """The name of the language model's class."""
        return type(self.model.language_model).__name__

    def with_model(self, model: Any) -> Prompted:
        """The same prompt for a changed copy of the language model."""
        return Prompted(model.language_model, self.tokenizer, self.prompt, self.name)

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """Held by one job on the language model."""
        return lock_of(self.model.language_model)

    @property
    def reads_pairs(self) -> bool:
        """Whether the template has a place for it."""
        return PAIR in self.prompt.template

    @property
    def needs_pair(self) -> bool:
        """The same: no place in the template may stay empty."""
        return self.reads_pairs

    @cached_property
    def limit(self) -> int | None:
        """The largest number of tokens, with room for the words of the labels."""
        limit = huggingface.limit(self.model, self.tokenizer)
        room = max(map(len, self.model.answers)) - 1 if self.model.whole and self.kind_of_model == "causal" else 0
        return None if limit is None else limit - room

    padding = LockedProperty(lambda prompted: None if prompted.model.whole else probes.padding_side(prompted))
    prefix_agrees = LockedProperty(probes.prefix_agrees)

    def tokens(self, text: str, pair: str | None = None) -> Tokens:
        """The prompt with the text in it. Only the words of the text count as text."""
        check_text(text)
        if pair is not None:
            check_text(pair, "pair")
        tokens = self._tokens(text, pair)
        if not tokens.content:
            raise BadInput("no token of the input has characters of the text alone; write a space around {text}.")
        self._check_ids(tokens, self.model.get_input_embeddings())
        return tokens

    def token_types(self, types: Ints) -> Ints:
        """Without the mark of the answer."""
        return types % 2 if self.kind_of_model == "masked" else types

    def _tokens(self, text: str, pair: str | None, more: str = "") -> Tokens:
        parts = self.prompt.parts(self._rendered, text, pair)
        special: Literal["all", "first", "none"] = "first" if self.kind_of_model == "causal" else "all"
        with lock_of(self.tokenizer):
            tokens = huggingface.tokenize_prompt(
                self.tokenizer, [*parts, (more, None)], "none" if self.prompt.chat else special
            )
        return self._with_answer(tokens) if self.kind_of_model == "masked" else tokens

    def _with_answer(self, tokens: Tokens) -> Tokens:
        """The prompt's mask is marked by a token type of 2 or more: a text may have masks of its own."""
        types = tokens.types or (0,) * len(tokens)
        answer = next(
            i for i in range(len(tokens)) if tokens.prompt[i] and tokens.ids[i] == self.tokenizer.mask_token_id
        )
        return replace(tokens, types=tuple(t % 2 + 2 * (i == answer) for i, t in enumerate(types)))

    def _check_mask(self) -> None:
        has, masked = MASK in self.prompt.template, self.kind_of_model == "masked"
        if masked and not has:
            raise BadInput(
                f"the template has no {MASK}, in whose place a masked language model answers; write it once."
            )
        if has and not masked:
            raise BadInput(f"the template has {MASK}, and the model continues its input; leave {MASK} out.")
        token = getattr(self.tokenizer, "mask_token", None)
        if masked and token is None:
            raise BadInput("the tokenizer has no mask token; give that of the masked language model.")
        if masked and str(token) in self.prompt.template:
            raise BadInput(f"the template has '{token}' itself; write {MASK}, once, where the model answers.")

    def _answer(self, label: str, words: str) -> list[int]:
        """The tokens of a label's words, as they follow the prompt."""
        if self.kind_of_model != "causal":
            with lock_of(self.tokenizer):
                tokens = [int(i) for i in self.tokenizer(words, add_special_tokens=False, verbose=False)["input_ids"]]
        else:
            pair = PROBE_TEXT if PAIR in self.prompt.template else None
            before, after = (self._tokens(PROBE_TEXT, pair, more).ids for more in ("", words))
            if after[: len(before)] != before:
                raise BadInput(
                    f"the tokenizer joins the end of the prompt with '{words}'; end the template before the white "
                    "space, and begin the words of every label with it: 'Sentiment:' and ' good'."
                )
            tokens = [int(i) for i in after[len(before) :]]
        unknown = getattr(self.tokenizer, "unk_token_id", None)
        if not tokens or unknown in tokens:
            raise BadInput(
                f"'{words}', of the label '{label}', is not in the tokenizer's vocabulary; choose other words."
            )
        return tokens

    def _check_answers(self, answers: Sequence[Sequence[int]]) -> None:
        """Refuse labels that no score tells apart."""
        first, masked = self.prompt.scoring == "first", self.kind_of_model == "masked"
        if masked and max(map(len, answers)) > 1 and not first:
            raise BadInput("a masked language model fills one token; use scoring=first, or labels of one token each.")
        labels: dict[tuple[int, ...], str] = {}
        for label, tokens in zip(self.prompt.verbalizer, answers, strict=True):
            key = tuple(tokens[:1] if first else tokens)
            if key in labels:
                begin = (
                    f"begin with the token '{self.tokenizer.convert_ids_to_tokens(key[0])}'"
                    if first
                    else "are the same"
                )
                way = "; or score whole strings (scoring=sum, or mean)" if first and not masked else ""
                raise BadInput(
                    f"the words of '{labels[key]}' and '{label}' {begin}; choose words that differ there{way}."
                )
            labels[key] = label

    def _prior(self) -> Float[Tensor, "c"]:
        """The logarithm of the labels' mean probabilities over texts that say nothing."""
        texts = [self._tokens(text, text if self.needs_pair else None) for text in NEUTRAL]
        texts = [tokens for tokens in texts if len(tokens)]  # "" alone is no input
        if self.limit is not None and max(map(len, texts)) > self.limit:
            raise BadInput(f"the prompt has {len(texts[0])} tokens and the model reads {self.limit}; shorten it.")
        with self.lock, torch.no_grad():
            logits = torch.cat([self.run(self.padding_with("right").batch([t], self.device)) for t in texts])
        return logits.softmax(-1).mean(0).log()

    @contextmanager
    def fast_inference(self) -> Iterator[None]:
        """As for other models; and what is common to the prompts of a batch runs once, where the logits agree."""
        shares = self.kind_of_model == "causal" and self.prefix_agrees
        with super().fast_inference():
            former, self.model.min_shared_prefix = self.model.min_shared_prefix, MIN_SHARED_PREFIX if shares else 0
            try:
                yield
            finally:
                self.model.min_shared_prefix = former

    @contextmanager
    def _padding_token(self, batch: Batch) -> Iterator[Tensor]:
        """As it is: a language model reads no padding token."""
        yield batch.ids


def _kind(model: Any) -> Kind:
    """How a model answers, by its class."""
    name = type(model.get_base_model() if hasattr(model, "get_base_model") else model).__name__
    if name.endswith("ForMaskedLM"):
        return "masked"
    if getattr(model.config, "is_encoder_decoder", False) and hasattr(model, "generate"):
        return "seq2seq"
    if name.endswith(("ForCausalLM", "LMHeadModel", "ForConditionalGeneration")):
        return "causal"
    raise BadInput(
        f"{name} is not a language model; a prompt is for causal, masked and encoder-decoder language models."
    )
