"""Random networks trained by random optimizers in two ways that should agree: saved and resumed in
every form, by other implementations of a step, in parts, by function transforms, through captures,
under hooks, on other layouts; beside finite differences, and beside torch where there is one.

Everything is float64, and what is random is seeded before each step. Where the results of two ways
differ, the plain one is run again from values that differ by 1e-11: if it then differs as much, it
is not known so exactly (Rprop goes by the signs of gradients that are zero but for rounding).
"""

import copy
import io
import os
import pickle
import random
import re
import tempfile
import threading

import numpy as np
from optimizers import SCHEDULERS, combinations

import rushlight as rl
from rushlight.func import functional_call, grad, grad_and_value, jvp, stack_module_state, vmap
from rushlight.utils.checkpoint import checkpoint, checkpoint_sequential

from .networks import NOT_MEANS, Network
from .programs import TORCH
from .wrappers import Looking, Watching, strided

STEPS = 4
RANDOM = ("Dropout", "dropout=0.1", "dropout=0.2", "dropout=0.3", "Noise")
SPARSE = "sparse=True"
# What changes a buffer in each forward pass.
COUNTING = ("BatchNorm", "track_running", "Scaled", "spectral")
SKIPPED = object()  # what a way gives of a recipe that it is not for
# What a layer changes in place though the one before it needs it; torch refuses these too.
SPOILED = re.compile("modified by an inplace|inside a custom Function")
FLAGS = ["foreach", "fused", "capturable"]


class Recipe:
    """A network, its optimizers with schedulers, and how they are used."""

    def __init__(self, rng):
        self.network = Network(rng)
        names = "SGD Adam AdamW Adamax NAdam RAdam Adagrad Adadelta Adafactor RMSprop Rprop ASGD"
        name = rng.choice([*names.split(), "Muon", "LBFGS", "SGD", "AdamW"])
        if self.network.has(SPARSE):
            name = rng.choice(["SparseAdam", "SGD", "Adagrad"])
        self.rules = [self.rule(rng, name)]
        if name in ("Muon", "SparseAdam"):  # are for some parameters alone
            self.rules.append(self.rule(rng, rng.choice(["SGD", "AdamW"])))
        self.groups = name != "LBFGS" and rng.random() < 0.4
        plain = [
            s for s in SCHEDULERS if "[0.001" not in s and "[lambda" not in s and "[0.1, " not in s
        ]
        self.schedule = rng.choice([None, *plain]) if name not in ("LBFGS", "Rprop") else None
        if self.schedule and "Cycl" in self.schedule:  # these set a momentum
            self.schedule = self.schedule if name == "RMSprop" else None
        self.clip = rng.choice(
            [None, None, ("norm", 0.5, 2.0), ("norm", 0.1, 1.0), ("value", 0.05)]
        )
        if self.network.has(SPARSE) or name == "LBFGS":  # searches along what is the gradient
            self.clip = None
        self.average = rng.choice([None, None, "swa", "ema"])
        if self.network.has("U.", "prune"):  # hold tensors that are computed, which have no copies
            self.average = None

    def rule(self, rng, name):
        options = dict(rng.choice(combinations(name)))
        if self.network.has(SPARSE):
            options.pop("weight_decay", 0)
            options["momentum"] = 0
            if name != "SGD":
                del options["momentum"]
        if options.get("nesterov"):
            options.update(momentum=0.9, dampening=0)
            if name == "Muon":
                del options["dampening"]
        return name, options

    def __str__(self):
        more = f"{self.schedule}, groups {self.groups}, clip {self.clip}, {self.average}"
        return f"{self.network}; {self.rules}, {more}"


