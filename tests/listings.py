"""Programs that use the interfaces of the listings in "Automatic differentiation in PyTorch"
(2017), in "PyTorch: An Imperative Style, High-Performance Deep Learning Library" (2019) and in the
documentation of torch 0.3, in our own words. Each is a function of the library, checks what it can
by itself, and returns what any library that runs it must get.
"""

import io
import os
import tempfile
from collections import OrderedDict

import numpy as np

PROGRAMS = {}
OF_2017 = set()  # those that need the interface which torch has dropped


def program(function, older=False):
    PROGRAMS[function.__name__] = function
    if older:
        OF_2017.add(function.__name__)
    return function


def of_2017(function):
    return program(function, older=True)


def refused(call, *errors):
    """The class of the error that a call raises."""
    try:
        call()
    except errors as error:
        return type(error).__name__
    raise AssertionError("nothing was raised")


# ---- the paper of 2017


@program
def a_recurrent_cell_recorded_as_it_runs(T):
    Variable = T.autograd.Variable
    x, state = Variable(T.randn(1, 10)), Variable(T.randn(1, 20))
    of_state = Variable(T.randn(20, 20), requires_grad=True)
    of_input = Variable(T.randn(20, 10), requires_grad=True)
    new_state = (T.matmul(of_input, x.t()) + T.matmul(of_state, state.t())).tanh()
    new_state.sum().backward()
    slope = 1 - new_state.data**2
    assert T.allclose(of_input.grad, slope @ x) and T.allclose(of_state.grad, slope @ state)
    return new_state.data, of_state.grad, of_input.grad, x.grad


@program
def parts_of_a_graph_that_need_no_gradient(T):
    Variable = T.autograd.Variable
    given, wanted = Variable(T.randn(5, 5)), Variable(T.randn(5, 5), requires_grad=True)
    alone, both = given + given, given + wanted
    assert not alone.requires_grad and alone.grad_fn is None
    both.sum().backward()
    return wanted.grad, given.grad, both.requires_grad


@program
def gradients_of_some_inputs_alone(T):
    x, y = (T.autograd.Variable(T.randn(4), requires_grad=True) for _ in range(2))
    z = (x * x * y).sum()
    (of_x,) = T.autograd.grad([z], [x], grad_outputs=[T.ones(())], create_graph=True)
    (of_y,) = T.autograd.grad(of_x.sum(), [y])
    assert x.grad is None and T.allclose(of_y, 2 * x.detach())
    return of_x.detach(), of_y


@program
def a_value_that_backward_needs_is_overwritten(T):
    x = T.autograd.Variable(T.randn(3), requires_grad=True)
    y = x.tanh()
    y.add_(3)
    said = refused(lambda: y.sum().backward(), RuntimeError)
    z = x.exp().clone()
    z.add_(3)
    z.sum().backward()
    return said, x.grad


@program
def memory_that_two_tensors_share(T):
    x = T.autograd.Variable(T.randn(4), requires_grad=True) * 1
    head = x[:2]
    x.mul_(3)
    assert head.grad_fn is not None
    return head.detach(), (head.sum() * 2).item(), x._version == head._version


@program
def an_operation_with_a_gradient_of_its_own(T):
    class Cube(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, scale):
            ctx.save_for_backward(x)
            ctx.scale = scale
            return scale * x**3

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * ctx.scale * 3 * x**2, None

    x = T.randn(5, dtype=T.float64, requires_grad=True)
    Cube.apply(x, 2.0).sum().backward(create_graph=True)
    (second,) = T.autograd.grad(x.grad.sum(), x)
    assert T.autograd.gradcheck(Cube.apply, (x, 2.0))
    return x.grad.detach(), second


@program
def hooks_that_look_at_gradients(T):
    seen = []
    v = T.autograd.Variable(T.Tensor([0, 0, 0]), requires_grad=True)
    handle = v.register_hook(lambda grad: grad * 2)
    v.register_hook(lambda grad: seen.append(grad.tolist()))
    v.backward(T.Tensor([1, 1, 1]))
    handle.remove()
    v.backward(T.Tensor([1, 1, 1]))
    return v.grad, T.Tensor(seen)


@of_2017
def the_calls_of_backward_in_2017(T):
    x = T.autograd.Variable(T.ones(3), requires_grad=True)
    y = x * x
    T.autograd.backward([y], [T.ones(3)], retain_variables=True)
    T.autograd.backward(variables=[y], grad_variables=[T.ones(3)])
    (x * x).backward(T.ones(3), None, None)
    return x.grad


