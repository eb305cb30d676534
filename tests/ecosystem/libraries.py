"""The libraries whose suites are run: data alone.

A suite comes with the source that the index has; where that is without tests, from the repository.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Library:
    """A library, and how its suite is run.

    Args:
        tests: what pytest gets, relative to the source's folder.
        needs: what the suite imports beside the library and its requirements.
        repository, commit: where the source comes from if not from the index.
        install: False where the tests run in the source's folder without an installation.
        ignore: files that are left out, as they need a network, a GPU or an hour.
        arguments: further arguments for pytest.
        environment: pairs of names and values.
        sample: how many tests are run; 0 is all.
    """

    name: str
    version: str
    tests: tuple = ("tests",)
    needs: tuple = ()
    repository: str = ""
    commit: str = ""
    install: bool = True
    ignore: tuple = ()
    arguments: tuple = ()
    environment: tuple = ()
    sample: int = 80


LIBRARIES = [
    Library("accelerate", "1.15.0"),
    Library("autoray", "0.11.0"),
    Library("backpack-for-pytorch", "1.7.1", ("test",), needs=("pytorch-memlab",)),
    Library("benchmark_VAE", "0.1.2", repository="clementchadebec/benchmark_VAE",
            commit="6419e21558f2a6abc2da99944bddda846ded30f4", install=False,
            needs=("cloudpickle", "imageio", "typing_extensions", "tqdm", "pydantic")),
    Library("botorch", "0.15.1", ("test",), repository="pytorch/botorch",
            commit="e390e135c5327f832275d69ac485d7844e68e234", install=False,
            needs=("gpytorch==1.15.2", "pyre-extensions", "multipledispatch", "pyro-ppl==1.9.2")),
    Library("captum", "0.8.0", repository="pytorch/captum",
            commit="faac08773131888714b15709b28494ebeea7f6eb", install=False,
            needs=("matplotlib", "tqdm")),
    Library("cotengra", "0.8.3", needs=("autoray",)),
    Library("curvlinops-for-pytorch", "3.0.1", ("test",), needs=("backpack-for-pytorch",)),
    Library("deepinv", "0.5.0", ("deepinv/tests",)),
    Library("e3nn", "0.6.0"),
    Library("einops", "0.8.2", ("einops/tests",),
            environment=(("EINOPS_TEST_BACKENDS", "numpy,torch"),)),
    Library("entmax", "1.0", ("entmax",)),
    Library("flow-matching", "1.0.10"),
    Library("geoopt", "0.5.1", repository="geoopt/geoopt",
            commit="07598cdbf8751770c4dcd78d509cd678a67ce85b", install=False,
            needs=("pytest-xdist", "anytree"), arguments=("-W", "ignore::DeprecationWarning")),
    Library("gpytorch", "1.15.2", ("test",)),
    Library("grad-cam", "1.5.7"),
    Library("higher", "0.2.1", repository="facebookresearch/higher",
            commit="15a247ac06cac0d22601322677daff0dcfff062e", install=False),
    Library("julius", "0.2.8"),
    Library("kornia", "0.8.3", repository="kornia/kornia",
            commit="b4f5a78a13891c7ac4c1cd9695941380273e981d", install=False,
            needs=("kornia-rs", "onnx", "packaging"), sample=200,
            ignore=("tests/models", "tests/x")),
    Library("linear-operator", "0.6.1", ("test",), sample=150),
    Library("monai", "1.5.0", repository="Project-MONAI/MONAI",
            commit="d388d1c6fec8cb3a0eebee5b5a0b9776ca59ca83", install=False, sample=150,
            tests=("tests/losses", "tests/metrics", "tests/networks", "tests/transforms/utility",
                   "tests/transforms/spatial", "tests/transforms/intensity")),
    Library("neuraloperator", "2.0.0", ("neuralop",)),
    Library("norse", "1.1.0", ("norse",)),
    Library("normflows", "1.7.3", ("normflows",)),
    Library("opacus", "1.6.0", ("opacus/tests",)),
    Library("open-clip-torch", "3.3.0", needs=("braceexpand", "webdataset")),
    Library("ptwt", "1.0.1"),
    Library("pykeen", "1.11.1"),
    Library("pypose", "0.9.5", repository="pypose/pypose",
            commit="2b684b00857edae2c2a125a58f806ada95dfa72c", install=False),
    Library("pyro-ppl", "1.9.1", repository="pyro-ppl/pyro",
            commit="ff6ae1c9572591791aae8842bcd702fcf0b46fd6", install=False,
            needs=("pyro-ppl==1.9.2",), sample=200,
            tests=("tests/distributions", "tests/poutine", "tests/infer", "tests/ops", "tests/nn",
                   "tests/params", "tests/optim")),
    Library("pytorch-ignite", "0.5.5", ("tests/ignite",), sample=150, needs=("tqdm", "dill"),
            ignore=("tests/ignite/distributed",)),
    Library("pytorch-metric-learning", "2.8.1", repository="KevinMusgrave/pytorch-metric-learning",
            commit="216a792c22b0154d3d3bf008a7317edc7d677e71", install=False, needs=("tqdm",)),
    Library("pytorch-warmup", "0.2.0", ("test",)),
    Library("pytorch_optimizer", "4.1.0", sample=200),
    Library("sbi", "0.27.0"),
    Library("segmentation-models-pytorch", "0.6.0"),
    Library("skorch", "1.4.0", ("skorch/tests",)),
    Library("stable-baselines3", "2.9.2"),
    Library("tensorly", "0.10.0", ("tensorly",)),
    Library("timm", "1.0.31", sample=150),
    Library("tntorch", "1.1.2"),
    Library("torch-geometric", "2.8.0", ("test",), repository="pyg-team/pytorch_geometric",
            commit="5c6461b2305ad068a6d61165b3c55852a11aaa41", install=False, sample=200,
            needs=("torch-geometric==2.8.1", "onnx", "captum")),
    Library("torch-harmonics", "0.8.0"),
    Library("torch-hd", "5.8.4", ("torchhd",)),
    Library("torch-optimizer", "0.3.0"),
    Library("torchani", "2.9.0"),
    Library("torchcde", "0.2.5", ("test",), repository="patrick-kidger/torchcde",
            commit="9ff6aba4738989dc5fe3aee86d45812c318f6231", install=False,
            needs=("torchdiffeq", "torchsde")),
    Library("torchdiffeq", "0.2.5", ("tests/run_all.py",), repository="rtqichen/torchdiffeq",
            commit="657943acefa826ef04c025ebeb1ff5e9d60dc268", install=False),
    Library("torchinfo", "1.8.0", repository="TylerYep/torchinfo",
            commit="5c4164f1e2e185ce33c597dbe00535bf8ed2b930", install=False,
            ),
    Library("torchmetrics", "1.9.0", ("tests/unittests",),
            repository="Lightning-AI/torchmetrics",
            commit="dab033394560ab3ce05e3d14c13f32e4cde6b351", install=False, sample=200,
            needs=("torchmetrics==1.9.0", "cachier", "lightning-utilities"),
            ignore=("tests/unittests/text", "tests/unittests/audio", "tests/unittests/multimodal")),
    Library("torchopt", "0.7.3"),
    Library("torchsde", "0.2.6"),
    Library("zennit", "0.5.1"),
    Library("zuko", "1.6.0"),
]  # fmt: skip
