"""The C++ functions of the table: forward with recording, in-place variants, graph nodes."""

import ast
import re

from gen import kernels
from gen.body import Body
from gen.declarations import (
    declare_called,
    function_head,
    impl_parameters,
    out_head,
    takes_target,
    takes_targets,
)
from gen.formula import ACCUMULATED, META, META_EXPRESSION
from gen.loops import loops_of
from gen.observation import observable
from gen.signature import cxx_variable


def write_ops(table, tables, signatures):
    """Definitions for one table file; `signatures` maps C++ names to signatures for formulas."""
    ops = tables[table]
    body = "\n".join(_definitions(ops, signatures))
    lines = [f"// Made by gen/cxx.py from ops/{table}.py.", '#include "dispatch/generated.h"']
    lines += ['#include "autograd/node_name.h"'] * any("{" in str(op.row.node) for op in ops)
    bodies = any(op.row.body for op in ops) or bool(getattr(ops, "functions", ()))
    lines += ['#include "dispatch/guards.h"'] * (bodies or any(op.row.guard for op in ops))
    lines += ['#include "dispatch/body.h"'] * bodies
    lines += ['#include "dispatch/gradient_buffer.h"']
    lines += ['#include "dispatch/shape_rules.h"'] * any(op.row.shape for op in ops)
    lines += ['#include "dispatch/new_tensor.h"'] * any(op.row.kind == "factory" for op in ops)
    lines += ['#include "dispatch/draw.h"'] * any(op.row.kind == "draw" for op in ops)
    lines += ['#include "dispatch/optim.h"'] * any(op.row.kind == "step" for op in ops)
    lines += ['#include "dispatch/window.h"'] * any(op.row.kind == "view" for op in ops)
    lines += ['#include "dispatch/out.h"'] * any(op.row.out for op in ops)
    lines += [f'#include "impl_{table}.h"', *kernels.launch_includes(body)]
    lines += [f'#include "ops_{table}.h"', "", "namespace rl {"]
    lines += declare_called(body, table, tables)
    loops = loops_of(ops)
    if loops:
        lines += ["namespace kernels {", *(loop.declaration() for loop in loops)]
        lines += ["}  // namespace kernels"]
    return "\n".join([*lines, body, "}  // namespace rl", ""])


def _definitions(ops, signatures):
    lines = ["namespace grad {", ""]
    for f in getattr(ops, "functions", ()):
        lines += [f"{function_head(f)} {{", *_body(f, signatures), "}", ""]
    lines += ["}  // namespace grad"]
    lines += ["namespace ops {", "using namespace grad;", "namespace {", ""]
    for op in ops:
        if op.gradients:
            lines += [_node(op, signatures), ""]
        if op.row.kind == "view" and op.row.replay:
            lines += [_view_rule(op), ""]
    lines += ["}  // namespace", ""]
    computed = [_launched(op) for op in ops if op.row.launch and op.row.kind == "kernel"]
    computed += [_looked(op) for op in ops if op.row.shape and op.row.kind == "view"]
    computed += [_composed(op, signatures) for op in ops if _is_composed(op)]
    if computed:
        lines += ["}  // namespace ops", "namespace impl {", "", *computed]
        lines += ["}  // namespace impl", "namespace ops {", ""]
    for op in ops:
        text = _forward(op, signatures)
        if text:
            lines += [observable(op, text), ""]
        if op.row.inplace:
            lines += [observable(op, _inplace(op, signatures), "_"), ""]
        if op.row.out:
            lines += [observable(op, _out(op), "_out", out=True), ""]
    return [*lines, "}  // namespace ops"]


# ---- nodes