class Training:
    """The plain way, of which others change a part."""

    flags = {}
    partial = False  # whether its results are some of those of the plain way

    def __init__(self, recipe, T=rl):
        self.recipe, self.T = recipe, T
        self.model = recipe.network.make(T)
        self.loss = recipe.network.loss_of(T)
        self.losses = []
        self.begin()

    @staticmethod
    def suits(recipe):
        """Whether the recipe is one that this way should not change."""
        return True

    def begin(self):
        """Make what goes with the model."""
        self.set_up()
        self.optimizers = list(self.make_optimizers())
        lr = self.T.optim.lr_scheduler
        schedule = self.recipe.schedule
        self.schedulers = [eval(schedule, {"o": o, "s": lr}) for o in self.optimizers if schedule]
        swa = self.T.optim.swa_utils
        match self.recipe.average:
            case None:
                self.averaged = None
            case "swa":
                self.averaged = swa.AveragedModel(self.model, use_buffers=True)
            case "ema":
                average = swa.get_ema_multi_avg_fn(0.9)
                self.averaged = swa.AveragedModel(self.model, multi_avg_fn=average)

    def set_up(self):
        pass

    def parts(self):
        """The parameters that each rule is for."""
        parameters = [p for p in self.model.parameters() if p.requires_grad]
        match self.recipe.rules[0][0]:
            case "Muon":
                first = [p for p in parameters if p.dim() == 2]
            case "SparseAdam":
                kinds = (self.T.nn.Embedding, self.T.nn.EmbeddingBag)
                first = [m.weight for m in self.model.modules() if isinstance(m, kinds)]
            case _:
                return [parameters]
        taken = set(map(id, first))
        return [first, [p for p in parameters if id(p) not in taken]]

    def make_optimizers(self):
        for (name, options), part in zip(self.recipe.rules, self.parts()):
            groups = part
            if self.recipe.groups and len(part) > 1:
                groups = [{"params": part[:1]}, {"params": part[1:], "lr": options["lr"] / 2}]
            yield self.make_optimizer(name, groups, options)

    def make_optimizer(self, name, groups, options):
        return getattr(self.T.optim, name)(groups, **options)

    def data(self, step):
        return self.recipe.network.data(self.T, step)

    def forward(self, x):
        return self.model(x)

    def gradients(self, x, y):
        loss = self.loss(self.forward(x), y)
        loss.backward()
        return loss

    def clip(self):
        utils, clip = self.T.nn.utils, self.recipe.clip
        if clip is None:
            return
        parameters = list(self.model.parameters())
        if clip[0] == "norm":
            self.losses.append(utils.clip_grad_norm_(parameters, *clip[1:]).detach())
        else:
            utils.clip_grad_value_(parameters, clip[1])

    def zero(self):
        for optimizer in self.optimizers:
            optimizer.zero_grad()

    def closure(self, x, y):
        self.zero()
        self.T.manual_seed(7)
        loss = self.gradients(x, y)
        self.clip()
        return loss

    def update(self, x, y):
        """One step of all optimizers."""
        if self.recipe.rules[0][0] == "LBFGS":
            return self.optimizers[0].step(lambda: self.closure(x, y))
        loss = self.closure(x, y)
        for optimizer in self.optimizers:
            optimizer.step()
        return loss

    def step(self, number):
        loss = self.update(*self.data(number)).detach()
        self.losses.append(loss)
        for scheduler in self.schedulers:
            plateau = isinstance(scheduler, self.T.optim.lr_scheduler.ReduceLROnPlateau)
            scheduler.step(*[float(loss)] * plateau)
        if self.averaged is not None:
            self.averaged.update_parameters(self.model)

    def run(self):
        for number in range(STEPS):
            self.step(number)

    def state(self):
        return self.model.state_dict()

    def result(self):
        """What came of it, as arrays by name."""
        found = {f"loss {i}": t for i, t in enumerate(self.losses)}
        found.update({f"model {k}": v for k, v in self.state().items()})
        if self.averaged is not None:
            found.update({f"averaged {k}": v for k, v in self.averaged.state_dict().items()})
        for n, optimizer in enumerate(self.optimizers):
            state = optimizer.state_dict()
            for i, one in state["state"].items():
                found.update({f"{n} {k} of {i}": v for k, v in one.items()})
            for i, group in enumerate(state["param_groups"]):
                found[f"{n} lr {i}"] = group["lr"]
        with self.T.no_grad():
            self.model.eval()
            found["evaluated"] = self.forward(self.data(0)[0])
            self.model.train()
        return {k: array(v) for k, v in found.items() if array(v) is not None}


