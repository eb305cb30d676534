"""Writes which of torch's public names rushlight has: python docs/coverage.py docs/coverage.md.

Needs an installed torch, whose modules say what there is to cover.
"""

import importlib
import re
import sys
import textwrap
import types
import warnings
from pathlib import Path

import torch

import rushlight

# Whole modules that are refused, and why.
NOT_COVERED = {
    "torch.package": "files that hold programs with their modules of Python",
    "torch.utils.cpp_extension": "operations added in C++",
    "torch._inductor, torch._dynamo (but for their options)": "compilation",
}
MODULES = """
    torch torch.nn torch.nn.functional torch.nn.init torch.nn.utils torch.nn.utils.rnn
    torch.nn.utils.parametrize torch.nn.utils.parametrizations torch.nn.utils.prune
    torch.ao.quantization torch.ao.quantization.quantize_fx
    torch.ao.quantization.backend_config torch.ao.quantization.observer torch.ao.pruning
    torch.ao.nn.quantized torch.ao.nn.quantized.dynamic torch.ao.nn.quantized.functional
    torch.ao.nn.quantized.reference torch.ao.nn.quantizable torch.ao.nn.qat torch.ao.nn.intrinsic
    torch.ao.nn.intrinsic.qat torch.ao.nn.intrinsic.quantized torch.ao.nn.sparse.quantized
    torch.nn.parallel torch.nn.attention torch.nn.attention.flex_attention torch.optim
    torch.optim.lr_scheduler torch.optim.swa_utils torch.autograd torch.autograd.functional
    torch.autograd.forward_ad torch.autograd.graph torch.autograd.profiler torch.func torch.linalg
    torch.fft torch.special torch.random torch.sparse torch.distributions
    torch.distributions.constraints torch.distributions.transforms torch.utils.data
    torch.utils.checkpoint torch.utils.hooks torch.utils.dlpack torch.amp torch.jit torch.compiler
    torch.export torch.export.unflatten torch.fx torch.fx.traceback torch.fx.operator_schemas
    torch.fx.passes.split_module torch.fx.passes.operator_support torch.fx.passes.tools_common
    torch.fx.passes.splitter_base torch.fx.passes.infra.pass_manager
    torch.fx.passes.utils.matcher_utils torch.fx.passes.utils.source_matcher_utils
    torch.fx.experimental.proxy_tensor torch.fx.experimental.optimization
    torch.fx.experimental.const_fold torch.fx.experimental.symbolic_shapes
    torch.multiprocessing torch.distributed torch.distributed.nn
    torch.distributed.device_mesh torch.distributed.optim torch.distributed.run
    torch.distributed.launcher torch.distributed.collective_utils torch.distributed.rpc
    torch.distributed.elastic.agent.server torch.distributed.elastic.events
    torch.distributed.elastic.metrics torch.distributed.elastic.multiprocessing
    torch.distributed.elastic.rendezvous torch.distributed.elastic.timer
    torch.distributed.algorithms.ddp_comm_hooks torch.distributed.tensor.debug
    torch.distributed.tensor.experimental
    torch.distributed.algorithms.join torch.distributed.checkpoint
    torch.distributed.checkpoint.state_dict
    torch.distributed.fsdp torch.distributed.tensor torch.distributed.tensor.parallel
    torch.distributed.pipelining torch.overrides torch.profiler torch.testing
    torch.serialization torch.storage torch.hub torch.futures torch.signal.windows torch.library
    torch.quasirandom torch.utils.flop_counter torch.accelerator torch.cpu torch.cuda torch.mps
    torch.xpu torch.backends torch.backends.cpu torch.backends.cuda torch.backends.cudnn
    torch.backends.mkl torch.backends.mkldnn torch.backends.mps torch.backends.openmp
    torch.backends.opt_einsum torch.masked torch.nested torch.onnx
""".split()
REFUSALS = ("Refused", "Raises NotImplementedError", "Raises OnnxExporterError", "Needs a device")


# Kernels of vendors' libraries and of quantisation, and forms made for compilers: nobody documents
# them.
INTERNAL = re.compile(
    r"(cudnn|fake_quantize|fbgemm|fused|miopen|mkldnn|native|quantize|quantized|q_per|sym)_.*"
    r"|.*_copy|batch_norm_.+|u?int[1-7]|bits.*|(get|is|set)_autocast_(ipu|xla).*"
    r"|per_(channel|tensor)_.*|q(u)?int.*"
)

