"""A row with everything worked out: signature, formulas, what backward saves."""

import re
from dataclasses import dataclass, field

from gen.formula import ACCUMULATED, Formula
from gen.signature import Signature, TableError
from ops.schema import WITHOUT_GRADIENT

_LOOP_TYPES = {"common": "Common", "float": "Float", "bool": "Bool", "real": "Real"}


@dataclass
class Gradient:
    """How the gradient of one differentiable input is computed."""

    parameter: object
    formula: Formula
    part: int = None  # which element of the formula's result, where several inputs share one
    loop: str = None  # name of its fused loop, where it has one
    operands: list = field(default_factory=list)  # tensors of the fused loop, in order
    numbers: list = field(default_factory=list)


class Op:
    def __init__(self, row, table):
        self.row = row
        self.table = table
        self.signature = Signature(row)
        self.full_name = self.signature.full_name
        self.name = self.signature.name
        self.cxx_name = self.signature.cxx_name
        self.kernel = None
        if row.kind == "elementwise":
            self.kernel = Formula(row, "kernel", row.kernel, self._kernel_names())
            if row.result not in _LOOP_TYPES:
                raise TableError(
                    row, "result", f"'{row.result}' is none of {', '.join(_LOOP_TYPES)}"
                )
        self.gradients = []
        self.no_gradient = None
        self._read_gradient()
        names = self._formula_names()
        self.kept = [Formula(row, "keeps", text, names) for text in row.keeps]

    # ---- names

    @property
    def python_names(self):
        if self.row.names is not None:
            return self.row.names
        return (f"torch.{self.name}", f"Tensor.{self.name}")

    def key(self, inplace=False):
        """Its name with this signature, which no other has: "add", "clamp.tensor", "add_"."""
        name = self.name + "_" * inplace
        return f"{name}.{self.signature.overload}" if self.signature.overload else name

    @property
    def called(self):
        """What errors call it."""
        return self.row.called or self.name.removesuffix("_kernel")

    @property
    def tensor_parameters(self):
        return [p for p in self.signature.parameters if p.is_tensor]

    @property
    def number_parameters(self):
        return [p for p in self.signature.parameters if not p.is_tensor and not p.is_tensor_list]

    @property
    def loop_type(self):
        return "LoopType::" + _LOOP_TYPES[self.row.result]

    @property
    def node(self):
        return (
            "".join(part[:1].upper() + part[1:] for part in self.full_name.split("_") if part)
            + "Backward"
        )

    def _kernel_names(self):
        names = {p.name: "tensor" for p in self.tensor_parameters}
        names.update({p.name: "value" for p in self.number_parameters})
        return names

    # ---- gradients

    def _formula_names(self):
        s = self.signature
        names = {}
        for p in s.parameters:
            names[p.name] = "tensor" if p.is_tensor else "list" if p.is_tensor_list else "value"
        outputs = (
            {"out": "list"} if s.returns == "list[Tensor]" else dict.fromkeys(s.outputs, "tensor")
        )
        names.update(outputs)
        names["grad"] = names[ACCUMULATED] = "tensor"
        if s.returns == "tuple":
            names.update({f"grad_{o}": "tensor" for o in s.outputs})
        if s.returns == "list[Tensor]":
            names["grads"] = "list"
        return names

    def _read_gradient(self):
        grad = self.row.grad
        if isinstance(grad, str):
            self.no_gradient = grad
        elif grad is None:
            returns_tensor = self.signature.returns in ("Tensor", "tuple", "list[Tensor]")
            takes = any(p.is_tensor or p.is_tensor_list for p in self.signature.parameters)
            silent = self.row.kind in WITHOUT_GRADIENT or self.row.result == "bool"
            if returns_tensor and takes and not silent:
                raise TableError(
                    self.row,
                    "grad",
                    "needs formulas, or a sentence that says why there is no gradient",
                )
        else:
            for key, text in grad.items():
                formula, names = (
                    Formula(self.row, f"grad of {key}", text, self._formula_names()),
                    key.split(", "),
                )
                for part, name in enumerate(names):
                    parameter = self.signature.parameter(name)
                    if parameter is None or not (parameter.is_tensor or parameter.is_tensor_list):
                        raise TableError(self.row, "grad", f"'{name}' is no tensor argument")
                    if parameter.is_tensor_list and len(names) > 1:
                        raise TableError(
                            self.row, "grad", f"'{name}', a list, cannot share a formula"
                        )
                    g = Gradient(parameter, formula, part if len(names) > 1 else None)
                    self._fuse(g)
                    self.gradients.append(g)

    def _fuse(self, g):
        """A formula that computes gets a loop of its own for the plain backward."""
        f = g.formula
        if (
            self.row.kind != "elementwise"
            or not (f.operations > 1 or f.is_arithmetic)
            or f.meta
            or f.wants
            or g.part is not None
        ):
            return
        g.operands = ["grad"] + sorted(n for n in f.used if f.names[n] == "tensor" and n != "grad")
        g.numbers = sorted(n for n in f.used if f.names[n] == "value")
        if "grad" not in f.used or any(self.signature.parameter(n).optional for n in g.numbers):
            g.operands, g.numbers = [], []
            return
        g.loop = f"{self.full_name}_backward_{g.parameter.name}"

    @property
    def _formulas(self):
        """What names the things that the node keeps."""
        return [g.formula for g in self.gradients] + self.kept

    @property
    def used(self):
        return set().union(*(f.used for f in self._formulas))

    @property
    def meta(self):
        return set().union(*(f.meta for f in self._formulas))

    @property
    def saved_inputs(self):
        return [
            p
            for p in self.signature.parameters
            if (p.is_tensor or p.is_tensor_list) and p.name in self.used
        ]

    @property
    def saved_values(self):
        named = re.findall(r"\w+", " ".join(re.findall(r"{(.*?)}", str(self.row.node))))
        named = [] if isinstance(self.row.node, dict) else named
        return [p for p in self.number_parameters if p.name in self.used or p.name in named]

    @property
    def saved_outputs(self):
        return [
            o
            for o in self.signature.outputs
            if o in self.used and self.signature.parameter(o) is None
        ]