def array(value):
    if hasattr(value, "detach"):
        return value.detach().to_dense().numpy().copy()
    return np.array(value, float) if isinstance(value, (int, float)) else None


def without(*words):
    """A `suits` of the networks that have none of some layers."""
    return staticmethod(lambda recipe: not recipe.network.has(*words))


class Separable(Training):
    """Ways for which each example is computed by itself, and nothing is counted.

    Of sequences whose first dim is time, the second is the batch.
    """

    suits = without(
        *RANDOM, *NOT_MEANS, *COUNTING, SPARSE, "scale_grad", "max_norm", "Hooked", "Packed",
        "bidirectional=True)", "add_zero_attn", "norm_first=True)", "'gelu'",
        "nonlinearity='relu', bias=False",
    )  # fmt: skip


class Repeatable(Training):
    """Ways that compute what a network gives more than once."""

    suits = without(*COUNTING, *RANDOM, "max_norm")


# --- saved and resumed


def through_file(state, **how):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "state.pt")
        rl.save(state, path)
        return rl.load(path, **how)


def through_memory(state, save=None, **how):
    file = io.BytesIO()
    rl.save(state, file, **(save or {}))
    file.seek(0)
    return rl.load(file, **how)


FORMS = {
    "zip": lambda s: through_memory(s, weights_only=False),
    "weights_only": lambda s: through_memory(s, weights_only=True),
    "mmap": lambda s: through_file(s, mmap=True, weights_only=True),
    "legacy": lambda s: through_memory(s, {"_use_new_zipfile_serialization": False}),
    "map_location": lambda s: through_memory(s, map_location="cpu"),
    "pickle": lambda s: pickle.loads(pickle.dumps(s)),
    "deepcopy": copy.deepcopy,
    "swapped": lambda s: copy.deepcopy(s),
}


class Resumed(Training):
    form, assign, meta, anew = None, False, False, False

    def run(self):
        for number in range(STEPS):
            if number == STEPS // 2:
                self.restore()
            self.step(number)

    def restore(self):
        parts = [*self.optimizers, *self.schedulers]
        saved = {
            "model": self.model.state_dict(),
            "parts": [p.state_dict() for p in parts],
            "averaged": self.averaged and self.averaged.state_dict(),
            "random": rl.get_rng_state(),
        }
        saved = self.form(saved)
        rl.manual_seed(5)
        self.model = self.recipe.network.make(rl, seed=2)
        if self.meta:
            self.model = self.model.to("meta")
        rl.__future__.set_swap_module_params_on_conversion(self.anew)
        try:
            if self.assign:
                self.model.load_state_dict(saved["model"], assign=True)
            self.begin()
            if not self.assign:
                self.model.load_state_dict(saved["model"])
        finally:
            rl.__future__.set_swap_module_params_on_conversion(False)
        for part, state in zip([*self.optimizers, *self.schedulers], saved["parts"]):
            part.load_state_dict(state)
        if self.averaged is not None:
            self.averaged.load_state_dict(saved["averaged"])
        rl.set_rng_state(saved["random"])


class Whole(Training):
    """The objects themselves, copied."""

    copy = staticmethod(copy.deepcopy)

    @staticmethod
    def suits(recipe):
        # Weights that U.weight_norm has computed are no leaves: torch too refuses to copy them.
        lambdas = recipe.average or "lambda" in (recipe.schedule or "")
        return not (lambdas or recipe.network.has("U.", "prune", "parametrize", "P."))

    def run(self):
        for number in range(STEPS):
            if number == STEPS // 2:
                names = ["model", "optimizers", "schedulers", "averaged"]
                copied = self.copy([getattr(self, name) for name in names])
                for parameter in self.model.parameters():
                    parameter.data.zero_()
                for name, one in zip(names, copied):
                    setattr(self, name, one)
            self.step(number)


