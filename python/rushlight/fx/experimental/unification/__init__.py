"""Unification: values for variables with which two expressions are the same."""

from rushlight.fx.experimental.unification.core import reify, unify
from rushlight.fx.experimental.unification.more import unifiable
from rushlight.fx.experimental.unification.variable import Var, isvar, var, variables, vars

__all__ = ["Var", "isvar", "reify", "unifiable", "unify", "var", "variables", "vars"]
