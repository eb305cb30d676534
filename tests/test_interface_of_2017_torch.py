"""What documentation of torch 0.3 calls, in its forms: it works, warns or raises as torch does."""

import warnings

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.torch

CALLS = """
T.addmm(0.5, T.ones(2,2), 2, T.ones(2,2), T.ones(2,2))
T.addmm(0.5, T.ones(2,2), T.ones(2,2), T.ones(2,2))
T.ones(2,2).addmm(0.5, 2, T.ones(2,2), T.ones(2,2))
T.ones(2,2).addmm_(0.5, 2, T.ones(2,2), T.ones(2,2))
T.ones(2,2).addmm(0.5, T.ones(2,2), T.ones(2,2))
T.addmv(0.5, T.ones(2), 2, T.ones(2,2), T.ones(2))
T.addmv(0.5, T.ones(2), T.ones(2,2), T.ones(2))
T.ones(2).addmv(0.5, 2, T.ones(2,2), T.ones(2))
T.ones(2).addmv_(0.5, T.ones(2,2), T.ones(2))
T.addr(0.5, T.ones(2,2), 2, T.ones(2), T.ones(2))
T.ones(2,2).addr(0.5, 2, T.ones(2), T.ones(2))
T.ones(2,2).addr_(0.5, T.ones(2), T.ones(2))
T.addbmm(0.5, T.ones(2,2), 2, T.ones(3,2,2), T.ones(3,2,2))
T.ones(2,2).addbmm(0.5, 2, T.ones(3,2,2), T.ones(3,2,2))
T.baddbmm(0.5, T.ones(3,2,2), 2, T.ones(3,2,2), T.ones(3,2,2))
T.ones(3,2,2).baddbmm(0.5, T.ones(3,2,2), T.ones(3,2,2))
T.add(T.ones(2), 2, T.ones(2))
T.ones(2).add(2, T.ones(2))
T.ones(2).add_(2, T.ones(2))
T.sub(T.ones(2), 2, T.ones(2))
T.ones(2).sub(2, T.ones(2))
T.ones(2).sub_(2, T.ones(2))
T.addcmul(T.ones(2), 0.5, T.ones(2), T.ones(2))
T.ones(2).addcmul(0.5, T.ones(2), T.ones(2))
T.ones(2).addcmul_(0.5, T.ones(2), T.ones(2))
T.addcdiv(T.ones(2), 0.5, T.ones(2), T.ones(2))
T.ones(2).addcdiv(0.5, T.ones(2), T.ones(2))
T.ones(2).addcdiv_(0.5, T.ones(2), T.ones(2))
T.add(T.ones(2), 20)
T.add(T.ones(2), value=20)
T.mul(T.ones(2), 100)
T.div(T.ones(2), 0.5)
T.clamp(T.randn(4), min=-0.5, max=0.5)
T.clamp(T.randn(4), min=0.5)
T.lerp(T.ones(2), T.zeros(2), 0.5)
T.fmod(T.Tensor([-3,-2,2]), 2)
T.remainder(T.Tensor([-3,-2,2]), 2)
T.pow(2, T.arange(1,5))
T.pow(T.arange(1,5), 2)
T.cumprod(T.randn(5), dim=0)
T.dist(T.randn(4), T.randn(4), 3.5)
T.norm(T.randn(3,4), 2, 1)
T.prod(T.randn(2,3), 1, True)
T.renorm(T.ones(3,3), 1, 0, 5)
T.sum(T.randn(2,3), 1)
T.std(T.randn(2,3), dim=1)
T.var(T.randn(2,3), 1)
T.mode(T.randn(2,3), 1)
T.median(T.randn(2,3), 1)
T.eq(T.Tensor([[1,2]]), T.Tensor([[1,1]]))
T.equal(T.Tensor([1,2]), T.Tensor([1,2]))
T.kthvalue(T.arange(1,6), 4)
T.topk(T.arange(1,6), 3, largest=False)
T.sort(T.randn(3,4), 0)
T.cross(T.randn(4,3), T.randn(4,3))
T.histc(T.FloatTensor([1,2,1]), bins=4, min=0, max=3)
T.trace(T.arange(1,10).view(3,3))
T.tril(T.randn(3,3))
T.btrifact(T.randn(2,3,3))
T.btrisolve(T.randn(2,3), *T.lu(T.randn(2,3,3))[:2])
T.potrf(T.eye(3))
T.potri(T.eye(3))
T.potrs(T.ones(3,1), T.eye(3))
T.pstrf(T.eye(3))
T.gels(T.randn(3,1), T.randn(3,2))
T.gesv(T.randn(3,1), T.eye(3))
T.geqrf(T.randn(3,3))
T.ger(T.ones(2), T.ones(3))
T.inverse(T.eye(3))
T.svd(T.randn(3,3))
T.symeig(T.eye(3), eigenvectors=True)
T.eig(T.eye(3))
T.trtrs(T.randn(3,1), T.eye(3))
T.orgqr(T.randn(3,3), T.randn(3))
T.matmul(T.randn(3,4), T.randn(4))
T.mm(T.randn(2,3), T.randn(3,3))
T.bmm(T.randn(2,3,4), T.randn(2,4,5))
T.dot(T.Tensor([2,3]), T.Tensor([2,1]))
T.linspace(3, 10, steps=5)
T.logspace(start=-10, end=10, steps=5)
T.multinomial(T.Tensor([0,10,3,0]), 4, replacement=True)
T.normal(means=T.arange(1., 11), std=T.arange(1., 11))
T.normal(mean=0.5, std=T.arange(1., 6))
T.bernoulli(T.ones(3,3) * 0.5)
T.randperm(4)
T.rand(2, 3, out=T.Tensor())
T.from_numpy(np.array([1,2,3]))
T.split(T.randn(4,2), 2, dim=0)
T.squeeze(T.zeros(2,1,2), 1)
T.stack([T.ones(2), T.ones(2)], dim=0)
T.t(T.randn(2,3))
T.take(T.Tensor([[4,3,5],[6,7,8]]), T.LongTensor([0,2,5]))
T.unbind(T.randn(2,3), 0)
T.cat((T.randn(2,3), T.randn(2,3)), 0)
T.chunk(T.randn(4,2), 2, 0)
T.gather(T.Tensor([[1,2],[3,4]]), 1, T.LongTensor([[0,0],[1,0]]))
T.index_select(T.randn(3,4), 0, T.LongTensor([0,2]))
T.masked_select(T.randn(3,4), T.randn(3,4).ge(0.5))
T.nonzero(T.Tensor([1,1,1,0,1]))
T.is_tensor(T.ones(2))
T.numel(T.randn(1,2,3))
T.get_rng_state()
T.initial_seed()
T.manual_seed(0)
T.get_num_threads()
T.Tensor(2,3).fill_(1)
T.FloatTensor([[1,2,3],[4,5,6]])
T.IntTensor(2,4).zero_()
T.ByteTensor([0,1])
T.DoubleTensor(2,2).uniform_()
T.ones(2).new(3,4).fill_(0)
T.ones(2).new([1.0, 2.0])
T.ones(2,3).size()
T.ones(2,3).type()
T.ones(2,3).type('torch.DoubleTensor')
T.ones(2).type(T.IntTensor)
T.ones(2).type_as(T.DoubleTensor(2))
T.ones(2).apply_(lambda v: v + 1)
T.ones(2).map_(T.ones(2), lambda a, b: a + b)
T.ones(2).map2_(T.ones(2), T.ones(2), lambda a, b, c: a + b + c)
T.ones(2).cauchy_()
T.ones(2).geometric_(0.5)
T.ones(2).log_normal_()
T.ones(2).exponential_()
T.ones(2).normal_(0, 1)
T.ones(3).random_(0, 10)
T.ones(3).bernoulli_(0.5)
T.ones(5,3).index_add_(0, T.LongTensor([0,2]), T.ones(2,3))
T.ones(5,3).index_copy_(0, T.LongTensor([0,2]), T.zeros(2,3))
T.ones(5,3).index_fill_(1, T.LongTensor([0,2]), -1)
T.ones(3).masked_fill_(T.ByteTensor([0,1,0]), 5)
T.ones(3).masked_scatter_(T.ByteTensor([0,1,0]), T.zeros(3))
T.zeros(2,4).scatter_(1, T.LongTensor([[2],[3]]), 1.23)
T.zeros(2,4).scatter_add_(1, T.LongTensor([[2],[3]]), T.ones(2,4))
T.ones(2,3).expand(2,3)
T.Tensor([[1],[2],[3]]).expand(3,4)
T.Tensor([1,2,3]).repeat(4,2)
T.ones(2,3).resize_(3,2)
T.ones(2,3).resize_as_(T.ones(3,2))
T.ones(6).unfold(0, 2, 1)
T.ones(2,3).permute(1,0)
T.ones(2,3).transpose(0,1)
T.ones(2,3).narrow(0,0,1)
T.ones(2,3).select(0,1)
T.ones(2).is_cuda
T.ones(2).pin_memory
T.ones(2).share_memory_().is_shared()
T.ones(2).is_contiguous()
T.ones(2).stride()
T.ones(2).storage_offset()
T.ones(2).element_size()
T.ones(2).data_ptr() > 0
T.ones(2).tolist()
T.ones(2).numpy()
T.ones(2).dim()
T.ones(2).ndimension()
T.ones(2).nelement()
T.ones(2).byte()
T.ones(2).char()
T.ones(2).short()
T.ones(2).int()
T.ones(2).long()
T.ones(2).half()
T.ones(2).put_(T.LongTensor([0]), T.Tensor([5]))
T.ones(2,2).diag()
T.ones(2).cinv
T.Tensor([1,2]).frac()
T.Tensor([1.5]).trunc()
T.Tensor([1.5]).sign()
T.Tensor([1.5]).rsqrt()
T.ones(2).copy_(T.zeros(2), True)
T.ones(2).copy_(T.zeros(2), broadcast=False)
T.autograd.Variable(T.ones(2), requires_grad=True).data[0]
T.autograd.Variable(T.ones(2,2), requires_grad=True).mean().backward()
T.autograd.grad(*(lambda x: [(x*x).sum(), x])(T.autograd.Variable(T.ones(2), requires_grad=True)))
T.autograd.backward([(T.autograd.Variable(T.ones(2), requires_grad=True)*2)], [T.ones(2)])
T.nn.Parameter(T.ones(2), requires_grad=False)
T.nn.Linear(20,30)(T.autograd.Variable(T.randn(4,20)))
T.nn.functional.conv2d(T.ones(1,4,5,5), T.ones(8,4,3,3), padding=1)
T.nn.functional.softmax(T.randn(2,3))
T.nn.functional.log_softmax(T.randn(2,3), dim=1)
T.nn.functional.cross_entropy(T.randn(3,5), T.LongTensor([1,0,4]), size_average=False)
T.nn.functional.nll_loss(T.randn(3,5), T.LongTensor([1,0,4]), None, True, -100, True)
T.nn.functional.binary_cross_entropy_with_logits(T.randn(3), T.rand(3), None, True)
T.nn.functional.mse_loss(T.randn(3), T.rand(3), size_average=True, reduce=True)
T.nn.functional.dropout(T.randn(3), 0.5, False, False)
T.nn.functional.tanh(T.randn(3))
T.nn.functional.sigmoid(T.randn(3))
T.nn.functional.upsample(T.randn(1,1,2,2), scale_factor=2, mode='nearest')
T.nn.functional.grid_sample(T.randn(1,1,2,2), T.zeros(1,2,2,2), padding_mode='zeros')
T.nn.functional.affine_grid(T.randn(1,2,3), T.Size([1,1,2,2]))
T.nn.functional.pairwise_distance(T.randn(3,5), T.randn(3,5), p=2, eps=1e-6)
T.nn.functional.linear(T.randn(3,5), T.randn(2,5), bias=None)
T.nn.functional.lp_pool2d(T.randn(1,2,4,4), 2, 2, stride=None, ceil_mode=False)
T.nn.functional.embedding(T.LongTensor([1]), T.randn(3,2))
T.nn.functional.embedding_bag(T.randn(3,2), T.LongTensor([1,2]), T.LongTensor([0]))
T.nn.init.uniform(T.empty(2))
T.nn.init.xavier_normal(T.empty(2,2))
T.nn.init.constant(T.empty(2), 0.3)
T.nn.init.eye(T.empty(2,2))
T.nn.init.dirac(T.empty(2,2,3))
T.nn.init.kaiming_uniform(T.empty(2,2))
T.nn.init.orthogonal(T.empty(2,2))
T.nn.init.sparse(T.empty(2,2), 0.5)
T.nn.init.normal(T.empty(2))
T.nn.utils.clip_grad_norm(T.nn.Linear(2,2).parameters(), 1, norm_type=2)
T.nn.utils.rnn.pack_padded_sequence(T.randn(3,2,4), [3,2])
T.nn.utils.rnn.pad_packed_sequence(T.nn.utils.rnn.pack_padded_sequence(T.randn(3,2,4), [3,2]))
T.nn.utils.weight_norm(T.nn.Linear(2,2), name='weight')
T.nn.utils.remove_weight_norm(T.nn.utils.weight_norm(T.nn.Linear(2,2)))
T.nn.utils.parameters_to_vector(T.nn.Linear(2,2).parameters())
T.nn.CrossEntropyLoss(None, size_average=True, reduce=True)(T.randn(3,5), T.LongTensor([1,0,4]))
T.nn.MSELoss(size_average=False)(T.randn(3), T.randn(3))
T.nn.NLLLoss2d()(T.randn(1,4,3,3), T.zeros(1,3,3).long())
T.nn.Softmax2d()(T.randn(1,4,3,3))
T.nn.Dropout2d()(T.randn(1,4,3,3))
T.nn.Upsample(scale_factor=2, mode='bilinear')(T.randn(1,1,2,2))
T.nn.UpsamplingBilinear2d(scale_factor=2)(T.randn(1,1,2,2))
T.nn.LSTM(10, 20, 2)(T.randn(5,3,10), (T.randn(2,3,20), T.randn(2,3,20)))
T.nn.GRUCell(10,20)(T.randn(3,10), T.randn(3,20))
T.nn.DataParallel(T.nn.Linear(2,2))(T.randn(3,2))
T.nn.Module().volatile
T.nn.ModuleList([T.nn.Linear(2,2)]).append(T.nn.Linear(2,2))
T.nn.ParameterList([T.nn.Parameter(T.ones(2))])
T.nn.Sequential(T.nn.Linear(2,2)).cuda
T.nn.Linear(2,2).double().float().half().type(T.FloatTensor)
T.optim.SGD(T.nn.Linear(2,2).parameters(), lr=0.1, momentum=0.9, dampening=0, nesterov=False)
T.optim.Adam([{'params': T.nn.Linear(2,2).parameters()}], lr=0.001, betas=(0.9,0.999), eps=1e-8)
T.optim.lr_scheduler.ReduceLROnPlateau(T.optim.SGD([T.nn.Parameter(T.ones(2))], 0.1), 'min')
T.optim.lr_scheduler.LambdaLR(T.optim.SGD([T.nn.Parameter(T.ones(2))], 0.1), [lambda e: 0.9**e])
T.optim.lr_scheduler.CosineAnnealingLR(T.optim.SGD([T.nn.Parameter(T.ones(2))], 0.1), 10)
list(T.utils.data.DataLoader(T.utils.data.TensorDataset(T.ones(4,2), T.ones(4)), 2, shuffle=True))
T.utils.data.ConcatDataset([T.utils.data.TensorDataset(T.ones(4,2), T.ones(4))])
list(T.utils.data.sampler.WeightedRandomSampler([0.1,0.9], 2, replacement=True))
list(T.utils.data.sampler.SubsetRandomSampler([0,1]))
T.utils.data.sampler.SequentialSampler([1,2])
T.utils.data.sampler.RandomSampler([1,2])
T.utils.data.distributed.DistributedSampler([1,2,3], num_replicas=1, rank=0)
T.distributions.Bernoulli(T.Tensor([0.3])).sample()
T.distributions.Categorical(T.Tensor([0.25]*4)).log_prob(T.LongTensor([1]))
T.distributions.Normal(T.Tensor([0.0]), T.Tensor([1.0])).sample()
T.distributions.Categorical(probs=T.Tensor([0.25]*4)).sample_n(3)
T.multiprocessing.get_all_sharing_strategies()
T.sparse.FloatTensor(T.LongTensor([[0,1],[2,0]]), T.FloatTensor([3,4]), T.Size([2,3])).to_dense()
T.sparse.FloatTensor(2,3)._nnz()
T.sparse.FloatTensor(T.LongTensor([[0,1],[2,0]]), T.FloatTensor([3,4]), T.Size([2,3]))._indices()
T.hsmm
T.cuda.is_available()
T.cuda.device_count()
T.autograd.Variable(T.randn(2)).creator
T.autograd.Variable(T.randn(2), requires_grad=True).register_hook(lambda g: g * 2)
T.autograd.Variable(T.randn(2), requires_grad=True).mul(2).reinforce(T.ones(2))
T.autograd.Variable(T.ones(2)).detach_()
T.ones(2,3).sum(1, True)
T.ones(2,3).mean(0, keepdim=True)
T.ones(2,3).max(1)
T.ones(2,3).norm(2, 1)
T.ones(2).lt_(2)
T.ones(2).eq_(1)
T.utils.ffi
T.onnx.export
T.legacy
T.utils.backcompat.broadcast_warning.enabled
T.utils.backcompat.keepdim_warning.enabled
""".strip().splitlines()