# --- the step of an optimizer by other ways


class Flagged(Training):
    def make_optimizer(self, name, groups, options):
        try:
            return super().make_optimizer(name, groups, {**options, **self.flags})
        except TypeError:
            return super().make_optimizer(name, groups, options)


class WithClosure(Training):
    @staticmethod
    def suits(recipe):
        return len(recipe.rules) == 1

    def update(self, x, y):
        return self.optimizers[0].step(lambda: self.closure(x, y))


class TensorRate(Training):
    @staticmethod
    def suits(recipe):
        return recipe.schedule is None and not recipe.groups

    def make_optimizer(self, name, groups, options):
        if name in ("LBFGS", "Muon", "SparseAdam", "Adafactor"):
            return super().make_optimizer(name, groups, options)
        rate = rl.tensor(options["lr"], dtype=rl.float64)
        return super().make_optimizer(name, groups, {**options, "lr": rate, "foreach": False})


class ManyGroups(Training):
    """Each parameter in a group of its own, added later."""

    partial = True

    def make_optimizer(self, name, groups, options):
        if name == "LBFGS":
            return super().make_optimizer(name, groups, options)
        groups = [g if isinstance(g, dict) else {"params": [g]} for g in groups]
        groups = [{**g, "params": [p]} for g in groups for p in g["params"]]
        made = super().make_optimizer(name, groups[:1], options)
        for group in groups[1:]:
            made.add_param_group(group)
        return made

    def result(self):
        return {k: v for k, v in super().result().items() if " lr " not in k}


class ZeroNotNone(Training):
    def zero(self):
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=False)


class Scaler(Training):
    """Losses times a power of two."""

    @staticmethod
    def suits(recipe):
        return recipe.rules[0][0] != "LBFGS" and not recipe.network.has(SPARSE)

    def set_up(self):
        self.scaler = rl.amp.GradScaler("cpu", init_scale=2.0**8, growth_interval=2)

    def update(self, x, y):
        self.zero()
        self.T.manual_seed(7)
        loss = self.loss(self.forward(x), y)
        self.scaler.scale(loss).backward()
        for optimizer in self.optimizers:
            self.scaler.unscale_(optimizer)
        self.clip()
        for optimizer in self.optimizers:
            self.scaler.step(optimizer)
        self.scaler.update()
        return loss


class InBackward(Training):
    """An optimizer for each parameter, which steps as soon as its gradient is there."""

    partial = True

    @staticmethod
    def suits(recipe):
        changed = recipe.clip or recipe.groups or recipe.schedule
        return not changed and len(recipe.rules) == 1 and recipe.rules[0][0] != "LBFGS"

    def make_optimizers(self):
        ((name, options),) = self.recipe.rules
        for parameter in self.parts()[0]:
            optimizer = self.make_optimizer(name, [parameter], options)
            parameter.register_post_accumulate_grad_hook(self.stepped(optimizer))
            yield optimizer

    def stepped(self, optimizer):
        def hook(parameter):
            optimizer.step()
            optimizer.zero_grad()

        return hook

    def update(self, x, y):
        return self.closure(x, y)

    def result(self):
        found = super().result()
        return {k: v for k, v in found.items() if k[0] not in "0123456789"}


# --- gradients by other ways


class Accumulated(Separable):
    def gradients(self, x, y):
        total = 0
        for part, target in zip(x.chunk(2), y.chunk(2)):
            loss = self.loss(self.forward(part), target) / 2
            loss.backward()
            total = total + loss.detach()
        return total