def _node(op, signatures):
    s = op.signature
    fields, unpack, release = [], [], []
    for p in op.saved_inputs:
        number = p.type == "Tensor | Number" and "grad" in op.used
        _saved_field(p.name, p.is_tensor_list, fields, unpack, release, number)
    for o in op.saved_outputs:
        _saved_field(o, s.returns == "list[Tensor]", fields, unpack, release)
    for p in op.saved_values:
        fields.append(f"{p.cxx.value} {cxx_variable(p.name)};")
    for function, name in sorted(op.meta):
        fields.append(
            f"{META[function]} {name}_{function};"
            if _is_single(op, name)
            else f"std::vector<{META[function]}> {name}_{function};"
        )
    for p in _differentiable_lists(op):
        fields.append(f"size_t {p.name}_count = 0;")
    name = op.name.removesuffix("_kernel")
    lines = [
        f"struct {op.node} final : Node {{",
        f'  explicit {op.node}(size_t outputs = {len(s.outputs)}) : Node("{name}", outputs) {{}}',
    ]
    if op.row.loss:
        fields += ["int64_t mean_of = 0;"]
    lines += [f"  {f}" for f in fields]
    if op.row.loss:
        lines += ["  int64_t* reduction() override { return &mean_of; }"]
    lines += _node_name(op.row.node)
    lines += _read_saved(op)
    lines.append("  void apply(Gradients& g, Gradients& r) override {")
    if release:
        lines.append("    check_unreleased();")
    lines += [f"    {line}" for line in _gradient_variables(op)]
    lines += [f"    {line}" for line in unpack]
    lines += [f"    {line}" for line in _results(op, signatures)]
    lines.append("  }")
    if release:
        lines += [
            "  void release_saved() override {",
            *(f"    {line}" for line in release),
            "  }",
        ]
    return "\n".join(lines + ["};"])


def _node_name(node):
    if not node:
        return []
    if isinstance(node, dict):
        text = f'"{node[None]}"'
    else:
        parts = re.split(r"{(.*?)}", node)
        texts = [f'"{p}"' if i % 2 == 0 else f"name_part({p})" for i, p in enumerate(parts) if p]
        text = " + ".join(texts if len(parts) == 1 else ["std::string()", *texts])
    return [f"  std::string name() const override {{ return called ? called : {text}; }}"]


def _read_saved(op):
    """What Python sees as grad_fn._saved_self and so on."""
    shown = {"input": "self", "out": "result"}
    facts = {"sizes": ("sym_sizes", ""), "strides": ("sym_strides", ""),
             "numel": ("sym_numel", ""), "meta_of": ("sym_sizes", ".sizes")}  # fmt: skip
    lines = []
    for p in op.saved_inputs:
        reads, name = "tensors" if p.is_tensor_list else "tensor", shown.get(p.name, p.name)
        lines.append(f'    reader.{reads}("{name}", saved_{p.name});')
    for o in op.saved_outputs:
        kind = "tensors" if op.signature.returns == "list[Tensor]" else "tensor"
        lines.append(f'    reader.{kind}("{shown.get(o, o)}", saved_{o});')
    lines += [f'    reader.value("{p.name}", {cxx_variable(p.name)});' for p in op.saved_values]
    for function, name in sorted(op.meta):
        p = op.signature.parameter(name)
        if function in facts and p and not p.is_tensor_list:
            fact, part = facts[function]
            shown_as = f"{shown.get(name, name)}_{fact}"
            lines.append(f'    reader.value("{shown_as}", {name}_{function}{part});')
    return (
        ["  void read_saved(SavedReader& reader) const override {", *lines, "  }"] if lines else []
    )


def _is_single(op, name):
    p = op.signature.parameter(name)
    return not (p and p.is_tensor_list) and not (
        p is None and op.signature.returns == "list[Tensor]"
    )


def _differentiable_lists(op):
    return [g.parameter for g in op.gradients if g.parameter.is_tensor_list]


def _saved_field(name, is_list, fields, unpack, release, number=False):
    if is_list:
        fields.append(f"std::vector<SavedTensor> saved_{name};")
        unpack.append(f"const TensorList {cxx_variable(name)} = unpack_all(saved_{name}, *this);")
        release.append(f"for (SavedTensor& t : saved_{name}) released |= t.release();")
    else:
        fields.append(f"SavedTensor saved_{name};")
        value = f"saved_{name}.unpack(*this)"
        value = f"grad::number_in({value}, grad)" if number else value
        unpack.append(f"const Tensor {cxx_variable(name)} = {value};")
        release.append(f"released |= saved_{name}.release();")


