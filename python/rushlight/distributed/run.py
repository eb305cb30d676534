"""Starts the processes of a run, with torchrun's options:

python -m rushlight.distributed.run --nproc-per-node 2 train.py ARGUMENTS

In the workers `import torch` gives rushlight, as by `python -m rushlight`. Each gets RANK,
WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT and torchrun's other variables. When one fails, all
are ended and, up to --max-restarts times, started again.
"""

from __future__ import annotations

import argparse
import os
import runpy
import sys
from argparse import REMAINDER

import rushlight
from rushlight.distributed.elastic.multiprocessing.api import DefaultLogsSpecs, Std
from rushlight.distributed.launcher.api import LOCAL_RANK_WORD, LaunchConfig, elastic_launch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_ADDRESS, _PORT = "127.0.0.1", 29500  # of machine 0, unless the command line says otherwise


def get_args_parser() -> Any:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m rushlight.distributed.run", description=__doc__.splitlines()[0]
    )

    def option(*names, **settings):
        spellings = []
        for name in names:
            spellings.append(name)
            if name.startswith("--") and "-" in name[2:]:
                spellings.append("--" + name[2:].replace("-", "_"))
        parser.add_argument(*spellings, **settings)

    option("--nnodes", default="1:1", help="machines: a number, or MIN:MAX")
    option("--nproc-per-node", default="1", help="processes on each: a number, auto, gpu or cpu")
    option("--rdzv-backend", default="static", help="how machines meet: static or c10d")
    option("--rdzv-endpoint", default="", help="HOST:PORT where they meet")
    option("--rdzv-id", default="none", help="name of the run, the same on all machines")
    option(
        "--rdzv-conf", default="", help="KEY=VALUE,...: join_timeout, last_call_timeout, is_host"
    )
    option("--standalone", action="store_true", help="this machine alone, at any free port")
    option("--max-restarts", type=int, default=0, help="how often to start again after a failure")
    option("--monitor-interval", type=float, default=0.1, help="seconds between looks at workers")
    option("--start-method", default="spawn", choices=["spawn", "fork", "forkserver"],
           help="accepted: the workers of a program are always fresh processes")  # fmt: skip
    option("--event-log-handler", default="null", help="told how the run ends: null or console")
    option("--role", default="default", help="a name that workers see in ROLE_NAME")
    option("-m", "--module", action="store_true", help="run a module, as python -m does")
    option("--no-python", action="store_true", help="run a command that is no Python program")
    option("--run-path", action="store_true",
           help="accepted: workers run a program by runpy in any case")  # fmt: skip
    option("--logs-specs", default=None,
           help="class of logs: its name among the entry points torchrun.logs_specs")  # fmt: skip
    option("--log-dir", default=None, help="folder for the output of workers")
    option("-r", "--redirects", default="0", help="output to files: 0, 1, 2, 3 or RANK:NUMBER,...")
    option("-t", "--tee", default="0", help="output to files too; as for --redirects")
    option("--local-ranks-filter", default="", help="show the output of these local ranks alone")
    for stream in ("stdout", "stderr"):
        option(f"--duplicate-{stream}-filters", default=None, type=_texts,
               help=f"lines of {stream} that --tee shows and have one of these texts go to a "
                    "file of their own")  # fmt: skip
    option("--signals-to-handle", default="SIGTERM,SIGINT,SIGHUP,SIGQUIT",
           help="signals that end the workers too")  # fmt: skip
    option("--shutdown-timeout", type=int, default=None,
           help="seconds for workers to end by themselves")  # fmt: skip
    option("--virtual-local-rank", action="store_true",
           help="LOCAL_RANK is 0 in all workers, each of which sees one GPU")  # fmt: skip
    option("--node-rank", type=int, default=0, help="number of this machine, for static")
    option("--master-addr", default=_ADDRESS, help="machine 0, for static")
    option("--master-port", type=int, default=None, help="its port, for static: 29500")
    option("--local-addr", default=None, help="name of this machine for the others")
    parser.add_argument("training_script", help="the program, module or command")
    parser.add_argument("training_script_args", nargs=REMAINDER, help="its arguments")
    _defaults_from_environment(parser)
    return parser


def _texts(words):
    return [word for word in words.split(",") if word]


def _defaults_from_environment(parser):
    """Each option can be given as PET_NAME in the environment too."""
    for action in parser._actions:
        value = os.environ.get(f"PET_{action.dest.upper()}")
        if value is None or not action.option_strings:
            continue
        if isinstance(action, argparse._StoreTrueAction):
            action.default = value not in ("0", "")
        else:
            action.default = value if action.type is None else action.type(value)


def parse_args(args: Any) -> Any:
    """The options of a command line, a list of words."""
    return get_args_parser().parse_args(args)


def parse_min_max_nnodes(nnodes: Any) -> Any:
    """The least and the largest number of machines in "N" or "MIN:MAX"."""
    parts = str(nnodes).split(":")
    if len(parts) > 2 or not all(part.isdigit() for part in parts):
        raise RuntimeError(f'nnodes={nnodes} is not in "MIN:MAX" format')
    return int(parts[0]), int(parts[-1])


def determine_local_world_size(nproc_per_node: Any) -> int:
    """How many processes "4", "cpu", "gpu" or "auto", which is one of them, mean here."""
    if str(nproc_per_node).isdigit():
        return int(nproc_per_node)
    gpus = rushlight.cuda.device_count() if rushlight.cuda.is_available() else 0
    if nproc_per_node == "cpu" or nproc_per_node == "auto" and not gpus:
        return len(os.sched_getaffinity(0))
    if nproc_per_node in ("gpu", "auto") and gpus:
        return gpus
    if nproc_per_node in ("gpu", "xpu"):
        raise ValueError(f"--nproc-per-node {nproc_per_node}: there are no such devices")
    raise ValueError(f"Unsupported nproc_per_node value: {nproc_per_node}")