class Checkpointed(Repeatable):
    """Layer by layer: what one of them changes in place is the argument of its checkpoint."""

    reentrant = False
    suits = without(*COUNTING, *RANDOM, "max_norm", "inplace")

    def forward(self, x):
        if x.is_floating_point():  # without which a reentrant one gives its parameters no gradient
            x.requires_grad_()
        for layer in self.model:
            x = checkpoint(layer, x, use_reentrant=self.reentrant)
        return x


class InSegments(Repeatable):
    def forward(self, x):
        return checkpoint_sequential(self.model, 2, x, use_reentrant=False)


class Functional(Training):
    """Gradients of a function of the parameters."""

    suits = without(SPARSE, "Hooked", "spectral")

    def trained(self):
        return {k: p for k, p in self.model.named_parameters() if p.requires_grad}

    def buffers(self):
        return dict(self.model.named_buffers())

    def loss_at(self, parameters, buffers, x, y):
        rest = {k: p for k, p in self.model.named_parameters() if not p.requires_grad}
        return self.loss(functional_call(self.model, ({**parameters, **rest}, buffers), (x,)), y)

    def gradients(self, x, y):
        trained = self.trained()
        found, loss = grad_and_value(self.loss_at)(trained, self.buffers(), x, y)
        for k, p in trained.items():
            p.grad = found[k].detach()
        return loss


class ByAutogradGrad(Training):
    create_graph = False
    suits = without(SPARSE)

    def gradients(self, x, y):
        trained = [p for p in self.model.parameters() if p.requires_grad]
        loss = self.loss(self.forward(x), y)
        found = rl.autograd.grad(loss, trained, create_graph=self.create_graph)
        for p, g in zip(trained, found):
            p.grad = g.detach()
        return loss


class InTwoPasses(Training):
    """Backward of a quarter of the loss, and of the rest, by a graph that is kept."""

    suits = without(SPARSE, "Hooked")

    def gradients(self, x, y):
        loss = self.loss(self.forward(x), y)
        loss.backward(rl.full_like(loss, 0.3), retain_graph=True)
        (loss * 0.7).backward(inputs=[p for p in self.model.parameters() if p.requires_grad])
        return loss


class OfExamples(Functional):
    """The mean of the gradients of single examples."""

    suits = Separable.suits

    def gradients(self, x, y):
        trained = self.trained()

        def loss(parameters, x, y):
            return self.loss_at(parameters, {}, x[None], y[None])

        found, losses = vmap(grad_and_value(loss), in_dims=(None, 0, 0))(trained, x, y)
        for k, p in trained.items():
            p.grad = found[k].detach().mean(0)
        return losses.mean()


class Ensemble(Functional):
    """Beside another network in one map over both."""

    suits = without(SPARSE, *RANDOM, "max_norm", "spectral", "Packed", "CTC", "Hooked", "Scaled",
                    "momentum=None", "BatchNorm", "track_running")  # fmt: skip

    def gradients(self, x, y):
        other = self.recipe.network.make(rl, seed=3)
        parameters, buffers = stack_module_state([self.model, other])

        def loss(parameters, buffers):
            return self.loss(functional_call(self.model, (parameters, buffers), (x,)), y)

        found, losses = vmap(grad_and_value(loss))(parameters, buffers)
        for k, p in self.trained().items():
            p.grad = found[k][0].detach()
        return losses[0]


class InThread(Training):
    def gradients(self, x, y):
        loss = self.loss(self.forward(x), y)
        thread = threading.Thread(target=loss.backward)
        thread.start()
        thread.join()
        return loss


class Under(Training):
    """Everything within a context that should change nothing."""

    context = None

    def gradients(self, x, y):
        with self.context():
            return super().gradients(x, y)


class Saved(Training):
    def gradients(self, x, y):
        with rl.autograd.graph.saved_tensors_hooks(lambda t: t.numpy().copy(), rl.from_numpy):
            loss = self.loss(self.forward(x), y)
        loss.backward()
        return loss


