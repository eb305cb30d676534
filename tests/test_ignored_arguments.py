"""Nothing is accepted and ignored: every public function reads each of its parameters.

A parameter that is not supported is refused, or warned about once by `_ignored.warn_of`, which also
counts as reading it. The exceptions are listed with their reasons.
"""

import ast
from pathlib import Path

PACKAGE = Path(__file__).parent.parent / "python" / "rushlight"

# Parameters by function, for which there is nothing to be done. What is said for a whole file or
# class holds for the functions in it.
ONE_DEVICE = "the CPU is one device, whose operations have run when their calls return"
ONE_PROCESS = "in a world of one process nothing is sent"
NO_COMPILER = "operations run as they are called, which docs/differences.md says; results are equal"
ONE_WAY = "chooses among ways to compute the same, of which there is one"
PROTOCOL = "a signature that the caller prescribes"
AS_TORCH = "torch documents or shows that it has no effect there"

EXCEPTIONS = {
    "accelerator/__init__.py:current_accelerator": {
        "check_available": "a kind that is not there is never returned"
    },
    "_batch_norm_parts.py:batch_norm_elemt": {"eps": AS_TORCH},
    "_checkpoint_numpy.py": PROTOCOL,
    "_checks.py:is_distributed": ONE_PROCESS,
    "_device.py:leave_device": PROTOCOL,
    "_dynamo/__init__.py": NO_COMPILER,
    "_dynamo/utils.py": NO_COMPILER,
    "_tensor.py:_Methods.to_dense": {"masked_grad": AS_TORCH},
    # What `convert` and `prepare_qat` pass to every class.
    "ao/nn/qat/__init__.py": {"use_precomputed_fake_quant": PROTOCOL},
    "ao/nn/quantized/__init__.py": {
        name: PROTOCOL for name in ("use_precomputed_fake_quant", "mod")
    },
    "ao/nn/quantized/_activation.py": {
        name: PROTOCOL for name in ("use_precomputed_fake_quant", "mod")
    },
    "ao/nn/quantized/dynamic/_recurrent.py": {"use_precomputed_fake_quant": PROTOCOL},
    "ao/nn/quantized/reference/__init__.py": {"use_precomputed_fake_quant": PROTOCOL},
    "ao/nn/quantized/reference/_recurrent.py": {"use_precomputed_fake_quant": PROTOCOL},
    "ao/quantization/fx/_decomposed.py": dict.fromkeys(
        ("quant_min", "quant_max", "dtype"), "for those who match graphs, as in torch"
    ),
    "autograd/function.py:FunctionCtx.mark_shared_storage": {"pairs": "it warns in any case"},
    "autograd/graph.py:save_on_cpu": {"device_type": ONE_DEVICE},
    "_guards.py": "fake tensors do not exist",
    "backends/mps.py:is_macos13_or_newer": ONE_DEVICE,
    "compiler/__init__.py": NO_COMPILER,
    "cpu/__init__.py": ONE_DEVICE,
    "cuda/comm.py": {"buffer_size": "copies and sums need no buffer"},
    "distributed/_transport.py:Alone": ONE_PROCESS,
    "distributed/_nccl.py:GpuTransport": PROTOCOL,  # of MpiTransport
    "distributed/_group.py:init_process_group": {"group_name": AS_TORCH},
    "distributed/_group.py:shrink_group": {"pg_options": "it raises, as torch does for gloo"},
    "distributed/checkpoint/default_planner.py:DefaultSavePlanner.set_up_planner": PROTOCOL,
    "distributed/checkpoint/default_planner.py:create_default_local_save_plan": AS_TORCH,
    "distributed/checkpoint/filesystem.py": {  # what storages are told, all of them
        name: PROTOCOL for name in ("is_coordinator", "args")
    },
    "distributed/checkpoint/format_utils.py": {
        name: PROTOCOL for name in ("args", "kwargs", "metadata")
    },
    "distributed/elastic/agent/server/api.py:SimpleElasticAgent.get_worker_group": {
        "role": PROTOCOL
    },
    "distributed/checkpoint/hf_storage.py": {name: PROTOCOL for name in ("args", "kwargs")},
    "distributed/optim/zero_redundancy_optimizer.py:ZeroRedundancyOptimizer.join_hook": PROTOCOL,
    "distributed/fsdp/wrap.py:always_wrap_policy": PROTOCOL,
    "export/_inlining.py:Inlining.given": PROTOCOL,
    "functional.py:unique": {"sorted": AS_TORCH},
    "futures/__init__.py:Future": {"devices": ONE_DEVICE},
    "fx/_symbolic_trace.py:Tracer": PROTOCOL,
    "fx/graph.py:Graph.find_nodes": {"sort": "they are always found in order"},
    "fx/interpreter.py": PROTOCOL,
    "hub.py": dict.fromkeys(
        ("force_reload", "skip_validation", "trust_repo", "verbose"),
        "about repositories on the web, which are refused by their source",
    ),
    "jit/_trace_graph.py:TraceGraph.findAllNodes": {"recurse": "nodes of traces hold no blocks"},
    "jit/_tracer.py:TraceRecorder.value_of": PROTOCOL,
    "jit/__init__.py": "the functions warn of what is not done, or it changes no result",
    "library/__init__.py:Library.define": {"alias_analysis": "the schema says what is changed"},
    "library/_schema.py:infer_schema": {"tags": "tags are no part of a schema's text"},
    "nn/_losses.py:linear_cross_entropy": {"options": ONE_WAY},
    "nn/attention/__init__.py:sdpa_kernel": {"set_priority": ONE_WAY},
    "nn/attention/_block_mask.py:noop_mask": PROTOCOL,
    "nn/attention/flex_attention.py:flex_attention": {"kernel_options": ONE_WAY},
    "nn/attention/varlen.py:varlen_attn": {
        "num_splits": "a sequence's result does not depend on the others"
    },
    "nn/modules/linear.py:Identity": AS_TORCH,
    "nn/utils/clip_grad.py": {"foreach": ONE_WAY},
    "nn/utils/prune.py": PROTOCOL,
    # Steps as functions of lists: torch chooses by them among loops with the same numbers.
    **{
        f"optim/{name}.py:{name}": dict.fromkeys(
            ("foreach", "fused", "capturable", "has_complex", "has_sparse_grad"), ONE_WAY
        )
        for name in (
            "adadelta",
            "adagrad",
            "adam",
            "adamax",
            "asgd",
            "nadam",
            "radam",
            "rmsprop",
            "rprop",
            "sgd",
        )
    },  # fmt: skip
    "onnx/symbolic_helper.py": "libraries describe operations when imported; export raises",
    "sparse/_make.py": {"check_invariants": "they are always checked"},
    "sparse/_functions.py:same": {"options": "there is one device and no memory format"},
    "sparse/_functions.py:is_contiguous": "never",
    "utils/_checkpoint_policy.py:operation": PROTOCOL,
    "utils/benchmark/_fuzzer.py:FuzzedTensor.default_tensor_constructor": {"kwargs": PROTOCOL},
    "utils/data/graph.py:traverse": {"only_datapipe": "steps are found in any case"},
    "utils/checkpoint.py": ONE_DEVICE,
    "utils/cpp_extension.py:BuildExtension.with_options": "building raises",
    "utils/data/_utils/pin_memory.py:pin_memory": {"device": AS_TORCH},
    "utils/data/collate.py": {"collate_fn_map": PROTOCOL},
}

