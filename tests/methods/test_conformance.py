"""Every method on the families that differ, one on all: the battery that other packages run too."""

import pytest

from heedful.core.errors import Unsupported
from heedful.methods import METHODS, method
from heedful.methods.conformance import PROBE_TEXTS, as_array, conforms
from heedful.methods.explain import explain
from tests.support.models import DIVERSE, EVERY, OUTSIDE, SINGLE, shared
from tests.support.parameters import mostly_thorough

REFUSES = {name for name, cls in METHODS.items() if hasattr(cls, "applies")}  # made for some networks only
QUICK = {  # the battery asks for every explanation many times
    "attattr": {"max_nodes": 9},
    "attattr-tokens": {"max_nodes": 9},
    "lime": {"samples": 50},
    "shapley": {"samples": 40, "exact_up_to": 3},
    "shapley-partition": {"samples": 40},
    "minimal-flip": {"tries": 40},
    "smoothgrad": {"samples": 5},
    "integrated-gradients": {"steps": 8},
}
FEW = ("bert", "gpt2", "bart", *SINGLE)
WHERE = {"attention-gradient": EVERY, "value-zeroing": DIVERSE, "integrated-gradients": DIVERSE}  # one of each kind
WHERE |= {name: ("bert", "bart", "bilstm") if name in OUTSIDE else FEW for name in METHODS if name not in WHERE}
PROMPTED = ("prompted-gpt2", "prompted-bert", "prompted-bart")  # continue a prompt, fill in its mask, answer it
WHERE = {name: (*families, *(() if name in OUTSIDE else PROMPTED)) for name, families in WHERE.items()}
PAIRS = [(name, family) for name, families in WHERE.items() for family in families]
# in every run: each method on bert and bilstm, and on all families the first of each kind of method: reading attention,
# gradients of it, zeroing values, gradients of the input, removal
FIRST = ("attention-mean", "attention-gradient", "value-zeroing", "integrated-gradients", "leave-one-out")
LATER = ("gpt2", "bart", "xlnet", *PROMPTED)
DEFAULT = [(n, f) for n, f in PAIRS if f not in LATER or (n in FIRST and f not in PROMPTED[1:])]
NO_ATTENTION = ("gradient-l2", "integrated-gradients", "random")


@pytest.mark.parametrize(("name", "family"), mostly_thorough(PAIRS, DEFAULT))
def test_conforms(name: str, family: str) -> None:
    """Only a single query is a reason to refuse."""
    supported = conforms(method(name, QUICK.get(name)), shared(family))
    assert supported or family in SINGLE or name in REFUSES


@pytest.mark.parametrize("name", [n for n in METHODS if "through_attention" in METHODS[n].__dataclass_fields__])
@pytest.mark.parametrize("family", mostly_thorough(("bert", "gpt2", "bart", "bilstm"), ("bert", "bilstm")))
def test_conforms_with_attention_held(name: str, family: str) -> None:
    conforms(method(name, {"through_attention": False}), shared(family))


def test_unreadable_attention_names_the_model() -> None:
    with pytest.raises(Unsupported, match=r"tiny-fnet \(FNetForSequenceClassification\): its attention cannot be read"):
        explain(shared("fnet"), PROBE_TEXTS[0], "attention-mean")


@pytest.mark.parametrize("name", NO_ATTENTION)
def test_methods_without_attention_work_where_it_cannot_be_read(name: str) -> None:
    assert as_array(explain(shared("fnet"), PROBE_TEXTS[0], name)).any()