class Observed(Training):
    """Hooks that only look."""

    suits = without("inplace", "U.", "prune")

    def set_up(self):
        for layer in self.model.modules():
            layer.register_forward_hook(lambda *_: None)
            layer.register_forward_pre_hook(lambda *_: None)
        for layer in self.model:
            layer.register_full_backward_hook(lambda *_: None)
            layer.register_full_backward_pre_hook(lambda *_: None)
        for p in self.model.parameters():
            if p.requires_grad:
                p.register_hook(lambda g: g * 1)
                p.register_post_accumulate_grad_hook(lambda p: None)


# --- other data and other modules


class Laid(Training):
    """Data in another order in memory."""

    layout = None
    suits = without(*RANDOM)

    def data(self, step):
        x, y = super().data(step)
        return self.layout(x), self.layout(y) if y.dim() > 1 else y


class ChannelsLast(Training):
    suits = without(*RANDOM, "Conv3d", "ConvTranspose3d")

    def set_up(self):
        self.model.to(memory_format=rl.channels_last)

    def data(self, step):
        x, y = super().data(step)
        return x.to(memory_format=rl.channels_last) if x.dim() == 4 else x, y


class Transposed(Training):
    """Parameters of other strides, which optimizers and gradients take over."""

    suits = without(*RANDOM)

    def set_up(self):
        for p in self.model.parameters():
            if p.dim() > 1:
                p.data = p.data.mT.contiguous().mT


class OneStorage(Training):
    """Parameters that are views of one tensor."""

    suits = without("orthogonal")

    def set_up(self):
        flat = rl.nn.utils.parameters_to_vector(self.model.parameters()).detach().clone()
        rl.nn.utils.vector_to_parameters(flat, self.model.parameters())


class Captured(Repeatable):
    """By a capture of the network, in which there are no hooks of its backward pass."""

    capture = None
    suits = without(*COUNTING, *RANDOM, "max_norm", "Hooked")

    def set_up(self):
        self.captured = None

    def forward(self, x):
        if not self.model.training:
            return self.model(x)
        if self.captured is None:
            self.captured = self.capture(self.model, x)
        return self.captured(x)


class Wrapped(Training):
    """DistributedDataParallel of one process."""

    suits = without(SPARSE, "max_norm")

    def set_up(self):
        group = rl.distributed
        if not group.is_initialized():
            group.init_process_group("gloo", store=group.HashStore(), rank=0, world_size=1)
        self.wrapped = rl.nn.parallel.DistributedDataParallel(self.model)

    def forward(self, x):
        return self.wrapped(x)


def resumed(form, **how):
    return type("Resumed", (Resumed,), {"form": staticmethod(FORMS[form]), **how})


def made(base, **how):
    how = {k: staticmethod(v) if callable(v) else v for k, v in how.items()}
    return type(base.__name__, (base,), how)


