"""What the programs beside this file, which run as scripts, say of errors."""


def refused(error, text, function, *args, **kwargs):
    try:
        function(*args, **kwargs)
    except error as raised:
        assert text in str(raised), raised
        return
    raise AssertionError(f"{function} accepts {args} {kwargs}")
