"""Locks: jobs on one model wait for each other, across threads and classifiers.

A job changes the model while it runs (hooks, evaluation mode, the implementation of attention, a padding token) and
counts its passes. The lock is re-entrant: a job may contain others.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from threading import Lock, RLock
from typing import Any, Generic, Self, TypeVar, overload
from weakref import WeakKeyDictionary

Value = TypeVar("Value")

_LOCKS: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
_NEW_LOCK = Lock()
_COMMON_LOCK = RLock()  # of objects that cannot be the key of a dictionary


def lock_of(owner: Any) -> AbstractContextManager[Any]:
    """The one lock of a model or a tokenizer. Nothing is stored in the object."""
    try:
        with _NEW_LOCK:
            if owner not in _LOCKS:
                _LOCKS[owner] = RLock()
            lock: AbstractContextManager[Any] = _LOCKS[owner]
            return lock
    except TypeError:
        return _COMMON_LOCK


def share_lock(owner: Any, other: Any) -> None:
    """From now on the lock of `owner`, which contains `other`, is that of `other`."""
    lock = lock_of(other)
    with _NEW_LOCK:
        _LOCKS[owner] = lock


class LockedProperty(Generic[Value]):
    """A cached property that is computed under its owner's `lock`.

    subtle: `functools.cached_property` has a lock of its own before Python 3.12. A thread that holds it and waits for
    the model, and one that holds the model and waits for it, would deadlock.
    """

    def __init__(self, func: Callable[[Any], Value]) -> None:
        self.func, self.__doc__ = func, func.__doc__

    def __set_name__(self, kind: Any, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, owner: None, kind: Any) -> Self: ...
    @overload
    def __get__(self, owner: Any, kind: Any) -> Value: ...
    def __get__(self, owner: Any, kind: Any) -> Self | Value:
        if owner is None:
            return self
        with owner.lock:
            if self.name not in vars(owner):
                vars(owner)[self.name] = self.func(owner)
            value: Value = vars(owner)[self.name]
            return value