WAYS = {
    **{f"resumed by {form}": resumed(form) for form in FORMS},
    "resumed, assign": resumed("zip", assign=True, suits=without("Tied")),
    "resumed, assign, mmap": resumed("mmap", assign=True, suits=without("Tied")),
    "resumed on meta": resumed("weights_only", assign=True, meta=True,
                               suits=without("Tied", "Scaled", "P.", "parametrize")),
    "resumed, swapped": resumed("swapped", anew=True),
    "copied": Whole,
    "pickled": made(Whole, copy=lambda parts: through_memory(parts, weights_only=False)),
    **{f"{flag} {on}": made(Flagged, flags={flag: on}) for flag in FLAGS for on in (True, False)},
    "closure": WithClosure,
    "rate": TensorRate,
    "groups": ManyGroups,
    "zero": ZeroNotNone,
    "scaler": Scaler,
    "in backward": InBackward,
    "accumulated": Accumulated,
    "checkpoint": Checkpointed,
    "reentrant": made(
        Checkpointed, reentrant=True,
        # Each layer's input is a leaf there, and one that needs no gradient gives none.
        suits=staticmethod(
            lambda recipe: Repeatable.suits(recipe)
            and not (recipe.network.of_integers or recipe.network.has("inplace"))
        ),
    ),
    "segments": InSegments,
    "functional": Functional,
    "grad": ByAutogradGrad,
    "create_graph": made(ByAutogradGrad, create_graph=True),
    "two passes": InTwoPasses,
    "of examples": OfExamples,
    "ensemble": Ensemble,
    "thread": InThread,
    "save_on_cpu": made(Under, context=rl.autograd.graph.save_on_cpu),
    "saved": Saved,
    "anomaly": made(
        Under, context=lambda: rl.autograd.detect_anomaly(check_nan=False)
    ),
    "dispatch mode": made(Under, context=Looking),
    "function mode": made(Under, context=Watching),
    "no autocast": made(Under, context=lambda: rl.autocast("cpu", enabled=False)),
    "one thread": made(Under, context=lambda: rl.autograd.set_multithreading_enabled(False)),
    "observed": Observed,
    "strided": made(Laid, layout=strided),
    "view": made(Laid, layout=lambda t: rl.stack([t, t])[1]),
    "channels_last": ChannelsLast,
    "transposed": Transposed,
    "one storage": OneStorage,
    "compile": made(Captured, capture=lambda m, x: rl.compile(m)),
    "trace": made(Captured, capture=lambda m, x: rl.jit.trace(m, x, check_trace=False)),
    "export": made(Captured, capture=lambda m, x: exported(m, x)),
    "DDP": Wrapped,
}  # fmt: skip


def exported(model, x):
    program = rl.export.export(model, (x,)).module()
    names = {**dict(model.named_parameters(remove_duplicate=False)), **dict(model.named_buffers())}

    def call(x):
        return functional_call(program, names, (x,))

    return call


class Beside(Training):
    """The same in torch, from the same values."""

    @staticmethod
    def suits(recipe):
        has, name = recipe.network.has, recipe.rules[0][0]
        # What comes before a norm has gradients that are zero but for rounding, or zero; and the
        # products of Muon are in bfloat16.
        return not has(*RANDOM) and name != "Muon" and not (name == "Rprop" and has("Norm"))

    def begin(self):
        if self.T is not rl:
            ours = self.recipe.network.make(rl).state_dict()
            self.model.load_state_dict({k: self.T.from_numpy(v.numpy()) for k, v in ours.items()})
        super().begin()

    def data(self, step):
        return tuple(self.T.from_numpy(t.numpy()) for t in self.recipe.network.data(rl, step))


class Nudged(Training):
    """From values that differ by little, its gradients summed in two parts."""

    factor = 1e-11
    gradients = InTwoPasses.gradients

    def set_up(self):
        with rl.no_grad():
            for p in self.model.parameters():
                places = rl.arange(1, p.numel() + 1, dtype=p.dtype).reshape(p.shape)
                p.mul_(1 + self.factor * places.cos())


def outcome(way, recipe, *library):
    """Results by name, an exception, or that the way is not for this recipe."""
    try:
        if not way.suits(recipe):
            return SKIPPED
        training = way(recipe, *library)
        training.run()
        return training.result()
    except Exception as error:
        return error


def different(found, expected, partial=False):
    """The first name whose values are not those expected."""
    for k, b in expected.items():
        a = found.get(k)
        if partial and a is None:
            continue
        if a is not None and a.shape == b.shape and a.dtype == b.dtype:
            with np.errstate(all="ignore"):
                if np.allclose(a, b, 1e-6, 1e-7 * (1 + np.abs(b).max(initial=0)), equal_nan=True):
                    continue
        return f"{k}: {a} {b}"[:700]
    return None


def known(recipe, expected):
    """Whether results hardly change where what goes in hardly does."""
    for factor in (1e-11, -1e-11):
        again = outcome(made(Nudged, factor=factor), recipe)
        if isinstance(again, Exception) or different(again, expected):
            return False
    return True