# Of the classes in torch itself: the others belong to the TorchScript compiler.
CLASSES = re.compile(
    r"[A-Za-z]*(Tensor|Error|Function)|(?!QU?Int)[A-Za-z0-9]*Storage|Stream|Event"
    r"|Sym(Bool|Float|Int)|Generator|Size|GradScaler"
)


def is_public(name, value, home):
    """Does the module offer this name as its own, not as something it imported?"""
    if name.startswith("_") or isinstance(value, types.ModuleType) or INTERNAL.fullmatch(name):
        return False
    origin = getattr(value, "__module__", None) or home
    if home == "torch":
        if name[0].isupper():
            return CLASSES.fullmatch(name) is not None
        return (
            name in torch.__all__
            or hasattr(torch._C._VariableFunctions, name)
            or origin == "builtins"
        )
    return origin == home or origin.startswith(
        (home + ".", "torch._C._nn", "torch._C._VariableFunctions", "builtins")
    )


def public_names(name):
    """The public names of a module of torch."""
    module = importlib.import_module(name)
    listed = [n for n in getattr(module, "__all__", ()) if not n.startswith("_")]
    if name != "torch" and listed:
        return sorted(set(listed))
    return [n for n in dir(module) if is_public(n, getattr(module, n), name)]


def in_rushlight(name):
    """The module of that name in rushlight; None if there is none."""
    try:
        return importlib.import_module("rushlight" + name.removeprefix("torch"))
    except ModuleNotFoundError:
        return None


def is_refused(value):
    """Does its documentation say that it only refuses?"""
    text = getattr(value, "__doc__", None)
    return isinstance(text, str) and text.startswith(REFUSALS)


def sort_out(names, home):
    """(there, refused, missing) of the names, looked up in a module or class."""
    there, refused, missing = [], [], []
    for name in names:
        if home is None or not hasattr(home, name):
            missing.append(name)
        elif is_refused(getattr(home, name)):
            refused.append(name)
        else:
            there.append(name)
    return there, refused, missing


def paragraph(label, names):
    if not names:
        return []
    text = textwrap.fill(
        ", ".join(f"`{n}`" for n in names), 100, break_on_hyphens=False, break_long_words=False
    )
    return [f"{label}\n", f"{text}\n"]


def page():
    rows, sections = [], []
    places = [(name, public_names(name), in_rushlight(name)) for name in MODULES]
    methods = [n for n in dir(torch.Tensor) if not n.startswith("_") and not INTERNAL.fullmatch(n)]
    places.insert(1, ("torch.Tensor", methods, rushlight.Tensor))
    totals = [0, 0, 0]
    for name, names, home in places:
        parts = sort_out(names, home)
        counts = [len(part) for part in parts]
        totals = [a + b for a, b in zip(totals, counts)]
        rows.append(f"| `{name}` | {sum(counts)} | {counts[0]} | {counts[1]} | {counts[2]} |")
        sections.append(f"## {name}\n")
        for label, part in zip(("There:", "Refused, with a reason:", "Missing:"), parts):
            sections.extend(paragraph(label, part))
    rows.append(f"| **all** | {sum(totals)} | {totals[0]} | {totals[1]} | {totals[2]} |")
    version = torch.__version__.partition("+")[0]
    return "\n".join(
        [
            "# What rushlight has of torch\n",
            f"Generated by `make coverage` from the public names of torch {version}; not edited by",
            "hand. *There*: the name exists; its area's tests show that it works. *Refused*: it",
            "exists, and says why it does nothing. *Missing*: an `AttributeError` or `ImportError`",
            "that names it, and this page.\n",
            "| module | names | there | refused | missing |",
            "|---|---|---|---|---|",
            *rows,
            "",
            "Not counted, and not there:\n",
            *(f"- {modules}: {what}" for modules, what in NOT_COVERED.items()),
            "",
            *sections,
        ]
    )


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # old names warn when they are looked at
        text = page()
    Path(sys.argv[1]).write_text(text.rstrip() + "\n")
    print(next(line for line in text.splitlines() if "**all**" in line))
