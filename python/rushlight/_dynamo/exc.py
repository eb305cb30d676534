"""The graph compiler's exceptions: none is raised, as there is no compiler."""


class TorchDynamoException(RuntimeError):
    """The base class of the compiler's exceptions."""


class InternalTorchDynamoError(TorchDynamoException):
    """A fault of the compiler."""


class Unsupported(TorchDynamoException):
    """Something that the compiler cannot compile."""


class UserError(Unsupported):
    """A program that cannot be compiled."""


class BackendCompilerFailed(TorchDynamoException):
    """A fault of what makes the machine's code."""


class RecompileError(TorchDynamoException):
    """Something was compiled again that must not be."""


class TorchRuntimeError(TorchDynamoException):
    """An error of the program while it is compiled."""


class FailOnRecompileLimitHit(TorchDynamoException):
    """Something was compiled too often."""
