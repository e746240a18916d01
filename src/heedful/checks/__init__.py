"""Checks: each a frozen dataclass of settings, called with a Case; what it finds are Findings."""

from heedful.checks.base import Case, Check
from heedful.checks.catalogue import CHECKS, check

__all__ = ["CHECKS", "Case", "Check", "check"]