def _gradient_variables(op):
    s = op.signature
    if s.returns == "list[Tensor]":
        return ["const TensorList grads = materialize_all(g, outputs);"]
    if s.returns == "tuple":
        named = [o for o in s.outputs if f"grad_{o}" in op.used]
        lines = [
            f"const Tensor& grad_{o} = g[{i}];"
            if op.row.absent
            else f"const Tensor grad_{o} = materialize(g[{i}], outputs[{i}]);"
            for i, o in enumerate(s.outputs)
            if o in named
        ]
        if "grad" in op.used or not named:
            lines = ["const Tensor& grad = g[0];", "if (!grad.defined()) return;"] + lines
        return lines
    if op.row.loss:
        return [
            "if (!g[0].defined()) return;",
            "const Tensor grad = mean_of > 1 ? g[0] / Scalar(mean_of) : g[0];",
        ]
    return ["const Tensor& grad = g[0];", "if (!grad.defined()) return;"]


def _results(op, signatures):
    lines, offset = [], "0"
    wanted = set().union(*(g.formula.wants for g in op.gradients))
    for i, g in enumerate(op.gradients):
        if g.parameter.name in wanted:
            lines.append(f"const bool wants_{g.parameter.name} = wants({i});")
    lists = 0
    readers = [i for i, g in enumerate(op.gradients) if "grad" in g.formula.used]
    for i, g in enumerate(op.gradients):
        at = str(i - lists) if offset == "0" else f"{offset} + {i - lists}"
        composed = g.formula.tensor(signatures)
        if g.part is not None:
            if g.part == 0:
                count = sum(other.formula is g.formula for other in op.gradients)
                lines += [
                    f"if (wants_any({at}, {count})) {{",
                    f"  auto parts = {composed};",
                    f"  for (size_t part = 0; part < {count}; ++part) "
                    f"r[{at} + part] = std::move(parts[part]);",
                    "}",
                ]
        elif g.parameter.is_tensor_list:
            lines.append(
                f"if (wants_any({at}, {g.parameter.name}_count)) put_all(r, {at}, {composed});"
            )
            offset = (
                f"{g.parameter.name}_count"
                if offset == "0"
                else f"{offset} + {g.parameter.name}_count"
            )
            lists += 1
        elif g.loop:
            numbers = "numbers" if g.numbers else "nullptr"
            lines.append(f"if (wants({at})) {{")
            lines += _numbers(g.numbers)
            operands = ", ".join(cxx_variable(o) for o in g.operands)
            later = " || ".join(f"wants({j})" for j in readers if j > i)
            lines += [
                f"  r[{at}] = formula_by_ops() ? {composed}",
                f"      : elementwise_in_gradient_buffer(kernels::{g.loop}_loop, {numbers}, "
                f"{f'!({later})' if later else 'true'}, {operands});",
                "}",
            ]
        elif ACCUMULATED in g.formula.used:
            lines += [
                f"if (wants({at})) {{",
                f"  const Tensor {ACCUMULATED} = accumulated_gradient(*this, {at});",
                f"  r[{at}] = {composed};",
                "}",
            ]
        else:
            lines.append(f"if (wants({at})) r[{at}] = {composed};")
    return lines


def _view_rule(op):
    s = op.signature
    rest = s.parameters[1:]
    fields = "".join(f"  {p.cxx.value} {cxx_variable(p.name)};\n" for p in rest)
    args = "".join(f", {cxx_variable(p.name)}" for p in rest)
    init = ", ".join(f"{cxx_variable(p.name)}({cxx_variable(p.name)})" for p in rest)
    params = ", ".join(f"{p.cxx.argument} {cxx_variable(p.name)}" for p in rest)
    constructor = f"  explicit {op.node}Rule({params}) : {init} {{}}\n" if rest else ""
    return (
        f"struct {op.node}Rule final : ViewRule {{\n{fields}{constructor}"
        f"  Tensor replay(const Tensor& base) const override "
        f"{{ return {op.cxx_name}(base{args}); }}\n}};"
    )


# ---- forward


