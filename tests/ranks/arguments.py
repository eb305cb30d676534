"""Every argument of what two processes do together does something: with another value than its
default some rank gets something else, or an error or a warning. What does not is listed.
"""

import datetime
import inspect
import os
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from test_arguments import some_has_effect

import rushlight as torch
import rushlight.distributed as dist
from rushlight.distributed import distributed_c10d

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
torch.set_warn_always(True)
rank, size = dist.get_rank(), dist.get_world_size()
groups = [dist.new_group([r]) for r in range(size)]
ALONE = groups[rank]  # of this process

LATE = "a rank that does not come is told of in any case; tests/ranks/failing.py has them"
NO_EFFECT = {
    "monitored_barrier": {"timeout": LATE, "wait_all_ranks": LATE},
    "barrier": {"device_ids": "the GPUs of a group that serves them, which this one does not"},
}


def x(*shape):
    return torch.arange(1.0, 1.0 + torch.Size(shape).numel()).reshape(shape) * (rank + 1)


def shown(value):
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [shown(v) for v in value]
    return type(value).__name__ if isinstance(value, dist.Work) else repr(value)


def on(tensors, function, *args, **named):
    """What a call returns and what it leaves of the tensors."""
    result = function(*args, **named)
    kind = shown(result)
    if isinstance(result, dist.Work):
        result.wait()
    return kind, shown(tensors)


def reduced(function, given, outputs=None, **changed):
    outputs = given if outputs is None else outputs
    first = [given] if outputs is given else [outputs, given]
    return on(outputs, function, *first, **changed)


def to_root(function, *args, outputs, **changed):
    root = changed.get("dst", changed.get("group_dst", 0))
    wanted = outputs if root == rank or changed.get("group") is ALONE else None
    return on(outputs, function, *args, wanted, **changed)


def from_root(function, output, inputs, **changed):
    root = changed.get("src", changed.get("group_src", 0))
    given = inputs if root == rank or changed.get("group") is ALONE else None
    return on(output, function, output, given, **changed)


def outputs_of(changed):
    return 1 if changed.get("group") is ALONE else size


def lists(changed):
    return [torch.zeros(2) for _ in range(outputs_of(changed))]


def objects(changed):
    return [None] * outputs_of(changed)


# Messages between rank 0, which sends two, and rank 1, by the arguments of one of them. Whoever
# raises sends or receives them all the same, as the other waits for that.
def tags_of(changed):
    return (5, 0) if changed.get("tag") else (0, 5)


def sent(function, **changed):
    if rank == 0:
        where = {} if "group_dst" in changed else {"dst": 1}
        messages = [(torch.full((2,), v), tag) for v, tag in zip((1.0, 2.0), tags_of(changed))]
        try:
            works = [function(t, **{**where, **changed, "tag": tag}) for t, tag in messages]
        except Exception:
            for tensor, tag in messages:
                dist.send(tensor, 1, tag=tag)
            raise
        return [work and work.wait() for work in works]
    found = [torch.zeros(2), torch.zeros(2)]
    for tensor, tag in zip(found, (0, 5)):
        dist.recv(tensor, 0, tag=tag)
    return shown(found)


def received(function, **changed):
    if rank == 0:
        for value, tag in ((1.0, 0), (2.0, 5)):
            dist.send(torch.full((2,), value), 1, tag=tag)
        return None
    found, other = torch.zeros(2), torch.zeros(2)
    first, second = tags_of(changed)
    try:
        result = function(found, **changed)
        if isinstance(result, dist.Work):
            result.wait()
    except Exception:
        dist.recv(found, 0, tag=first)
        raise
    finally:
        dist.recv(other, 0, tag=second)
    return shown(found)


def grouped(function, *args, **changed):
    made = function(*args, **changed)
    found = made[0] if isinstance(made, tuple) else made
    if not isinstance(found, dist.ProcessGroup):
        return repr(found)
    return (dist.get_process_group_ranks(found), found.group_desc, dist.get_backend(found),
            repr(found._timeout) if hasattr(found, "_timeout") else None)  # fmt: skip


def without_local_rank(function, **changed):
    kept = os.environ.pop("LOCAL_RANK")
    try:
        return function(**changed)
    except RuntimeError as error:
        return str(error)
    finally:
        os.environ["LOCAL_RANK"] = kept