@of_2017
def volatile_passes_on(T):
    Variable = T.autograd.Variable
    model = T.nn.Linear(3, 2)
    usual, volatile = Variable(T.randn(1, 3)), Variable(T.randn(1, 3), volatile=True)
    assert model(usual).requires_grad and model(usual).volatile is False
    out = model(volatile)
    assert out.volatile and not out.requires_grad and out.grad_fn is None
    assert (model(usual) + out).volatile
    assert Variable(out.data, volatile=False).volatile is False
    return (out.data,)


# ---- the paper of 2019


def layers_and_a_model(T):
    class Affine(T.nn.Module):
        def __init__(self, inputs, outputs):
            super().__init__()
            self.weight = T.nn.Parameter(T.randn(inputs, outputs))
            self.bias = T.nn.Parameter(T.randn(outputs))

        def forward(self, activations):
            return T.mm(activations, self.weight) + self.bias

    class Classifier(T.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = T.nn.Conv2d(1, 8, 3)
            self.fc = Affine(8, 10)

        def forward(self, x):
            hidden = T.nn.functional.relu(self.conv(x))
            return T.nn.functional.softmax(self.fc(hidden.mean((2, 3))), dim=1)

    return Affine, Classifier


@program
def a_layer_is_a_class_and_a_model_too(T):
    _, Classifier = layers_and_a_model(T)
    model = Classifier()
    out = model(T.randn(4, 1, 7, 7))
    out[:, 3].log().mean().backward()
    names = [name for name, _ in model.named_parameters()]
    assert names == ["conv.weight", "conv.bias", "fc.weight", "fc.bias"]
    assert T.allclose(out.sum(1), T.ones(4))
    return out.detach(), *(p.grad for p in model.parameters())


@program
def two_models_that_train_each_other(T):
    nn, F = T.nn, T.nn.functional
    discriminator = nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1), nn.Sigmoid())
    generator = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
    of_d = T.optim.Adam(discriminator.parameters(), lr=1e-2)
    of_g = T.optim.Adam(generator.parameters(), lr=1e-2)
    real, fake = T.ones(6, 1), T.zeros(6, 1)
    losses = []
    for _ in range(3):
        of_d.zero_grad()
        loss = F.binary_cross_entropy(discriminator(T.randn(6, 2)), real)
        loss.backward()
        made = generator(T.randn(6, 3))
        other = F.binary_cross_entropy(discriminator(made.detach()), fake)
        other.backward()
        assert all(p.grad is None for p in generator.parameters()) or losses
        of_d.step()
        of_g.zero_grad()
        last = F.binary_cross_entropy(discriminator(made), real)
        last.backward()
        of_g.step()
        losses += [loss.item(), other.item(), last.item()]
    return (T.tensor(losses),)


@program
def arrays_and_tensors_share_memory(T):
    array = np.arange(4.0)
    tensor = T.from_numpy(array)
    tensor.mul_(2)
    assert array.tolist() == [0, 2, 4, 6] and tensor.numpy().ctypes.data == array.ctypes.data
    again = T.utils.dlpack.from_dlpack(T.utils.dlpack.to_dlpack(tensor))
    again[0] = 7
    return tensor, array[0]


@program
def a_dataset_of_the_programs_own(T):
    class Squares(T.utils.data.Dataset):
        def __len__(self):
            return 10

        def __getitem__(self, i):
            return T.tensor([float(i)]), i * i

    loader = T.utils.data.DataLoader(Squares(), batch_size=4, shuffle=True, num_workers=0)
    numbers, squares = zip(*loader)
    assert [len(batch) for batch in numbers] == [4, 4, 2]
    assert (T.cat(numbers).squeeze(1) ** 2 == T.cat(squares)).all()
    return (T.cat(squares),)


@program
def control_flow_is_pythons(T):
    x = T.randn(3, requires_grad=True)
    y, turns = x, 0
    while y.norm() < 50:
        y, turns = y * 2 if turns % 2 else y * 3, turns + 1
    y.sum().backward()
    return x.grad, turns


@program
def a_profile_of_a_step(T):
    model = T.nn.Sequential(T.nn.Linear(4, 4), T.nn.ReLU())
    with T.autograd.profiler.profile() as prof:
        model(T.randn(2, 4)).sum().backward()
    assert "Self CPU" in str(prof) and prof.key_averages().table(sort_by="self_cpu_time_total")
    names = {event.name for event in prof.function_events}
    return sorted(names & {"aten::linear", "aten::relu", "aten::sum"})