class Directions(Functional):
    """Derivatives of the first loss along a direction, by four ways."""

    suits = without(
        "CTC", "LPPool", "scale_grad", "padding_idx", "Hooked", "max_norm", "spectral", SPARSE
    )

    def __init__(self, recipe):
        super().__init__(recipe)
        self.x, self.y = self.data(0)
        self.at = {k: p.detach() for k, p in self.trained().items()}
        rl.manual_seed(9)
        self.v = {k: rl.randn_like(p) for k, p in self.at.items()}

    def first_loss(self, parameters):
        rl.manual_seed(7)
        buffers = {k: b.clone() for k, b in self.buffers().items()}
        return self.loss_at(parameters, buffers, self.x, self.y)

    def moved(self, step):
        return {k: p + step * self.v[k] for k, p in self.at.items()}

    def along(self, gradients):
        return sum((g * self.v[k]).sum() for k, g in gradients.items())

    def difference(self, f, h):
        return (f(self.moved(h)) - f(self.moved(-h))) / (2 * h)

    def slope(self, parameters):
        return self.along(grad(self.first_loss)(parameters))

    def run(self):
        self.found = {}
        for order, f in ((1, self.first_loss), (2, self.slope)):
            wide, narrow = (float(self.difference(f, h)) for h in (1e-5, 2e-6))
            here = float(f(self.at))
            scale = abs(here) + abs(wide) + 1e-3
            ahead = (float(f(self.moved(1e-5))) - here) / 1e-5
            if not (abs(wide - narrow) < 1e-5 * scale and abs(ahead - wide) < 5e-5 * scale):
                return  # no derivative, or hardly one
            self.found[order] = wide, scale
            if order == 1:
                self.found["by grad"] = self.slope(self.at)
                self.found["by jvp"] = jvp(self.first_loss, (self.at,), (self.v,))[1]
            else:
                self.found["by grad of grad"] = self.along(grad(self.slope)(self.at))
                self.found["by jvp of grad"] = jvp(self.slope, (self.at,), (self.v,))[1]

    def result(self):
        return self.found


def check_directions(recipe, report):
    found = outcome(Directions, recipe)
    if isinstance(found, Exception):
        report.finding("refused", f"directions: {recipe}: {type(found).__name__}: {found}"[:1500])
    elif found is not SKIPPED:
        for order, ways in ((1, ["by grad", "by jvp"]), (2, ["by grad of grad", "by jvp of grad"])):
            if order not in found:
                break
            value, scale = found[order]
            for way in ways:
                if not abs(float(found[way]) - value) < 1e-4 * scale:
                    report.finding("differs", f"{way}: {float(found[way])} {value}: {recipe}")


def run(seed, report):
    rng = random.Random(seed)
    recipe = Recipe(rng)
    report.step(lambda: f"plain: {recipe}")
    expected = outcome(Training, recipe)
    if isinstance(expected, Exception):
        if not SPOILED.search(str(expected)):
            text = f"{type(expected).__name__}: {str(expected)[:300]}"
            report.finding("refused", f"plain: {text}: {recipe}")
        return
    ways = [(name, way, ()) for name, way in rng.sample(list(WAYS.items()), 8)]
    if TORCH:
        ways = [("torch", Beside, (TORCH,)), *ways[:2]]
    for name, way, library in ways:
        report.step(lambda: f"{name}")  # noqa: B023
        found = outcome(way, recipe, *library)
        if found is SKIPPED:
            continue
        if isinstance(found, Exception):
            text = f"{type(found).__name__}: {str(found)[:400]}"
            report.finding("refused", f"{name}: {text}: {recipe}")
            continue
        where = different(found, expected, way.partial)
        if where and known(recipe, expected):
            report.finding("differs", f"{name}: {where}: {recipe}")
    report.step(lambda: "directions")
    check_directions(recipe, report)