# Their numbers are random, or chosen by the library.
DRAWN = ("cauchy_", "geometric_", "log_normal_", "svd", "Dropout", "DataLoader", "eig")

PROGRAMS = {
    "old function": """
class Double(T.autograd.Function):
    def forward(self, x):
        self.save_for_backward(x)
        return x * 2

    def backward(self, grad):
        return grad * 2

result = Double()(T.ones(2))
""",
    "new function": """
class Scale(T.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        ctx.save_for_backward(x)
        return x * factor

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_variables if hasattr(ctx, "saved_variables") else ctx.saved_tensors
        return grad * ctx.factor, None

x = T.autograd.Variable(T.ones(2), requires_grad=True)
Scale.apply(x, 3).sum().backward()
result = x.grad.data
""",
    "recurrent step": """
from_library = T.autograd.Variable
x, hidden = from_library(T.ones(1, 10)), from_library(T.ones(1, 20))
of_hidden, of_x = T.nn.Parameter(T.ones(20, 20) / 50), T.nn.Parameter(T.ones(20, 10) / 50)
total = T.matmul(of_x, x.t()) + T.matmul(of_hidden, hidden.t())
total.tanh().sum().backward()
result = of_x.grad
""",
    "gradient of a gradient": """
x = T.autograd.Variable(T.ones(3), requires_grad=True)
(first,) = T.autograd.grad((x ** 3).sum(), x, create_graph=True)
(result,) = T.autograd.grad(first.sum(), x)
""",
    "change in place of what is saved": """
x = T.autograd.Variable(T.ones(3), requires_grad=True)
y = x.tanh()
y.add_(3)
y.sum().backward()
""",
    "layer of one's own": """
class Layer(T.nn.Module):
    def __init__(self, n, m):
        super().__init__()
        self.w = T.nn.Parameter(T.ones(n, m) / n)
        self.b = T.nn.Parameter(T.ones(m))

    def forward(self, x):
        return T.mm(x, self.w) + self.b

model = T.nn.Sequential(Layer(4, 3), T.nn.ReLU(), Layer(3, 2))
result = T.nn.functional.softmax(model(T.ones(2, 4)))
""",
    "two networks against each other": """
T.manual_seed(0)
judge, maker = T.nn.Linear(2, 1), T.nn.Linear(3, 2)
with T.no_grad():
    for p in [*judge.parameters(), *maker.parameters()]:
        p.fill_(0.3)
of_judge = T.optim.Adam(judge.parameters(), lr=0.1)
of_maker = T.optim.Adam(maker.parameters(), lr=0.1)
loss = T.nn.BCEWithLogitsLoss()
for _ in range(3):
    judge.zero_grad()
    loss(judge(T.ones(4, 2)), T.ones(4, 1)).backward()
    made = maker(T.ones(4, 3))
    loss(judge(made.detach()), T.zeros(4, 1)).backward()
    of_judge.step()
    maker.zero_grad()
    loss(judge(made), T.ones(4, 1)).backward()
    of_maker.step()
result = [maker.weight.data, judge.weight.data]
""",
    "backward with options": """
x = T.autograd.Variable(T.ones(2, 2), requires_grad=True)
y = x * x
y.backward(T.ones(2, 2), retain_graph=True)
y.backward(T.ones(2, 2))
result = x.grad.data
""",
    "second backward": """
x = T.autograd.Variable(T.ones(2, 2), requires_grad=True)
y = (x * x).sum()
y.backward()
y.backward()
""",
    "training": """
model = T.nn.Linear(3, 1)
with T.no_grad():
    model.weight.fill_(0.5), model.bias.fill_(0.1)
optimizer = T.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
criterion = T.nn.MSELoss(size_average=False)
for _ in range(4):
    optimizer.zero_grad()
    loss = criterion(model(T.autograd.Variable(T.ones(2, 3))), T.autograd.Variable(T.zeros(2, 1)))
    loss.backward()
    optimizer.step()
result = loss.data[0] if loss.dim() else loss.data
""",
    "item of a number by index": "result = T.ones(2).sum().data[0]",
    "switches": """
T.utils.backcompat.broadcast_warning.enabled = False
result = T.utils.backcompat.keepdim_warning.enabled
""",
}


def shown(value):
    if isinstance(value, (tuple, list)):
        return [shown(part) for part in value]
    if hasattr(value, "detach") and hasattr(value, "to_dense"):
        value = value.data if hasattr(value, "batch_sizes") else value.detach().to_dense()
        if value.is_floating_point():
            return np.round(value.double().numpy(), 5).tolist()
        return value.tolist()
    return value if isinstance(value, (bool, int, float, str)) else None


def outcome(library, program):
    library.manual_seed(0)
    scope = {"T": library, "np": np, "result": None}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            exec(program, scope)
        except Exception as error:
            return type(error).__name__, None, []
    result = None if any(name in program for name in DRAWN) else shown(scope["result"])
    return "done", result, sorted({one.category.__name__ for one in caught})


@pytest.fixture(autouse=True)
def always():
    torch._C._set_warnAlways(True)
    rl.set_warn_always(True)
    yield
    torch._C._set_warnAlways(False)
    rl.set_warn_always(False)


@pytest.mark.parametrize("call", CALLS)
def test_calls(call):
    assert outcome(rl, f"result = {call}") == outcome(torch, f"result = {call}")


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    assert outcome(rl, PROGRAMS[name]) == outcome(torch, PROGRAMS[name])