CASES = {
    "all_reduce": lambda f, **a: reduced(f, x(2), **a),
    "all_reduce_coalesced": lambda f, **a: reduced(f, [x(2), x(3)], **a),
    "reduce": lambda f, **a: reduced(f, x(2), **({} if set(a) & {"dst", "group_dst"} else {"dst": 0}
                                                  ), **a),
    "reduce_scatter": lambda f, **a: reduced(
        f, [x(2) for _ in range(outputs_of(a))], torch.zeros(2), **a),
    "reduce_scatter_tensor": lambda f, **a: reduced(f, x(2 * outputs_of(a)), torch.zeros(2), **a),
    "broadcast": lambda f, **a: reduced(f, x(2), **({} if set(a) & {"src", "group_src"} else {
        "src": rank if a.get("group") is ALONE else 0}), **a),
    "all_gather": lambda f, **a: reduced(f, x(2), lists(a), **a),
    "all_gather_into_tensor": lambda f, **a: reduced(
        f, x(2), torch.zeros(2 * outputs_of(a)), **a),
    "all_gather_coalesced": lambda f, **a: reduced(
        f, [x(2)], [[t] for t in lists(a)], **a),
    "gather": lambda f, **a: to_root(f, x(2), outputs=lists(a), **(
        {"group_dst": 0} if a.get("group") is ALONE else {}), **a),
    "scatter": lambda f, **a: from_root(f, torch.zeros(2), [x(2) + i for i in range(outputs_of(a))],
                                        **({"group_src": 0} if a.get("group") is ALONE else {}),
                                        **a),
    "all_to_all_single": lambda f, **a: reduced(f, x(2), torch.zeros(2), **a),
    "all_to_all": lambda f, **a: reduced(
        f, [x(2) + i for i in range(outputs_of(a))], lists(a), **a),
    "barrier": lambda f, **a: on(None, f, **a),
    "monitored_barrier": lambda f, **a: on(None, f, **a),
    "all_gather_object": lambda f, **a: reduced(f, rank, objects(a), **a),
    "gather_object": lambda f, **a: to_root(f, rank, outputs=objects(a), **(
        {"group_dst": 0} if a.get("group") is ALONE else {}), **a),
    "broadcast_object_list": lambda f, **a: reduced(f, [rank], **(
        {"group_src": 0} if a.get("group") is ALONE else {}), **a),
    "scatter_object_list": lambda f, **a: from_root(f, [None], [
        10 * rank + i for i in range(outputs_of(a))], **(
        {"group_src": 0} if a.get("group") is ALONE else {}), **a),
    "send": sent, "isend": sent, "recv": received, "irecv": received,
    # With a list of its own a rank meets only whom the list names.
    "new_group": lambda f, **a: grouped(
        f, **{"ranks": [rank] if "use_local_synchronization" in a else None, **a}),
    "new_subgroups": lambda f, **a: grouped(f, **{"group_size": 1, **a}),
    "new_subgroups_by_enumeration": lambda f, **a: grouped(f, [[0], [1]], **a),
    "get_rank": lambda f, **a: f(**a),
    "get_world_size": lambda f, **a: f(**a),
    "get_backend": lambda f, **a: f(**a),
    "get_backend_config": lambda f, **a: f(**a),
    "get_node_local_rank": lambda f, **a: without_local_rank(f, **a),
}  # fmt: skip
# How a world begins and ends, and what refuses without a GPU; tests/test_distributed.py has them.
ELSEWHERE = {
    "init_process_group", "destroy_process_group", "split_group", "shrink_group", "P2POp",
    "send_object_list", "recv_object_list", "init_device_mesh", "breakpoint", "rendezvous",
}  # fmt: skip


def others(name):
    if name in ("group", "parent_pg"):
        return [ALONE, "not a group"]
    if name in ("dst", "src", "group_dst", "group_src"):
        return [1, 7]
    return {
        "op": [dist.ReduceOp.MAX], "async_op": [True], "tag": [5], "timeout": [
            datetime.timedelta(seconds=7), 3],
        "device": ["meta", "nowhere"], "output_split_sizes": [[1, 1], [3, 1]],
        "input_split_sizes": [[1, 1], [3, 1]], "device_ids": [[0]], "wait_all_ranks": [True],
        "ranks": [[0]], "backend": ["mpi", "nothing"], "pg_options": [object()],
        "use_local_synchronization": [True], "group_desc": ["described"], "device_id": [
            torch.device("meta"), "cpu"], "group_size": [2],
        "gather_list": [[torch.zeros(2)]], "scatter_list": [[torch.zeros(2)]],
        "object_gather_list": [[None]], "scatter_object_input_list": [[None]],
        "fallback_rank": [3],
    }[name]  # fmt: skip


def without_effect(name):
    function = getattr(dist, name)
    left = set()
    for parameter in inspect.signature(function).parameters.values():
        if parameter.default is parameter.empty:
            continue

        def run(changed):
            return CASES[name](function, **changed)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            usual = run({})
        seen = [
            some_has_effect(lambda v, p=parameter: run({p.name: v}), usual, [value])
            for value in others(parameter.name)
        ]
        told = [None] * size
        dist.all_gather_object(told, any(seen))
        if not any(told):
            left.add(parameter.name)
    return left


def has_options(value):
    return inspect.isfunction(value) and any(
        p.default is not p.empty for p in inspect.signature(value).parameters.values()
    )


public = {name for name in dir(distributed_c10d) + [*dist._HOME] if not name.startswith("_")}
known = [getattr(dist, name) for name in CASES]
with_options = {name for name in public if has_options(getattr(dist, name, None))
                and getattr(dist, name) not in known}  # fmt: skip
assert with_options <= ELSEWHERE, with_options - ELSEWHERE
found = {name: without_effect(name) for name in CASES}
wrong = {name: left for name, left in found.items() if left != set(NO_EFFECT.get(name, ()))}
assert not wrong, wrong
dist.barrier()
dist.destroy_process_group()