# ---- the documentation of 0.3


@program
def frozen_layers_and_a_new_head(T):
    nn = T.nn
    model = nn.Sequential(OrderedDict([("body", nn.Linear(4, 6)), ("act", nn.Tanh()),
                                       ("fc", nn.Linear(6, 6))]))  # fmt: skip
    for param in model.parameters():
        param.requires_grad = False
    model.fc = nn.Linear(6, 3)
    optimizer = T.optim.SGD(model.fc.parameters(), lr=1e-2, momentum=0.9)
    model(T.autograd.Variable(T.randn(2, 4))).sum().backward()
    optimizer.step()
    return model.body.weight.grad, model.fc.weight.data, model.fc.bias.grad


@program
def shapes_that_broadcast(T):
    x, y = T.FloatTensor(5, 1, 4, 1).fill_(2), T.FloatTensor(3, 1, 1).fill_(3)
    assert (x + y).size() == T.Size([5, 3, 4, 1])
    one, three = T.FloatTensor(1, 3, 1).zero_(), T.FloatTensor(3, 1, 7).fill_(1)
    return (
        x + y,
        refused(lambda: one.add_(three), RuntimeError),
        refused(lambda: T.FloatTensor(5, 2, 4, 1) + T.FloatTensor(3, 1, 1), RuntimeError),
    )


@program
def a_linear_function_and_its_module(T):
    class LinearFunction(T.autograd.Function):
        @staticmethod
        def forward(ctx, input, weight, bias=None):
            ctx.save_for_backward(input, weight, bias)
            output = input.mm(weight.t())
            if bias is not None:
                output += bias.unsqueeze(0).expand_as(output)
            return output

        @staticmethod
        def backward(ctx, grad_output):
            input, weight, bias = ctx.saved_tensors
            of_input = of_weight = of_bias = None
            if ctx.needs_input_grad[0]:
                of_input = grad_output.mm(weight)
            if ctx.needs_input_grad[1]:
                of_weight = grad_output.t().mm(input)
            if bias is not None and ctx.needs_input_grad[2]:
                of_bias = grad_output.sum(0)
            return of_input, of_weight, of_bias

    class Linear(T.nn.Module):
        def __init__(self, inputs, outputs, bias=True):
            super().__init__()
            self.weight = T.nn.Parameter(T.Tensor(outputs, inputs))
            if bias:
                self.bias = T.nn.Parameter(T.Tensor(outputs))
            else:
                self.register_parameter("bias", None)
            self.weight.data.uniform_(-0.1, 0.1)
            if bias:
                self.bias.data.uniform_(-0.1, 0.1)

        def forward(self, input):
            return LinearFunction.apply(input, self.weight, self.bias)

        def extra_repr(self):
            return f"with bias={self.bias is not None}"

    given = (T.randn(5, 4, dtype=T.double, requires_grad=True),
             T.randn(3, 4, dtype=T.double, requires_grad=True))  # fmt: skip
    assert T.autograd.gradcheck(LinearFunction.apply, given, eps=1e-6, atol=1e-4)
    model = Linear(4, 3)
    model(T.randn(2, 4)).sum().backward()
    assert repr(model) == "Linear(with bias=True)" and Linear(2, 2, bias=False).bias is None
    return model.weight.grad, model.bias.grad


