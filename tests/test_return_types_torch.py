"""The types of results of several tensors, beside torch's: plain tuples, or named ones."""

import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

CALLS = """
std_mean(x) var_mean(x) std_mean(x,0) var_mean(x,unbiased=False) aminmax(x) max(x,0) min(x,0)
median(x,0) nanmedian(x,0) mode(x) kthvalue(x,1) sort(x) topk(x,2) cummax(x,0) cummin(x,0) frexp(x)
geqrf(x) qr(x) svd(x) slogdet(x) histogram(x,3) histogramdd(x,(2,2,2,2)) linalg.qr(x) linalg.svd(x)
linalg.slogdet(x) linalg.eig(x) linalg.eigh(x) linalg.lstsq(x,x) linalg.lu(x) linalg.lu_factor(x)
linalg.lu_factor_ex(x) linalg.ldl_factor(x) linalg.ldl_factor_ex(x) linalg.cholesky_ex(x)
linalg.inv_ex(x) linalg.solve_ex(x,x) lu(x) lu(x,get_infos=True) triangular_solve(x,x)
svd_lowrank(x) unique(x,return_inverse=True) unique_consecutive(x,return_inverse=True)
max_pool1d_with_indices(x,2) nn.functional.max_pool1d(x,2,return_indices=True)
nn.functional.max_pool2d(x[None],2,return_indices=True)
nn.functional.adaptive_max_pool2d(x[None],2,return_indices=True) split(x,2) chunk(x,2) unbind(x)
tensor_split(x,2) hsplit(x,2) meshgrid(x[0],x[0],indexing="ij") broadcast_tensors(x,x) where(x>3)
nonzero(x,as_tuple=True) gradient(x) atleast_1d(x,x) unsafe_chunk(x,2) split_with_sizes(x,[1,3])
autograd.forward_ad.unpack_dual(x)
""".split()


def fields(result):
    names = [n for n in dir(result) if not n.startswith("_")]
    return [n for n in names if n not in ("count", "index") and not n.startswith("n_")]


@pytest.mark.parametrize("call", CALLS)
def test_types_of_results(call):
    types = []
    for lib in (torch, rl):
        x = lib.arange(16.0).view(4, 4) + lib.eye(4) * 9
        result = eval("lib." + call, {"lib": lib, "x": x})
        home = type(result).__module__.replace("rushlight", "torch")
        shown = repr(result).partition("(")[0] if home == "torch.return_types" else None
        types.append((type(result).__name__, home, fields(result), len(result), shown))
    assert types[0] == types[1]