def _launched(op):
    """A kernel's function: the shape of the result, its memory, the launch."""
    s = op.signature
    lines = [f"{s.cxx_result} {op.cxx_name}({impl_parameters(op, defaults=False)}) {{"]
    lines += ["  using namespace shape;", *_unused(op), *_wrapped_dims(op)]
    device = f"{cxx_variable(op.tensor_parameters[0].name)}.device()"
    if s.returns == "tuple":
        lines.append(f"  auto specs = {op.row.shape};")
        targets = [f"target_of(targets, {i})" for i in range(len(s.outputs))]
        for i, (o, target) in enumerate(zip(s.outputs, targets)):
            last = f", {target}" if takes_targets(op) else ""
            lines.append(f"  Tensor {o} = make_output(specs[{i}], {device}{last});")
        result = ", ".join(
            f'written_to({target}, {o}, "{op.name}")' if takes_targets(op) else o
            for o, target in zip(s.outputs, targets)
        )
        result = f"{{{result}}}"
    elif takes_target(op):
        lines.append(f"  Tensor out = make_output({op.row.shape}, {device}, target);")
        result = f'written_to(target, out, "{op.name}")'
    else:
        lines.append(f"  Tensor out = make_output({op.row.shape}, {device});")
        result = "out"
    lines += [f"  launch::{op.row.launch};", f"  return {result};", "}", ""]
    return "\n".join(lines)


def _is_composed(op):
    return bool(op.row.body) and (op.row.kind == "kernel" or bool(op.gradients))


def _composed(op, signatures):
    """The function of a row with a body that is a kernel, or a composite of one node."""
    s = op.signature
    head = f"{s.cxx_result} {op.cxx_name}({impl_parameters(op, defaults=False)}) {{"
    lines = ["  using namespace grad;", *_body(op, signatures)]
    if takes_target(op):
        lines = ["  auto compute = [&]() -> Tensor {", *lines, "  };"]
        lines.append("  ResultMemory memory(target);")  # the body reads what it changes once
        lines.append(f'  return written_to(target, compute(), "{op.name}_");')
    return "\n".join([head, *lines, "}", ""])


def _body(op, signatures):
    """The statements of a body, which need not read all parameters."""
    read = set(re.findall(r"\w+", op.row.body))
    parameters = op.signature.parameters
    unused = [f"  (void){cxx_variable(p.name)};" for p in parameters if p.name not in read]
    return [*unused, *Body(op, signatures).lines()]


def _looked(op):
    """A view's function: where it looks."""
    s = op.signature
    head = f"{s.cxx_result} {op.cxx_name}({impl_parameters(op, defaults=False)}) {{"
    first = cxx_variable(s.parameters[0].name)
    return "\n".join([head, *_unused(op), f"  return look({first}, {op.row.shape});", "}", ""])


def _made(op):
    """A factory's function: the shape of a new tensor, its memory, what is in it."""
    s = op.signature
    first = next((cxx_variable(p.name) for p in op.tensor_parameters), None)
    place = f"{first}.device()" if first else "Device{}"
    fill = f"launch::{op.row.launch}" if op.row.launch else "fill_uninitialized(out)"
    return [
        "  using namespace shape;",
        *_unused(op),
        *_guard(op),
        f"  Tensor out = make_output({op.row.shape}, device.value_or({place}));",
        f"  {fill};",
        f'  if (requires_grad) ask_gradient(out, "{s.name}");',
        "  return out;",
    ]


def _drawn(op):
    """The function of an op that overwrites its first argument."""
    first = cxx_variable(op.signature.parameters[0].name)
    return [
        *_guard(op),
        f'  const Ref<Node> node = before_drawing({first}, "{op.name}");',
        f"  launch::{op.row.launch};",
        f'  return drawn({first}, node, "{op.name}");',
    ]


def _stepped(op):
    """The function of an optimizer's step."""
    lines = [
        f'  FusedStep step("{op.name}", params, grads, {{{op.row.states}}}, grad_scale, found_inf);'
    ]
    if op.signature.parameter("state_steps"):
        lines.append("  step.set_steps(state_steps);")
    return [*lines, f"  launch::{op.row.launch};"]


def _unused(op):
    """What the kernel does not need to be told."""
    read = set(re.findall(r"\w+", f"{op.row.shape} {op.row.launch}"))
    names = [cxx_variable(p.name) for p in op.number_parameters if p.name not in read]
    return [f"  (void){name};" for name in names]


def _wrapped_dims(op):
    first = cxx_variable(op.signature.parameters[0].name)
    return [
        f'  {v} = wrap_dim({v}, {first}.dim(), "{op.called}");'
        for v in (cxx_variable(p.name) for p in op.signature.parameters if p.wraps)
    ]


def _records(op):
    return f"records({', '.join(cxx_variable(g.parameter.name) for g in op.gradients)})"


