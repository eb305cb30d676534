"""Passes over graphs beside torch's: the same parts, the same nodes, the same code."""

import importlib
import warnings

import pytest

import rushlight

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


def module_of(library, path):
    return importlib.import_module(f"{library.__name__}.{path}")


def both(run):
    """What a function gives with each library."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours, theirs = run(rushlight), run(torch)
    assert ours == theirs


def net_of(library):
    class Net(library.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = library.nn.Parameter(library.ones(4))
            self.first = library.nn.Linear(4, 4)
            self.rest = library.nn.Sequential(library.nn.ReLU(), library.nn.Linear(4, 2))

        def forward(self, x, y=None):
            z = self.first(x * self.scale).clamp(min=0.0)
            return self.rest(z + self.first(y)), self.scale, z

    return Net()


def codes(module):
    found = [module.code.strip()]
    for name, child in module.named_children():
        found += [name, *codes(child)] if hasattr(child, "graph") else [name]
    return found


@pytest.mark.parametrize("size", [2, 3, 20])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"keep_original_order": True},
        {"keep_original_node_name": True},
        {"keep_original_input_name": False, "partition_affix": "pp", "tuple_return": True},
    ],
    ids=str,
)
def test_split_module(size, options):
    def run(library):
        traced, names = module_of(library, "fx").symbolic_trace(net_of(library)), {}
        place = {node: i for i, node in enumerate(traced.graph.nodes)}
        split = module_of(library, "fx.passes.split_module").split_module(
            traced, None, lambda n: place[n] // size, names, **options
        )
        return codes(split), names

    both(run)


def test_split_by_tags():
    def run(library):
        traced = module_of(library, "fx").symbolic_trace(net_of(library))
        for place, node in enumerate(traced.graph.nodes):
            node.tag = "a" if place < 6 else "b"
        split, names = module_of(library, "fx.passes.split_utils").split_by_tags(
            traced, ["a", "b"], return_fqn_mapping=True
        )
        return codes(split), names

    both(run)


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("names", [("add", "relu"), ("add", "mul", "sigmoid"), ("relu", "chunk")])
def test_partitions(names, skip):
    def run(library):
        def f(a, b, c):
            x = library.relu(a + b) * c
            y = library.sigmoid(a)
            p, q = library.chunk(library.relu(y + x) + a, 2)
            return p + q, y

        support = module_of(library, "fx.passes.operator_support").create_op_support(
            lambda modules, n: n.op == "call_function" and n.target.__name__ in names
        )
        traced = module_of(library, "fx").symbolic_trace(f)
        partitioner = module_of(library, "fx.passes.infra.partitioner").CapabilityBasedPartitioner(
            traced, support, True, skip_horizontal_fusion=skip
        )
        found = partitioner.propose_partitions()
        parts = [[n.name for n in part.nodes] for part in found]
        return parts, codes(partitioner.fuse_partitions(found))

    both(run)


@pytest.mark.parametrize("options", [{}, {"ignore_literals": True}, {"match_placeholder": True},
                                     {"remove_overlapping_matches": False}], ids=str)  # fmt: skip
def test_matches(options):
    def run(library):
        def f(x, w):
            a = library.relu(x) + 1
            b = library.relu(a) + 1
            return a, library.cat([library.relu(b) + 2, w]), library.relu(w) + w

        trace = module_of(library, "fx").symbolic_trace
        matcher = module_of(library, "fx.passes.utils.matcher_utils").SubgraphMatcher
        graph, found = trace(f).graph, []
        for pattern in (
            lambda x: library.relu(x) + 1,
            lambda x, y: library.relu(x) + y,
            lambda x, y: library.cat([x, y]),
            lambda x: library.relu(library.relu(x) + 1),
        ):
            traced = trace(pattern)
            for match in matcher(traced.graph, **options).match(graph):
                found.append({str(a): str(b) for a, b in match.nodes_map.items()})
        return found

    both(run)


def test_normalized_calls():
    def run(library):
        normalize = module_of(library, "fx.operator_schemas").normalize_function
        functional = library.nn.functional
        calls = [
            (library.relu, (1,)), (library.flatten, (1,)), (library.cat, ([1, 2],)),
            (functional.linear, (1, 2)), (functional.max_pool2d, (1, 2)),
            (functional.batch_norm, (1, 2, 3)), (functional.gelu, (1,)), (library.bmm, (1, 2)),
        ]  # fmt: skip
        return [tuple(normalize(f, args, normalize_to_only_use_kwargs=k))
                for f, args in calls for k in (False, True)]  # fmt: skip

    both(run)


def test_folded_attributes():
    def run(library):
        class Folded(library.nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = (library.nn.Parameter(library.ones(2)) for _ in range(2))

            def forward(self, x):
                return x + self.a * self.b, self.a - self.b

        fold = module_of(library, "fx.experimental.const_fold").split_const_subgraphs
        folded = fold(Folded())
        return folded.code, folded.const_subgraph_module.code

    both(run)


def test_unflattened_modules():
    def run(library):
        net, x = net_of(library), library.ones(2, 4)
        program = module_of(library, "export").export(net, (x, x))
        module = library.export.unflatten(program)
        names = [name for name, _ in module.named_modules()]
        return sorted(names), sorted(module.state_dict()), [
            n.target for n in module.graph.nodes if n.op == "call_module"
        ]  # fmt: skip

    both(run)
