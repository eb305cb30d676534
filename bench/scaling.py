"""How DistributedDataParallel and FullyShardedDataParallel would scale to 1,024 processes.

    python -m bench.scaling measure    compute and links of this machine, to runs/scaling.json
    python -m bench.scaling            the model's table, and its picture docs/scaling.svg

A model on paper, fed by measurements: a message of S bytes takes alpha + S * beta, links between
machines are given (LINKS), those within a machine are measured. What each process computes stays
the same (weak scaling), and all wait for the slowest: of n processes whose steps spread by SPREAD,
it is SPREAD * sqrt(2 ln n) behind the mean.
"""

import json
import math
import statistics
import sys
import time
from pathlib import Path

from bench import distributed as programs

ROOT = Path(__file__).parent.parent
FILE = ROOT / "runs" / "scaling.json"
PICTURE = ROOT / "docs" / "scaling.svg"
RANKS = (2, 8, 32, 128, 512, 1024)
PER_MACHINE = 8
# Between machines: seconds for a message, and bytes per second; what such networks are sold as.
LINKS = {"10 Gbit/s": (30e-6, 1.25e9), "100 Gbit/s": (5e-6, 12.5e9), "400 Gbit/s": (3e-6, 50e9)}
SPREAD = 0.01
BUCKET, FIRST = 25 << 20, 1 << 20


# ------------------------------------------------------------------ what is measured


def gpt2(torch):
    """GPT-2's size, 124 million parameters, and 2 x 128 tokens."""
    nn = torch.nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(50257, 768)
            layer = nn.TransformerEncoderLayer(768, 12, 3072, 0.0, "gelu", batch_first=True)
            self.layers = nn.ModuleList(nn.TransformerEncoder(layer, 12).layers)
            self.last = nn.Linear(768, 50257, bias=False)
            self.last.weight = self.tokens.weight

        def forward(self, x):
            h = self.tokens(x)
            mask = nn.Transformer.generate_square_subsequent_mask(x.size(1))
            for layer in self.layers:
                h = layer(h, src_mask=mask, is_causal=True)
            return self.last(h).flatten(0, 1)

    x = torch.randint(0, 50257, (2, 128))
    return Net(), x, x


def units_of(net):
    """The submodules that FullyShardedDataParallel would wrap: blocks and layers."""
    kinds = ("TransformerEncoderLayer", "Block")
    return [m for m in net.modules() if type(m).__name__ in kinds]


def measure_case(torch, make, steps):
    """Seconds of a step's parts: when each gradient arrives, and each unit's forward.

    Of the processor's time, so that what else runs on the machine counts little.
    """
    net, x, y = make(torch)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    parameters, arrived, spent, began = list(net.parameters()), {}, {}, [0.0]
    units = units_of(net)
    owner = {id(p): number for number, unit in enumerate(units) for p in unit.parameters()}
    for number, parameter in enumerate(parameters):
        parameter.register_post_accumulate_grad_hook(
            lambda _, number=number: arrived.__setitem__(number, time.process_time() - began[0])
        )
    for number, unit in enumerate(units):
        unit.register_forward_pre_hook(
            lambda *_, n=number: spent.__setitem__(n, -time.process_time())
        )
        unit.register_forward_hook(
            lambda *_, n=number: spent.__setitem__(n, spent[n] + time.process_time())
        )
    runs = []
    for _ in range(steps):
        optimizer.zero_grad()
        start = time.process_time()
        loss = torch.nn.functional.cross_entropy(net(x), y.flatten())
        began[0] = time.process_time()
        loss.backward()
        ended = time.process_time()
        optimizer.step()
        runs.append({
            "forward": began[0] - start, "backward": ended - began[0],
            "update": time.process_time() - ended,
            "arrived": [arrived[i] for i in range(len(parameters))],
            "units": [spent[i] for i in range(len(units))],
        })  # fmt: skip
    total = [run["forward"] + run["backward"] + run["update"] for run in runs]
    best = dict(runs[total.index(min(total))])
    best["bytes"] = [p.numel() * p.element_size() for p in parameters]
    best["owner"] = [owner.get(id(p), -1) for p in parameters]
    return best