def _compute(op, out="Tensor()"):
    """The expression that computes without recording."""
    if op.row.kind != "elementwise":
        return f"impl::{op.cxx_name}({op.signature.cxx_arguments()})"
    numbers = "numbers" if op.number_parameters else "nullptr"
    operands = ", ".join(cxx_variable(p.name) for p in op.tensor_parameters)
    return (
        f"elementwise(kernels::{op.full_name}_loop, {op.loop_type}, {numbers}, {out}, {operands})"
    )


def _compute_in_place(op):
    """A kernel's call that changes its first argument: what else it reads must lie elsewhere."""
    first, *rest = op.signature.parameters
    target = cxx_variable(first.name)
    arguments = [
        f"copy_if_overlapping({cxx_variable(p.name)}, {target})"
        if p.is_tensor or p.is_tensor_list
        else cxx_variable(p.name)
        for p in rest
    ]
    return f"impl::{op.cxx_name}({', '.join([target, *arguments, target])})"


def _guard(op):
    return [*_same_device(op), *([f"  {op.row.guard};"] if op.row.guard else [])]


def _same_device(op):
    """Of kernels with several tensors; elementwise ops check as they find their result's device."""
    tensors = [p for p in op.tensor_parameters if p.type != "Tensor | Number"]
    if op.row.kind != "kernel" or len(tensors) < 2:
        return []
    named = ", ".join(f'"{p.name}", {cxx_variable(p.name)}' for p in tensors)
    return [f'  check_same_device("{op.called}", {named});']


def _numbers(names):
    if not names:
        return []
    scalars = ", ".join(f"Scalar({cxx_variable(n)})" for n in names)
    return [f"  const Scalar numbers[] = {{{scalars}}};"]


def _own_numbers(op):
    if op.row.kind != "elementwise":
        return []
    return _numbers([p.name for p in op.number_parameters])


def _link(op):
    """Edges and saved inputs, before anything is computed."""
    lines = []
    places = {g.parameter.name: i for i, g in enumerate(op.gradients)}
    for g in op.gradients:
        if g.parameter.is_tensor_list:
            lines.append(f"node->{g.parameter.name}_count = {g.parameter.name}.size();")
            lines.append(f"for (const Tensor& t : {g.parameter.name}) node->add_input(t);")
        else:
            lines.append(f"node->add_input({cxx_variable(g.parameter.name)});")
    if isinstance(op.row.node, dict):
        for parameter, name in reversed(op.row.node.items()):
            if parameter:
                is_number = f"{cxx_variable(parameter)}.impl()->wrapped_number"
                lines.append(f"if ({is_number}) {{")
                lines.append(f'  node->called = "{name}";')
                if parameter in places:
                    lines.append(f"  node->numbers |= {1 << places[parameter]};")
                lines.append("}")
    for p in op.saved_values:
        lines.append(f"node->{cxx_variable(p.name)} = {cxx_variable(p.name)};")
    for function, name in sorted(op.meta):
        if op.signature.parameter(name) is not None:
            value = META_EXPRESSION[function]
            if _is_single(op, name):
                p = op.signature.parameter(name)
                guard = f"if ({cxx_variable(name)}.defined()) " if p.optional else ""
                lines.append(
                    f"{guard}node->{name}_{function} = {value.format(cxx_variable(name))};"
                )
            else:
                lines.append(
                    f"for (const Tensor& t : {name}) "
                    f"node->{name}_{function}.push_back({value.format('t')});"
                )
    return lines


def _needed_for(op, name):
    """The condition under which backward uses `name`: some input whose formula names it wants a
    gradient.
    """
    users = [i for i, g in enumerate(op.gradients) if name in g.formula.used]
    if len(users) == len(op.gradients) or _differentiable_lists(op):
        return ""
    return "if (" + " || ".join(f"node->wants({i})" for i in users) + ") "