# The same in any function.
NAMES = {
    "non_blocking": "copies have ended when their calls return",
}
FUNCTIONS = {
    "log_abs_det_jacobian": PROTOCOL,
}


def is_public(name):
    return not name.startswith("_") or name in ("__init__", "_Methods")


def parameters(function):
    a = function.args
    stars = [star for star in (a.vararg, a.kwarg) if star]
    names = [p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs, *stars)]
    return [name for name in names if name not in ("self", "cls", "ctx")]


def reads_everything(function):
    """It only raises an error, or is abstract; or it takes its arguments by locals()."""
    body = [
        part
        for part in function.body
        if not (isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant))
    ]
    by_name = any(
        isinstance(part, ast.Call) and getattr(part.func, "id", "") == "locals"
        for part in ast.walk(function)
    )
    return by_name or all(isinstance(part, (ast.Pass, ast.Raise)) for part in body)


def names_read(part):
    return {
        node.id
        for node in ast.walk(part)
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Store)
    }


def ignored_parameters():
    """(file, function, parameter) of all that no body reads; functions inside others left out."""

    def visit(node, file, prefix):
        for part in ast.iter_child_nodes(node):
            if isinstance(part, ast.ClassDef):
                if is_public(part.name):
                    yield from visit(part, file, f"{prefix}{part.name}.")
            elif isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)):
                if is_public(part.name) and not reads_everything(part):
                    read = set().union(*map(names_read, part.body))
                    for name in parameters(part):
                        if name not in read and not name.startswith("_"):
                            yield file, prefix + part.name, name
            else:
                yield from visit(part, file, prefix)

    for path in sorted(PACKAGE.rglob("*.py")):
        file = str(path.relative_to(PACKAGE))
        if "_batching" not in file:
            yield from visit(ast.parse(path.read_text()), file, "")


def exception_for(file, function, name):
    if name in NAMES or function.rpartition(".")[2] in FUNCTIONS:
        return ""
    for place in (f"{file}:{function}", f"{file}:{function.partition('.')[0]}", file):
        reason = EXCEPTIONS.get(place)
        if isinstance(reason, str):
            return place
        if reason and name in reason:
            return place
    return None


def test_every_parameter_is_read():
    found = [
        f"{file}: {function}({name})"
        for file, function, name in ignored_parameters()
        if exception_for(file, function, name) is None
    ]
    assert not found, "\n".join(found)


def test_every_exception_is_needed():
    used = {exception_for(*place) for place in ignored_parameters()}
    assert set(EXCEPTIONS) <= used, set(EXCEPTIONS) - used
    all_names = {name for _, _, name in ignored_parameters()}
    assert {name for e in EXCEPTIONS.values() if isinstance(e, dict) for name in e} <= all_names
