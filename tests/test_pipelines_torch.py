"""The order in which processes run their stages, against torch's schedules."""

import pytest

from rushlight.distributed.pipelining import _orders as orders

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


class Stage:
    """What a schedule of torch asks of a stage before it runs."""

    def __init__(self, index, stages, rank, size):
        self.stage_index, self.num_stages = index, stages
        self.group_rank, self.group_size = rank, size
        self.is_first, self.is_last = index == 0, index == stages - 1
        self.submod, self.has_backward = torch.nn.Linear(1, 1), False


def theirs(name, size, local, count):
    from torch.distributed.pipelining.schedules import get_schedule_class

    stages = [Stage(i * size, size * local, 0, size) for i in range(local)]
    made = get_schedule_class(name)(stages if local > 1 else stages[0], count)
    return {
        rank: [
            str(action)
            for action in order
            if action is not None and "REDUCE" not in str(action.computation_type)
        ]
        for rank, order in made.pipeline_order.items()
    }


def ours(name, size, local, count):
    make = {
        "GPipe": lambda r: orders.gpipe(r, count),
        "LoopedBFS": lambda r: orders.breadth_first(r, size, local, count),
        "Interleaved1F1B": lambda r: orders.interleaved(r, size, local, count, False),
        "InterleavedZeroBubble": lambda r: orders.interleaved(r, size, local, count, True),
        "ZBVZeroBubble": lambda r: orders.zero_bubble_v(r, size, count),
        "DualPipeV": lambda r: orders.dual_pipe_v(r, size, count),
    }[name]
    return {rank: list(map(str, make(rank))) for rank in range(size)}


CASES = [
    *(("GPipe", size, 1, count) for size in (2, 4) for count in (1, 5)),
    *(("LoopedBFS", size, local, 3) for size in (2, 3) for local in (2, 3)),
    *((name, size, local, rounds * size)
      for name in ("Interleaved1F1B", "InterleavedZeroBubble")
      for size in (2, 3, 4) for local in (2, 3) for rounds in (1, 2, 4)),
    *(("ZBVZeroBubble", size, 2, count) for size in (2, 3, 4) for count in (2, 5, 8, 11)),
    *(("DualPipeV", size, 2, 2 * size + more) for size in (2, 3, 4, 5) for more in (0, 1, 4)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "size", "local", "count"), CASES)
def test_orders(name, size, local, count):
    assert ours(name, size, local, count) == theirs(name, size, local, count)


@pytest.mark.parametrize("style", ["loop", "v"])
def test_places(style):
    from torch.distributed.pipelining._utils import generate_stage_to_rank_mapping

    for size, stages in ((2, 4), (3, 6), (2, 6), (4, 4)):
        wanted = generate_stage_to_rank_mapping(size, stages, style)
        assert orders.ranks_of_stages(size, stages, style) == wanted