def _save_inputs(op, changed=None):
    """`changed`: the parameter that the op is about to change in place."""
    lines = []
    # By their names in torch, where the first is `self`: the order in which its hooks see them.
    for p in sorted(op.saved_inputs, key=lambda p: "self" if p.name == "input" else p.name):
        v, needed = cxx_variable(p.name), _needed_for(op, p.name)
        if p.is_tensor_list:
            lines.append(f"{needed}save_all(node->saved_{p.name}, {v});")
        elif p.name == changed:
            lines.append(f"{needed}node->saved_{p.name}.save(clone_before_change({v}));")
        elif changed:
            lines.append(
                f"{needed}node->saved_{p.name}.save("
                f"saved_copy_if_overlapping({v}, {cxx_variable(changed)}));"
            )
        else:
            guard = f"if ({v}.defined()) " if p.optional else ""
            lines.append(f"{needed}{guard}node->saved_{p.name}.save({v});")
    return lines


def _save_outputs(op):
    s, lines = op.signature, []
    for o in sorted(op.saved_outputs):
        if s.returns == "tuple":
            made = f"result[{s.outputs.index(o)}]"
            if o in op.row.copied:
                made = f"{op.row.copied[o]} ? clone_before_change({made}) : {made}"
            lines.append(f"node->saved_{o}.save({made}, true);")
        elif s.returns == "list[Tensor]":
            lines.append(f"save_all(node->saved_{o}, result, true);")
        else:
            lines.append(f"{_needed_for(op, o)}node->saved_{o}.save(result, true);")
    for function, name in sorted(op.meta):
        if s.parameter(name) is None:
            source = f"result[{s.outputs.index(name)}]" if s.returns == "tuple" else "result"
            if s.returns == "list[Tensor]":
                lines.append(
                    f"for (const Tensor& t : result) node->{name}_{function}"
                    f".push_back({META_EXPRESSION[function].format('t')});"
                )
            else:
                lines.append(
                    f"node->{name}_{function} = {META_EXPRESSION[function].format(source)};"
                )
    return lines


def _wrap_view(op, text):
    if op.row.kind != "view":
        return text
    rule = ""
    if op.row.replay:
        args = ", ".join(cxx_variable(p.name) for p in op.signature.parameters[1:])
        rule = f", make_ref<{op.node}Rule>({args})"
    first = cxx_variable(op.signature.parameters[0].name)
    function = "make_views" if op.signature.returns == "list[Tensor]" else "make_view"
    return f"{function}({first}, {text}{rule})"


def joined(op, expression):
    """The beginning of a call by which a composite's nodes become one; in place, its only one gets
    the name.

    Args:
        expression: of a parameter's name, what stands for its value.
    """
    if op.name.endswith("_"):
        return f'name_nodes("{op.row.node}", '
    tensors = [p.name for p in op.signature.parameters if p.is_tensor]
    inputs = tensors if op.row.inputs is None else op.row.inputs
    others = [name for name in tensors if name not in inputs]
    lists = (", ".join(f"&{expression(name)}" for name in names) for names in (inputs, others))
    return 'join_steps("{}", {{{}}}, {{{}}}, '.format(op.row.node, *lists)


def _forward(op, signatures):
    s, row = op.signature, op.row
    head = f"{s.cxx_result} {op.cxx_name}({s.cxx_parameters()}) {{"
    if row.kind in ("factory", "draw", "step"):
        lines = {"factory": _made, "draw": _drawn, "step": _stepped}[row.kind](op)
        return "\n".join([head, *lines, "}"])
    if row.kind == "composite" and not op.gradients:
        if not row.body:
            return None
        lines = _body(op, signatures)
        if row.node:
            call = f"  return {joined(op, cxx_variable)}[&]() -> {s.cxx_result} {{"
            lines = [call, *(f"  {line}" for line in lines), "  });"]
        return "\n".join([head, *lines, "}"])
    lines = [head, *_guard(op), *_own_numbers(op)]
    if row.followed_if:
        lines.append(f"  if (!{row.followed_if}) return {_compute(op)};")
    compute = _wrap_view(op, _compute(op))
    if op.gradients:
        lines.append(f"  if (!{_records(op)}) return {compute};")
        outputs = ""
        if s.returns == "list[Tensor]":
            outputs = "0"
        lines.append(f"  auto node = make_ref<{op.node}>({outputs});")
        lines += [f"  {line}" for line in _link(op) + _save_inputs(op)]
        if row.kind != "elementwise":  # a view must see that it is recorded, its kernel need not
            compute = _wrap_view(op, f"unrecorded([&] {{ return {_compute(op)}; }})")
        lines.append(f"  {s.cxx_result} result = {compute};")
        saved = _save_outputs(op)
        node = "node" if saved else "std::move(node)"
        lines.append(
            f"  set_history(result, {node});"
            if s.returns == "Tensor"
            else "  set_history_all(result, node);"
        )
        lines += [f"  {line}" for line in saved]
        lines.append("  return result;")
    elif (
        op.no_gradient
        and s.returns in ("Tensor", "tuple", "list[Tensor]")
        and any(p.is_tensor or p.is_tensor_list for p in s.parameters)
    ):
        tensors = ", ".join(
            cxx_variable(p.name) for p in s.parameters if p.is_tensor or p.is_tensor_list
        )
        lines.append(f"  if (!records({tensors})) return {compute};")
        lines.append(
            f"  return without_gradient(unrecorded([&] {{ return {compute}; }}), "
            f'"{op.name}", "{op.no_gradient}", inputs_of({tensors}));'
        )
    else:
        lines.append(f"  return {compute};" if s.returns != "None" else f"  {compute};")
    return "\n".join(lines + ["}"])


