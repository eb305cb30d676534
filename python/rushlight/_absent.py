"""What a build without a kind of device answers for it: nothing is there, and what needs it says
so.
"""


def answers(values):
    """Functions, by name, that take anything and return what `values` says for them."""

    def make(name, value):
        def function(*args, **kwargs):
            return value() if callable(value) else value

        function.__name__ = function.__qualname__ = name
        function.__doc__ = f"Without a device: {value() if callable(value) else value!r}."
        return function

    return {name: make(name, value) for name, value in values.items()}


def refusals(kind, names, error=AssertionError):
    """Functions that raise `error`, and for capitalised names classes that raise RuntimeError: the
    build has no such device.
    """

    def make(name):
        is_class = name[0].isupper()
        raised = RuntimeError if is_class else error

        def function(*args, **kwargs):
            raise raised(f"{kind.lower()}.{name}: rushlight was built without {kind} devices")

        function.__name__ = function.__qualname__ = name
        function.__doc__ = f"Needs a device: raises {raised.__name__}."
        if is_class:
            return type(name, (), {"__init__": function, "__doc__": function.__doc__})
        return function

    return {name: make(name) for name in names}
