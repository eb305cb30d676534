"""What carries the messages of process groups: names, and classes of groups of programs."""

from __future__ import annotations

from typing import NamedTuple

import rushlight
from rushlight._enums import NumberedEnum

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import timedelta
    from typing import Any


class BackendType(NumberedEnum):
    """The kinds of backends that torch knows."""

    UNDEFINED, GLOO, NCCL, UCC, MPI, XCCL, CUSTOM = range(7)


class Backend(str):
    """The name of what carries the messages.

    Both "mpi" and "gloo" are served by MPI; the name stays as the program has given it.
    """

    UNDEFINED, GLOO, NCCL, UCC, MPI = "undefined", "gloo", "nccl", "ucc", "mpi"
    XCCL, FAKE = "xccl", "fake"
    backend_list: list[str] = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE]
    # A kind of device -> what a program asks for that names no backend.
    default_device_backend_map: dict[str, str] = {
        "cpu": GLOO,
        "cuda": NCCL,
        "xpu": XCCL,
        "mps": GLOO,
    }
    # A backend -> the kinds of devices whose tensors it carries.
    backend_capability: dict[str, list[str]] = {
        GLOO: ["cpu"], NCCL: ["cuda"], MPI: ["cpu"], FAKE: ["cpu", "cuda"]
    }  # fmt: skip
    # A backend -> the kind that it is.
    backend_type_map: dict[str, BackendType] = {
        UNDEFINED: BackendType.UNDEFINED, GLOO: BackendType.GLOO, NCCL: BackendType.NCCL,
        XCCL: BackendType.XCCL, UCC: BackendType.UCC, MPI: BackendType.MPI,
        FAKE: BackendType.CUSTOM,
    }  # fmt: skip

    class _BackendPlugin(NamedTuple):
        creator_fn: Callable[..., Any]
        extended_api: bool

    _plugins: dict[str, _BackendPlugin] = {}  # what programs have registered, by NAME

    def __new__(cls, name: str) -> Any:
        if not isinstance(name, str):
            raise ValueError(f"Backend name must be a string, but got: {name}")
        return super().__new__(cls, name.lower())

    @classmethod
    def register_backend(
        cls,
        name: str,
        func: Callable[..., Any],
        extended_api: bool = False,
        devices: str | Sequence[str] | None = None,
    ) -> None:
        """Let `init_process_group` and `new_group` make groups of a program's own class.

        Args:
            name: what they are asked for.
            func: called with store, rank, size and time-out of a group; returns it, a
                `ProcessGroup` of a derived class, whose methods carry the tensors.
            extended_api: call `func` with an object that has these (`store`, `group_rank`,
                `group_size`, `timeout`, `group_id`, `global_ranks_in_group`) and with `pg_options`.
            devices: the kinds of devices whose tensors it carries; CPU and GPUs by default.
        """
        lower, upper = name.lower(), name.upper()
        if not hasattr(cls, upper):
            setattr(cls, upper, lower)
        if lower not in cls.backend_list:
            cls.backend_list.append(lower)
        devices = ["cpu", "cuda"] if devices is None else devices
        devices = [devices] if isinstance(devices, str) else list(devices)
        for device in devices:
            cls.default_device_backend_map.setdefault(device, lower)
        cls.backend_capability[lower] = devices
        cls.backend_type_map[lower] = BackendType.CUSTOM
        cls._plugins[upper] = cls._BackendPlugin(func, extended_api)


class BackendConfig:
    """Which backend serves which kind of device: "gloo", or "cpu:gloo,cuda:nccl".

    Args:
        backend: the text, or None for that of each kind of device.
    """

    def __init__(self, backend: Any) -> None:
        text = str(backend or "cpu:gloo,cuda:nccl").lower()
        self.device_backend_map: dict[str, Backend] = {}
        if ":" in text:
            for part in text.split(","):
                device, colon, name = part.strip().partition(":")
                if not colon or not device or not name or device in self.device_backend_map:
                    raise ValueError(
                        f"The custom backend string argument is invalid: {backend}.\n"
                        "Custom backend string is an experimental feature where the backend string "
                        'must be in the format: "<device_type1>:<backend1>,<device_type2>:'
                        '<backend2>...", e.g. "cpu:gloo,cuda:nccl"'
                    )
                self.device_backend_map[device] = Backend(name)
        else:
            self.device_backend_map = dict.fromkeys(("cpu", "cuda"), Backend(text))

    def get_device_backend_map(self) -> Any:
        """Kinds of device with their backends."""
        return dict(self.device_backend_map)

    def __repr__(self) -> str:
        return ",".join(f"{device}:{name}" for device, name in self.device_backend_map.items())


class _Setting(NamedTuple):
    """What a class of groups with `extended_api` is told of a group."""

    store: Any
    group_rank: int
    group_size: int
    timeout: timedelta
    group_id: str
    global_ranks_in_group: list[int]


def creator(backend: Any) -> Any:
    """What makes groups of this backend, if a program has registered it or it is "fake"; else None.

    The function takes store, rank, size, time-out, name, ranks in the world and options.
    """
    serving = BackendConfig(backend).device_backend_map.get("cpu")
    plugin = None if serving is None else Backend._plugins.get(serving.upper())
    if plugin is None and serving == Backend.FAKE:
        from rushlight.distributed._fake import FakeProcessGroup

        plugin = Backend._BackendPlugin(lambda store, *place: FakeProcessGroup(*place[:2]), False)
    if plugin is None:
        return None

    def create(store, rank, size, timeout, name, ranks, options):
        if plugin.extended_api:
            setting = _Setting(store, rank, size, timeout, name, list(ranks))
            return plugin.creator_fn(setting, options)
        if options is not None:
            raise TypeError(f"backend {serving!r} takes no pg_options: {options!r}")
        return plugin.creator_fn(store, rank, size, timeout)

    return create


def check_backend(backend: Any) -> None:
    """Raise where nothing serves the tensors of the CPU."""
    serving = BackendConfig(backend).device_backend_map.get("cpu")
    if serving in (Backend.GLOO, Backend.MPI, Backend.UNDEFINED) or creator(backend) is not None:
        return
    if serving == Backend.NCCL:
        from rushlight.distributed import _nccl

        if _nccl.is_available():
            return
        if rushlight.cuda.is_available():
            raise RuntimeError(
                "init_process_group: NCCL was not found: pip install nvidia-nccl-cu13"
            )
        raise RuntimeError(
            "init_process_group: NCCL needs GPUs, and there are none; use backend 'gloo'"
        )
    raise ValueError(
        f"init_process_group: backend {backend!r} does not serve tensors of the CPU; 'gloo', "
        "'mpi' and what Backend.register_backend was called with do"
    )