def _inplace(op, signatures):
    s, row = op.signature, op.row
    self_name = cxx_variable(s.parameters[0].name)
    lines = [f"const Tensor& {op.name}_({s.cxx_parameters()}) {{"]
    called = _called_in_place(op, signatures) if row.kind == "composite" else None
    if row.kind == "composite" and not op.gradients:
        made = _composite_inplace(op, signatures, called)
        if row.node and called:
            made = [f'  name_node_in_place("{row.node}", {self_name}, [&] {{', *made, "  });"]
        return "\n".join(lines + made + [f"  return {self_name};", "}"])
    lines += _guard(op) + _own_numbers(op)
    tensors = ", ".join(cxx_variable(p.name) for p in op.tensor_parameters)
    others = ", ".join(
        cxx_variable(g.parameter.name)
        for g in op.gradients
        if g.parameter.name != s.parameters[0].name
    )
    recorded = f", records({others})" if others else ""
    lines.append(f'  check_in_place({self_name}, "{op.called}_"{recorded});')
    if row.kind == "elementwise" and row.result == "real":
        lines.append(
            f'  check(!{self_name}.is_complex(), "{op.name}_: In-place {op.name} is not supported '
            'for complex tensors.");'
        )
    if op.gradients:
        lines.append(f"  Ref<{op.node}> node;")
        lines.append(f"  if ({_records(op)}) {{")
        lines.append(f"    node = make_ref<{op.node}>();")
        lines += [
            f"    {line}" for line in _link(op) + _save_inputs(op, changed=s.parameters[0].name)
        ]
        lines.append("  }")
    if row.kind == "elementwise":
        lines.append(f"  {_compute(op, self_name)};")
    elif row.kind == "composite":
        result = f'replace({self_name}, {_compute(op)}, "{op.name}_"), 0'
        lines.append(f"  unrecorded([&] {{ return {called or result}; }});")
    else:
        lines.append(f"  unrecorded([&] {{ return {_compute_in_place(op)}; }});")
    if row.kind != "composite":
        lines.append(f'  bump_version({self_name}, "{op.name}_");')
    if op.gradients:
        lines.append("  if (node) {")
        lines.append(f"    rebase_history({self_name}, node);")
        lines += [f"    {line.replace('result', self_name)}" for line in _save_outputs(op)]
        lines.append("  }")
    elif op.no_gradient:
        lines.append(
            f"  if (records({tensors})) "
            f'refuse_gradient({self_name}, "{op.name}_", "{op.no_gradient}", '
            f"inputs_of({tensors}));"
        )
    else:
        lines.append(f'  if (records({self_name})) stop_gradient({self_name}, "{op.name}_");')
    return "\n".join(lines + [f"  return {self_name};", "}"])


