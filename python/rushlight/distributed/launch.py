"""The older launcher, `python -m rushlight.distributed.launch`: `rushlight.distributed.run`, but
each worker gets its place as an argument too, `--local-rank=N`, unless `--use-env` is there.
"""

from __future__ import annotations

import sys

from rushlight._ignored import warn_program as _warn_program
from rushlight.distributed import run as _run

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence


def parse_args(args: Sequence[str] | None) -> argparse.Namespace:
    """The options of `run`, and `--use-env`."""
    parser = _run.get_args_parser()
    parser.add_argument(
        "--use-env", "--use_env", action="store_true", help="LOCAL_RANK alone says a worker's place"
    )
    return parser.parse_args(args)


def launch(args: argparse.Namespace) -> None:
    """Start the workers that parsed options ask for.

    Raises:
        ValueError: `--no-python` without `--use-env`: other programs have no such argument.
    """
    if args.no_python and not args.use_env:
        raise ValueError(
            "When using the '--no-python' flag, you must also set the '--use-env' flag."
        )
    _run.run(args)


def main(args: Sequence[str] | None = None) -> None:
    """What the command does."""
    _warn_program(
        "distributed.launch is the older launcher: use distributed.run, and read LOCAL_RANK",
        FutureWarning,
    )
    launch(parse_args(args))


if __name__ == "__main__":
    main(sys.argv[1:])