def measure_worker(size_of_world):
    """Two ranks: seconds of collectives by bytes; one: the compute of all cases."""
    torch = programs.load("rushlight")
    torch.set_num_threads(1)
    if size_of_world == 1:
        cases = {"small GPT": (programs.gpt, 20), "ResNet-18": (programs.resnet, 8),
                 "GPT-2 124M": (gpt2, 3)}  # fmt: skip
        found = {name: measure_case(torch, *case) for name, case in cases.items()}
    else:
        torch.distributed.init_process_group("gloo")
        found = {}
        for count in (64, 1 << 14, 1 << 18, 1 << 20, 25 << 18):
            x, times = torch.zeros(count), []
            for _ in range(60):
                torch.distributed.barrier()
                began = time.perf_counter()
                torch.distributed.all_reduce(x)
                times.append(time.perf_counter() - began)
            found[4 * count] = [min(times), statistics.median(times)]
    if not size_of_world > 1 or torch.distributed.get_rank() == 0:
        print("RESULT " + json.dumps(found), flush=True)


def measure():
    """Write FILE."""
    found = {}
    for ranks, name in ((1, "compute"), (2, "all_reduce")):
        (line,) = programs.measure(
            "rushlight", str(ranks), ranks, module="bench.scaling", threads=1
        )
        found[name] = json.loads(line)
    sizes = {int(size): times[0] for size, times in found["all_reduce"].items()}
    small, large = min(sizes), max(sizes)
    # Of two processes, each sends and gets S / 2 twice: 2 alpha + S beta.
    beta = (sizes[large] - sizes[small]) / (large - small)
    found["local"] = [sizes[small] / 2, 1 / beta]
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(json.dumps(found, indent=1))
    print(f"alpha {1e6 * found['local'][0]:.0f} us, {1e-9 / beta:.1f} GB/s: {FILE}")


# ------------------------------------------------------------------ the model


class Network:
    """Machines of PER_MACHINE processes.

    Args:
        ranks: how many processes.
        local, remote: (alpha, bytes per second) within a machine and between two.
    """

    def __init__(self, ranks, local, remote):
        self.inner = min(ranks, PER_MACHINE)
        self.machines = ranks // self.inner
        self.local, self.remote = local, remote

    def _step(self, members, link, size, latency):
        """A ring's reduce-scatter or all-gather of `size` bytes: half of an all-reduce."""
        if members == 1:
            return 0.0
        alpha, speed = link
        return latency(members) * alpha + size * (members - 1) / members / speed

    def half(self, size):
        """Seconds of a reduce-scatter or an all-gather, first within machines, then between."""

        def hops(members):  # recursive halving: as few messages as the logarithm
            return math.ceil(math.log2(members))

        # Each process of a machine talks to its likes in the others; they share the network.
        inside = self._step(self.inner, self.local, size, hops)
        return inside + self._step(self.machines, self.remote, size, hops)

    def all_reduce(self, size):
        """Seconds."""
        return 2 * self.half(size)


def buckets(case):
    """Pairs (when its gradients are there, bytes), as DistributedDataParallel makes them."""
    order = sorted(range(len(case["bytes"])), key=case["arrived"].__getitem__)
    made, held = [], 0
    for index in order:
        held += case["bytes"][index]
        if held >= (BUCKET if made else FIRST):
            made.append((case["arrived"][index], held))
            held = 0
    if held:
        made.append((case["arrived"][order[-1]], held))
    return made


def ddp(case, network):
    """Seconds of a step: buckets travel one after the other while backward goes on."""
    free = 0.0
    for ready, size in buckets(case):
        free = max(free, ready) + network.all_reduce(size)
    return case["forward"] + max(case["backward"], free) + case["update"]