def _out(op):
    s, row = op.signature, op.row
    exactness = {"cast": "Castable", "truth": "Truth"}.get(row.out, "Exact")
    dtype = f"OutDType::{exactness}"
    lines = [f"{out_head(op)} {{"]
    if row.kind == "elementwise":
        lines += _guard(op) + _own_numbers(op)
        recorded = _records(op) if op.gradients else "false"
        numbers = "numbers" if op.number_parameters else "nullptr"
        operands = ", ".join(cxx_variable(p.name) for p in op.tensor_parameters)
        lines += [
            f"  elementwise_out(kernels::{op.full_name}_loop, {op.loop_type}, {numbers}, out, "
            f"{recorded}, {dtype}, {operands});",
            f'  bump_version(out, "{op.name}");',
            "  return out;",
        ]
        return "\n".join([*lines, "}"])
    tensors = [cxx_variable(p.name) for p in s.parameters if p.is_tensor]
    if row.launch and row.kind == "kernel":
        many = s.returns == "tuple"
        recorded = _records(op) if op.gradients else "false"
        arguments = [
            f"copy_if_overlapping({cxx_variable(p.name)}, out)"
            if p.is_tensor
            else cxx_variable(p.name)
            for p in s.parameters
        ]
        lines += ["  using namespace shape;", *_guard(op), *_wrapped_dims(op)]
        lines += [
            f'  prepare_out("{op.name}", out, {row.shape}, {tensors[0]}.device(), {recorded}, '
            f"{dtype}, {{{', '.join(tensors)}}});",
            f"  impl::{op.cxx_name}({', '.join(arguments)}, out);",
        ]
        if many:
            lines.append(f'  for (const Tensor& t : out) bump_version(t, "{op.name}");')
        else:
            lines += [f'  bump_version(out, "{op.name}");', "  return out;"]
        return "\n".join([*lines, "}"])
    lines.append(f"  TensorList inputs{{{', '.join(tensors)}}};")
    for p in s.parameters:
        if p.is_tensor_list:
            name = cxx_variable(p.name)
            lines.append(f"  inputs.insert(inputs.end(), {name}.begin(), {name}.end());")
    call = f"{op.cxx_name}({s.cxx_arguments()})"
    if s.returns == "tuple":
        lines.append(f"  auto results = {call};")
        lines.append(
            f'  write_out("{op.name}", out, results.data(), results.size(), inputs, {dtype});'
        )
    else:
        result = f"in_shape_of(out, {call})" if row.out == "fill" else call
        lines.append(f'  ResultMemory memory("{op.name}", out, inputs);')
        lines.append(f'  return write_out("{op.name}", out, {result}, inputs, {dtype});')
    return "\n".join([*lines, "}"])


def _called_in_place(op, signatures):
    """Of a composite that is one call of an op on its first argument: that op in place."""
    first = op.signature.parameters[0].name
    expression = Body(op, signatures).expression() if op.row.body else None
    call = ast.parse(op.row.body, mode="eval").body if expression else None
    if (
        isinstance(call, ast.Call)
        and ast.unparse(call.args[0]) == first
        and any(called.row.inplace for called in signatures.get(call.func.id, ()))
    ):
        function = f"ops::{call.func.id}"
        return expression.replace(f"{function}(", f"{function}_(", 1)
    lines = Body(op, signatures).lines_in_place() if op.row.body and not op.gradients else None
    return "\n".join(["[&]() -> Tensor {", *lines, "  }()"]) if lines else None


def _composite_inplace(op, signatures, called):
    """One call of another op is that op in place; what is more works on a copy, if backward may
    need the old values.
    """
    if called:
        return [f"  {called};"]
    s = op.signature
    self_name = cxx_variable(s.parameters[0].name)
    names = [(cxx_variable(p.name), p.is_tensor) for p in s.parameters[1:]]
    arguments = ", ".join(
        [
            "before",
            *(
                f"recorded ? saved_copy_if_overlapping({name}, {self_name}) : {name}"
                if tensor
                else name
                for name, tensor in names
            ),
        ]
    )
    tensors = ", ".join(cxx_variable(p.name) for p in op.tensor_parameters)
    exact = [
        f'  check(result.dtype() == {self_name}.dtype(), "the base given to {op.name}_ has dtype "'
        f", {self_name}.dtype(), "
        '" but the operation\'s result requires dtype ", result.dtype());'
    ]
    return [
        f"  const bool recorded = records({tensors});",
        f"  const Tensor before = recorded ? clone_before_change({self_name}) : {self_name};",
        f"  const Tensor result = {op.cxx_name}({arguments});",
        *(exact if op.row.inplace == "exact" else ()),
        f'  if (!result.is_same(before)) replace({self_name}, result, "{op.name}_");',
    ]
