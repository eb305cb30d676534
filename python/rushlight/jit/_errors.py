"""What a compiled program raises: a RuntimeError, whatever its operations and statements raise."""

from __future__ import annotations

import functools

from rushlight._set_module import set_module
from rushlight.export.exported_program import FixedInputError, GuardError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Error(RuntimeError):
    """An error in a compiled program. Its cause is the error as Python has it."""


def errors_of_scripts(call: Callable[..., Any]) -> Callable[..., Any]:
    """Have a method that runs a compiled program raise `Error` for assertions, guards, and errors
    that are no RuntimeErrors.
    """

    @functools.wraps(call)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        try:
            return call(*args, **kwargs)
        except FixedInputError:
            raise
        except GuardError as error:
            raise Error(str(error)) from error
        except RuntimeError:
            raise
        except Exception as error:
            raise Error(f"{type(error).__name__}: {error}") from error

    return wrapped


set_module("rushlight.jit", Error)