def fsdp(case, network, ahead):
    """Seconds of a step with one unit for each block and one for the rest.

    Args:
        ahead: the next unit's parameters travel while this one computes; else, as rushlight does
            it, they are gathered when they are needed.
    """
    count = len(case["units"])
    sizes = [0] * (count + 1)
    for size, owner in zip(case["bytes"], case["owner"]):
        sizes[owner] += size  # -1: the rest
    rest = max(0.0, case["forward"] - sum(case["units"]))
    forward = [rest, *case["units"]]
    share = case["backward"] / case["forward"]
    order = [sizes[-1], *sizes[:-1]]
    gather = [network.half(size) for size in order]
    # Whole parameters of the outermost unit stay; the others' are gathered again for backward.
    again = [0.0, *gather[1:]]
    computes = forward + [seconds * share for seconds in reversed(forward)]
    needed = gather + list(reversed(again))
    reduced = [0.0] * len(gather) + list(reversed(gather))
    if not ahead:
        return sum(computes) + sum(needed) + sum(reduced) + case["update"]
    link = here = 0.0
    for seconds, before, after in zip(computes, needed, reduced):
        link += before
        here = max(here, link) + seconds
        link = max(link, here - seconds) + after
    return max(here, link) + case["update"]


def efficiencies(found):
    """{(program, network, way): {ranks: share of the speed of processes that exchange nothing}}"""
    ways = {
        "DDP": ddp,
        "FSDP": lambda case, network: fsdp(case, network, False),
        "FSDP, gathered ahead": lambda case, network: fsdp(case, network, True),
    }
    rows = {}
    for name, case in found["compute"].items():
        alone = case["forward"] + case["backward"] + case["update"]
        for link, remote in LINKS.items():
            for way, seconds in ways.items():
                rows[name, link, way] = {
                    ranks: alone
                    / (
                        seconds(case, Network(ranks, found["local"], remote))
                        + alone * SPREAD * math.sqrt(2 * math.log(ranks))
                    )
                    for ranks in RANKS
                }
    return rows


def table(rows):
    """Lines of Markdown."""
    yield "| | between machines | | " + " | ".join(map(str, RANKS)) + " |"
    yield "|---|---|---|" + "---|" * len(RANKS)
    for (name, link, way), row in rows.items():
        yield f"| {name} | {link} | {way} | " + " | ".join(f"{v:.2f}" for v in row.values()) + " |"


def draw(rows):
    """Write PICTURE."""
    from matplotlib import pyplot

    names = list(dict.fromkeys(name for name, _, _ in rows))
    figure, axes = pyplot.subplots(1, len(names), figsize=(11, 3.4), sharey=True)
    styles = {"DDP": "-", "FSDP": "--", "FSDP, gathered ahead": ":"}
    colours = dict(zip(LINKS, ("tab:red", "tab:blue", "tab:green")))
    for axis, name in zip(axes, names):
        for (program, link, way), row in rows.items():
            if program == name:
                axis.plot(list(row), list(row.values()), styles[way], color=colours[link],
                          label=f"{way}, {link}")  # fmt: skip
        axis.set(xscale="log", title=name, xlabel="processes", ylim=(0, 1.02))
        axis.set_xticks(RANKS, labels=map(str, RANKS))
        axis.minorticks_off()
    axes[0].set_ylabel("share of the speed without exchange")
    axes[-1].legend(fontsize=6)
    figure.tight_layout()
    figure.savefig(PICTURE, metadata={"Date": None})


def main():
    """The table and the picture."""
    found = json.loads(FILE.read_text())
    rows = efficiencies(found)
    print("\n".join(table(rows)))
    two = Network(2, found["local"], LINKS["100 Gbit/s"])
    for name, case in found["compute"].items():
        print(f"{name}: two processes {1e3 * ddp(case, two):.1f} ms by DDP")
    draw(rows)


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        measure_worker(int(sys.argv[3]))
    elif sys.argv[1:] == ["measure"]:
        measure()
    else:
        main()
