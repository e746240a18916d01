"""Checks: each a frozen dataclass of settings, called with a Case; what it finds are Findings."""

from heedful.checks.catalogue import CHECKS, check
from heedful.checks.common import Case, Check

__all__ = ["CHECKS", "Case", "Check", "check"]
