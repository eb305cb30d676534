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
        archive: its address, instead of a repository; of what it holds the tests are unpacked.
        folder: where the tests are in the source.
        plugins: of pytest, in this folder, for the run with rushlight.
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
    archive: str = ""
    folder: str = ""
    plugins: tuple = ()
    install: bool = True
    ignore: tuple = ()
    arguments: tuple = ()
    environment: tuple = ()
    sample: int = 80


LIBRARIES = [
    Library("accelerate", "1.15.0"),
    Library("array-api-compat", "1.16.0", repository="data-apis/array-api-compat",
            commit="bbfe8c21dcf99d8f7f65f216b5478b8c9a401850", install=False,
            arguments=("-k", "torch")),
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
    Library("cebra", "0.6.1"),
    Library("compressai", "1.2.8", repository="InterDigitalInc/CompressAI",
            commit="869a9f5d4126d015b7de8f203fe60ee9e1608193", needs=("compressai==1.2.8",),
            install=False),
    Library("cotengra", "0.8.3", needs=("autoray",)),
    Library("curvlinops-for-pytorch", "3.0.1", ("test",), needs=("backpack-for-pytorch",)),
    Library("deepinv", "0.5.0", ("deepinv/tests",)),
    Library("e3nn", "0.6.0"),
    Library("einops", "0.8.2", ("einops/tests",),
            environment=(("EINOPS_TEST_BACKENDS", "numpy,torch"),)),
    Library("ema-pytorch", "0.8.3"),
    Library("entmax", "1.0", ("entmax",)),
    Library("flow-matching", "1.0.10"),
    Library("foolbox", "3.3.4", repository="bethgelab/foolbox",
            commit="2513a9a8675d7017e5266d3b0ed89124cb436ec5", install=False,
            needs=("eagerpy", "GitPython", "requests", "typing-extensions")),
    Library("fvcore", "0.1.6", repository="facebookresearch/fvcore",
            commit="3378afe0d71dc2aa95e358bc78dc9b67cb48825a", install=False,
            needs=("iopath", "yacs", "termcolor", "tabulate", "pyyaml", "tqdm", "Pillow")),
    Library("geoopt", "0.5.1", repository="geoopt/geoopt",
            commit="07598cdbf8751770c4dcd78d509cd678a67ce85b", install=False,
            needs=("pytest-xdist", "anytree"), arguments=("-W", "ignore::DeprecationWarning")),
    Library("gpytorch", "1.15.2", ("test",)),
    Library("grad-cam", "1.5.7"),
    Library("hamiltorch", "0.4.1", repository="AdamCobb/hamiltorch",
            commit="19b627b2aabc77c1b4b78db0f860372eb1bf9778", install=False,
            needs=("termcolor",)),
    Library("higher", "0.2.1", repository="facebookresearch/higher",
            commit="15a247ac06cac0d22601322677daff0dcfff062e", install=False),
    Library("julius", "0.2.8"),
    Library("kornia", "0.8.3", repository="kornia/kornia",
            commit="b4f5a78a13891c7ac4c1cd9695941380273e981d", install=False,
            needs=("kornia-rs", "onnx", "packaging"), sample=200,
            ignore=("tests/models", "tests/x")),
    Library("kymatio", "0.4.0", repository="kymatio/kymatio",
            commit="11552ed5533d566e6c60d77eecccb37dfb229dec", install=False,
            needs=("configparser", "packaging"), arguments=("-k", "torch")),
    Library("laplace-torch", "0.2.2", repository="aleximmer/Laplace",
            commit="44ea62ac1f8cfd6f797f31c75e2cf34414fdddae", install=False,
            needs=("asdfghjkl", "torchmetrics==1.9.0", "backpack-for-pytorch", "opt_einsum",
                   "curvlinops-for-pytorch==3.0.1")),
    Library("lightly", "1.5.26", repository="lightly-ai/lightly",
            commit="e8d317fc5a87f4387a85a35e689869039ec249ee", install=False,
            needs=("hydra-core", "lightly-utils", "aenum", "torchvision"),
            tests=("tests/loss", "tests/models", "tests/transforms", "tests/utils")),
    Library("linear-operator", "0.6.1", ("test",), sample=150),
    Library("monai", "1.5.0", repository="Project-MONAI/MONAI",
            commit="d388d1c6fec8cb3a0eebee5b5a0b9776ca59ca83", install=False, sample=150,
            tests=("tests/losses", "tests/metrics", "tests/networks", "tests/transforms/utility",
                   "tests/transforms/spatial", "tests/transforms/intensity")),
    Library("neuraloperator", "2.0.0", ("neuralop",)),
    Library("neurodiffeq", "0.7.0"),
    Library("nflows", "0.14", needs=("torchtestcase", "UMNN")),
    Library("normflows", "1.7.3", ("normflows",)),
    Library("norse", "1.1.0", ("norse",)),
    Library("opacus", "1.6.0", ("opacus/tests",)),
    Library("open-clip-torch", "3.3.0", needs=("braceexpand", "webdataset")),
    Library("phiml", "1.15.1", ("tests/commit",), repository="tum-pbs/PhiML",
            commit="48a1030af562d5daf1a2f211899c509cda4751be", install=False),
    Library("piq", "0.8.0", repository="photosynthesis-team/piq",
            commit="9948a52fc09ac5f7fb3618ce64b7086f5c3109da", install=False,
            needs=("scikit-image", "libsvm-official", "pybind11")),
    Library("POT", "0.9.7.post1", ("test",), repository="PythonOT/POT",
            commit="aed0120242e86ab29e630fee59593ee99f416d97", sample=250,
            environment=(("PYTHONSAFEPATH", "1"),), arguments=("-k", "torch")),
    Library("poutyne", "1.19.0", needs=("pandas", "tqdm", "torchmetrics")),
    Library("ptwt", "1.0.1"),
    Library("pykeen", "1.11.1"),
    Library("pypose", "0.9.5", repository="pypose/pypose",
            commit="2b684b00857edae2c2a125a58f806ada95dfa72c", install=False),
    Library("pyro-ppl", "1.9.1", repository="pyro-ppl/pyro",
            commit="ff6ae1c9572591791aae8842bcd702fcf0b46fd6", install=False,
            needs=("pyro-ppl==1.9.2",), sample=200,
            tests=("tests/distributions", "tests/poutine", "tests/infer", "tests/ops", "tests/nn",
                   "tests/params", "tests/optim")),
    Library("pytorch-crf", "0.7.2", repository="kmkurn/pytorch-crf",
            commit="623e3402d00a2728e99d6e8486010d67c754267b", install=False),
    Library("pytorch-forecasting", "1.8.0"),
    Library("pytorch-ignite", "0.5.5", ("tests/ignite",), sample=150, needs=("tqdm", "dill"),
            ignore=("tests/ignite/distributed",)),
    Library("pytorch-kinematics", "0.10.0"),
    Library("pytorch-metric-learning", "2.8.1", repository="KevinMusgrave/pytorch-metric-learning",
            commit="216a792c22b0154d3d3bf008a7317edc7d677e71", install=False, needs=("tqdm",)),
    Library("pytorch-toolbelt", "0.8.0"),
    Library("pytorch_optimizer", "4.1.0", sample=200),
    Library("pytorch-warmup", "0.2.0", ("test",)),
    Library("pytorch-wavelets", "1.3.0", needs=("pywavelets", "dtcwt")),
    Library("sbi", "0.27.0"),
    Library("schedulefree", "1.4.1", ("schedulefree",)),
    Library("segmentation-models-pytorch", "0.6.0"),
    Library("skorch", "1.4.0", ("skorch/tests",)),
    Library("sparsemax", "0.1.9"),
    Library("stable-baselines3", "2.9.2"),
    Library("tensordict", "0.14.0", ("test",), repository="pytorch/tensordict",
            commit="a1a061e3dd4b4c892925525a726a72c9eef9a0cc",
            environment=(("PYTHONSAFEPATH", "1"),), needs=("pytest-instafail",),
            ignore=("test/distributed", "test/compile")),
    Library("tensorly-torch", "0.5.0", ("tltorch",), repository="tensorly/torch",
            commit="25c915d554476d62dfc80c91de8e50fcd3d13542", install=False,
            needs=("tensorly", "opt-einsum")),
    Library("thinc", "9.1.1", ("--pyargs", "thinc.tests"), repository="explosion/thinc",
            commit="20eec35566997d5272d083be1f1a0ec9006934ff", needs=("mock", "ml-datasets"),
            environment=(("PYTHONSAFEPATH", "1"),)),
    Library("tensorly", "0.10.0", ("tensorly",)),
    Library("timm", "1.0.31", sample=150),
    Library("tntorch", "1.1.2"),
    Library("torch-geometric", "2.8.0", ("test",), repository="pyg-team/pytorch_geometric",
            commit="5c6461b2305ad068a6d61165b3c55852a11aaa41", install=False, sample=200,
            needs=("torch-geometric==2.8.1", "onnx", "captum")),
    Library("torch-harmonics", "0.8.0"),
    Library("torch-hd", "5.8.4", ("torchhd",)),
    Library("torch-optimizer", "0.3.0"),
    Library("torch-pruning", "1.6.1"),
    Library("torchani", "2.9.0"),
    Library("torchcde", "0.2.5", ("test",), repository="patrick-kidger/torchcde",
            commit="9ff6aba4738989dc5fe3aee86d45812c318f6231", install=False,
            needs=("torchdiffeq", "torchsde")),
    Library("torcheval", "0.0.7", ("tests/metrics",), repository="pytorch/torcheval",
            commit="33c1391efb1f3b493056b068ffd6620c0c6c42db", install=False,
            needs=("typing_extensions", "scikit-image", "torchtnt")),
    Library("torchdiffeq", "0.2.5", ("tests/run_all.py",), repository="rtqichen/torchdiffeq",
            commit="657943acefa826ef04c025ebeb1ff5e9d60dc268", install=False),
    Library("torchinfo", "1.8.0", repository="TylerYep/torchinfo",
            commit="5c4164f1e2e185ce33c597dbe00535bf8ed2b930", install=False,
            ),
    Library("torchio", "0.20.4", repository="fepegar/torchio",
            commit="9051dbcd95f91a4bcdad656a8b20e876d1a71f4a", install=False,
            needs=("SimpleITK", "nibabel", "deprecated", "humanize", "rich", "typer", "tqdm")),
    Library("torchjd", "0.8.1", ("tests/unit",), repository="TorchJD/torchjd",
            commit="46962c2be7788503c151007fa013f761a6238ef2",
            needs=("quadprog", "qpsolvers", "cvxpy", "ecos", "torchvision")),
    Library("torchkbnufft", "1.5.2"),
    Library("torchmetrics", "1.9.0", ("tests/unittests",),
            repository="Lightning-AI/torchmetrics",
            commit="dab033394560ab3ce05e3d14c13f32e4cde6b351", install=False, sample=200,
            needs=("torchmetrics==1.9.0", "cachier", "lightning-utilities"),
            ignore=("tests/unittests/text", "tests/unittests/audio", "tests/unittests/multimodal")),
    Library("torchopt", "0.7.3"),
    Library("torchphysics", "1.1.2", ("tests",)),
    Library("torchquad", "0.6.0"),
    Library("torchsde", "0.2.6"),
    Library("torchtnt", "0.2.4", repository="pytorch/tnt",
            commit="b83990d2e1c32ea78e49f5d464516abc26db1848", install=False,
            needs=("fsspec", "tensorboard", "packaging", "psutil", "pyre-extensions", "tabulate",
                   "tqdm", "pyyaml")),
    Library("vector-quantize-pytorch", "1.31.0", repository="lucidrains/vector-quantize-pytorch",
            commit="0d7d1aa83334b6f2f8a40306bece75cdaa13d065", install=False,
            needs=("einx", "einops", "ema-pytorch", "torch-einops-utils")),
    Library("x-transformers", "2.31.10", repository="lucidrains/x-transformers",
            commit="9252ed7838021ee61e6c5be0930b3a9a88efdf06", install=False,
            needs=("einx", "loguru", "einops", "torch-einops-utils")),
    Library("zennit", "0.5.1"),
    Library("zuko", "1.6.0"),
]  # fmt: skip