@program
def saved_variables_in_backward(T):
    class Exp(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            result = x.exp()
            ctx.save_for_backward(result)
            return result

        @staticmethod
        def backward(ctx, grad_output):
            (result,) = ctx.saved_variables
            return grad_output * result

    x = T.autograd.Variable(T.zeros(2), requires_grad=True)
    Exp.apply(x).sum().backward()
    return x.grad


@program
def what_a_file_keeps(T):
    model = T.nn.Linear(3, 2)
    file = io.BytesIO()
    T.save(model.state_dict(), file)
    file.seek(0)
    other = T.nn.Linear(3, 2)
    other.load_state_dict(T.load(file))
    assert all(a.equal(b) for a, b in zip(model.parameters(), other.parameters()))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model")
        T.save({"epoch": 3, "state_dict": model.state_dict()}, path)
        checkpoint = T.load(path, map_location=lambda storage, location: storage)
    return checkpoint["epoch"], checkpoint["state_dict"]["weight"]


@program
def a_program_for_any_device(T):
    cuda = False and T.cuda.is_available()
    kind = T.cuda.FloatTensor if cuda else T.FloatTensor
    x = kind(2, 3).fill_(1)
    same = x.new(3).fill_(0.3)
    return same, T.zeros_like(x), x.type(), x.new([1.0, 2.0])


@program
def sequences_of_several_lengths(T):
    rnn = T.nn.utils.rnn
    lstm = T.nn.LSTM(3, 4, batch_first=True)
    padded = T.randn(2, 5, 3)
    packed = rnn.pack_padded_sequence(padded, [5, 2], batch_first=True)
    out, lengths = rnn.pad_packed_sequence(lstm(packed)[0], batch_first=True)
    assert list(lengths) == [5, 2] and not out[1, 2:].any()
    return (out.detach(),)


@program
def history_is_cut_between_batches(T):
    cell = T.nn.RNNCell(3, 4)
    hidden, total = T.autograd.Variable(T.zeros(1, 4)), 0
    for _ in range(3):
        hidden = T.autograd.Variable(hidden.data)
        hidden = cell(T.autograd.Variable(T.randn(1, 3)), hidden)
        loss = hidden.pow(2).sum()
        loss.backward()
        total += loss.item()
    return total, cell.weight_hh.grad


@program
def optimizers_and_their_groups(T):
    model = T.nn.Sequential(T.nn.Linear(3, 3), T.nn.Linear(3, 1))
    optimizer = T.optim.SGD([{"params": model[0].parameters()},
                             {"params": model[1].parameters(), "lr": 1e-3}],
                            lr=1e-2, momentum=0.9)  # fmt: skip
    scheduler = T.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.1)
    x, y = T.randn(4, 3), T.randn(4, 1)

    def closure():
        optimizer.zero_grad()
        loss = T.nn.MSELoss()(model(x), y)
        loss.backward()
        return loss

    losses = []
    for _ in range(4):
        losses.append(optimizer.step(closure).item())
        scheduler.step()
    return T.tensor(losses), [group["lr"] for group in optimizer.param_groups]


@program
def lbfgs_calls_the_closure(T):
    x = T.nn.Parameter(T.tensor([1.5, -0.5]))
    optimizer = T.optim.LBFGS([x], lr=0.5, max_iter=5)

    def closure():
        optimizer.zero_grad()
        loss = ((x - 1) ** 2).sum() + x.prod() ** 2
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(closure)
    return (x.data,)


@program
def an_action_is_drawn_and_reinforced(T):
    policy = T.nn.Linear(4, 2)
    chosen = T.distributions.Categorical(T.nn.functional.softmax(policy(T.randn(3, 4)), dim=-1))
    action = chosen.sample()
    (-chosen.log_prob(action) * T.tensor([1.0, -0.5, 2.0])).sum().backward()
    return action, policy.weight.grad


@program
def modules_are_watched_and_initialized(T):
    nn, seen = T.nn, []

    def init(m):
        if isinstance(m, nn.Linear):
            m.weight.data.fill_(1.0)

    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)).apply(init)
    model[0].register_forward_hook(lambda module, given, out: seen.append(out.size()))
    model.double()
    assert [type(m).__name__ for m in model.children()] == ["Linear", "Linear"]
    out = model(T.ones(1, 2).double())
    return out.detach(), [tuple(size) for size in seen], sorted(model.state_dict())


@program
def losses_with_the_flags_of_old(T):
    F, x, target = T.nn.functional, T.randn(3, 5), T.LongTensor([1, 0, 4])
    return (F.cross_entropy(x, target, size_average=False),
            F.nll_loss(F.log_softmax(x, dim=1), target, reduce=False),
            T.nn.MSELoss(size_average=False)(x, T.zeros(3, 5)),
            T.nn.L1Loss(reduce=False)(x, T.zeros(3, 5)))  # fmt: skip


@program
def tensors_are_written_in_place(T):
    x = T.FloatTensor([[1, 2, 3], [4, 5, 6]])
    x[0][1] = 8
    y = T.ByteTensor(2, 4).zero_()
    z = T.zeros(2, 4).scatter_(1, T.LongTensor([[2], [3]]), 1.23)
    x.index_add_(0, T.LongTensor([1, 0]), T.ones(2, 3))
    return x, y, z, x.abs_().sqrt_(), T.FloatTensor([1, 2, 3]).unfold(0, 2, 1)


@program
def models_are_shared_by_processes(T):
    model = T.nn.Linear(2, 2)
    assert model.share_memory() is model
    assert all(p.is_shared() for p in model.parameters())
    queue = T.multiprocessing.get_context("spawn").SimpleQueue()
    queue.put(T.arange(3.0))
    return (queue.get() * 2,)