def get_rdzv_endpoint(args: argparse.Namespace) -> str:
    """HOST:PORT where the machines meet, of parsed options.

    Example:
        >>> get_rdzv_endpoint(parse_args(["--master-addr", "host0", "train.py"]))
        'host0:29500'
    """
    if args.rdzv_backend == "static" and not args.rdzv_endpoint:
        port = _PORT if args.master_port is None else args.master_port
        return f"{args.master_addr}:{port}"
    return args.rdzv_endpoint


def get_use_env(args: argparse.Namespace) -> bool:
    """Do workers read their numbers from the environment? They do, unless `use_env` says no."""
    return getattr(args, "use_env", True)


def run_script_path(training_script: str, *training_script_args: str) -> None:
    """Run a program in this process, as its main program.

    Args:
        training_script: its path.
        training_script_args: its arguments.
    """
    sys.argv = [training_script, *training_script_args]
    runpy.run_path(training_script, run_name="__main__")


def _logs_specs_class(name):
    """DefaultLogsSpecs, or the class that an installed package offers under a name."""
    if name is None:
        return DefaultLogsSpecs
    from importlib import metadata

    found = [*metadata.entry_points(group="torchrun.logs_specs", name=name)]
    if not found:
        raise ValueError(f"--logs-specs: no installed package has 'torchrun.logs_specs[{name}]'")
    return found[0].load()


def config_from_args(args: Any) -> Any:
    """(LaunchConfig, command, its arguments) of parsed options."""
    least, most = parse_min_max_nnodes(args.nnodes)
    if not 0 < least <= most or args.max_restarts < 0:
        raise ValueError(f"--nnodes {args.nnodes}, --max-restarts {args.max_restarts}")
    settings = {}
    for part in filter(None, args.rdzv_conf.strip("'\"").split(",")):  # shells leave some quotes
        key, equals, value = part.partition("=")
        if not equals:
            raise ValueError(f"--rdzv-conf: expected KEY=VALUE, got {part!r}")
        settings[key.strip()] = value.strip()
    endpoint, backend = args.rdzv_endpoint, args.rdzv_backend
    if backend not in ("static", "c10d"):
        raise ValueError(f"--rdzv-backend {backend}: there are static and c10d")
    if args.standalone:
        least, most, endpoint, backend = 1, 1, "", "c10d"
    elif backend == "static":
        settings["rank"] = args.node_rank
        is_told = args.master_port is not None or args.master_addr != _ADDRESS
        if most > 1 or is_told:  # else any free port does
            endpoint = get_rdzv_endpoint(args)
        if least != most:
            raise ValueError("--nnodes MIN:MAX needs --rdzv-backend c10d")
    elif most > 1 and not endpoint:
        raise ValueError("--rdzv-backend c10d needs --rdzv-endpoint HOST:PORT")
    shown = {int(rank) for rank in args.local_ranks_filter.split(",") if rank.strip()}
    config = LaunchConfig(
        min_nodes=least,
        max_nodes=most,
        nproc_per_node=determine_local_world_size(args.nproc_per_node),
        run_id="" if args.rdzv_id == "none" and most == 1 else args.rdzv_id,
        role=args.role,
        rdzv_endpoint=endpoint,
        rdzv_backend=backend,
        rdzv_configs=settings,
        max_restarts=args.max_restarts,
        monitor_interval=args.monitor_interval,
        start_method=args.start_method,
        logs_specs=_logs_specs_class(args.logs_specs)(
            args.log_dir, Std.from_str(args.redirects), Std.from_str(args.tee), shown or None
        ),
        log_line_prefix_template=os.environ.get("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"),
        local_addr=args.local_addr,
        event_log_handler=args.event_log_handler,
        signals_to_handle=args.signals_to_handle,
        duplicate_stdout_filters=args.duplicate_stdout_filters,
        duplicate_stderr_filters=args.duplicate_stderr_filters,
        virtual_local_rank=args.virtual_local_rank,
        shutdown_timeout=args.shutdown_timeout,
    )
    program_words = list(args.training_script_args)
    if not get_use_env(args):
        program_words.insert(0, LOCAL_RANK_WORD)
    if args.run_path and (args.no_python or args.module):
        raise ValueError("--run-path is for a Python program given by its path")
    if args.no_python:
        if args.module:
            raise ValueError("Don't use both the '--no-python' flag and the '--module' flag.")
        return config, args.training_script, program_words
    words = ["-u", "-m", "rushlight"]
    if args.module:
        words.append("-m")
    return config, sys.executable, [*words, args.training_script, *program_words]


def run(args: Any) -> None:
    """Run what parsed options describe."""
    config, command, words = config_from_args(args)
    elastic_launch(config, command)(*words)


def main(args: Any = None) -> None:
    """Run a command line: by default this process's.

    Raises:
        ChildFailedError: a worker failed, in its last run.
    """
    run(parse_args(args))


def _command():
    from rushlight.distributed.elastic.multiprocessing.errors import ChildFailedError

    try:
        main()
    except ChildFailedError as error:
        print(f"rushlight.distributed.run: {error}", file=sys.stderr)
        raise SystemExit(1) from None


__all__ = [
    "REMAINDER",
    "config_from_args",
    "determine_local_world_size",
    "get_args_parser",
    "get_rdzv_endpoint",
    "get_use_env",
    "main",
    "parse_args",
    "parse_min_max_nnodes",
    "run",
    "run_script_path",
]

if __name__ == "__main__":
    _command()
