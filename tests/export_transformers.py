# ruff: noqa: E402, I001
"""Ten models of transformers as programs in files: prints the name of each that loses no bit.

python export_transformers.py RUSHLIGHT_RUN FOLDER
"""

import subprocess
import sys
from pathlib import Path

import rushlight

rushlight.as_torch()

import numpy as np
import torch
import transformers as t
from rushlight.export import export, load, save

run, folder = sys.argv[1], Path(sys.argv[2])
tokens = torch.randint(3, 90, (1, 7))
image = torch.randn(1, 3, 32, 32)
small = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64)
words = dict(vocab_size=90, **small)
MODELS = {
    "gpt2": (
        t.GPT2LMHeadModel,
        t.GPT2Config(
            vocab_size=90, n_positions=32, n_embd=32, n_layer=2, n_head=2, use_cache=False
        ),
        tokens,
    ),
    "bert": (t.BertModel, t.BertConfig(**words), tokens),
    "llama": (t.LlamaForCausalLM, t.LlamaConfig(**words, use_cache=False), tokens),
    "vit": (t.ViTModel, t.ViTConfig(**small, image_size=32, patch_size=8), image),
    "t5": (
        t.T5EncoderModel,
        t.T5Config(vocab_size=90, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=2),
        tokens,
    ),
    "resnet": (
        t.ResNetForImageClassification,
        t.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic"),
        image,
    ),
    "distilbert": (
        t.DistilBertModel,
        t.DistilBertConfig(vocab_size=90, dim=32, n_layers=2, n_heads=2, hidden_dim=64),
        tokens,
    ),
    "mobilenet": (
        t.MobileNetV2Model,
        t.MobileNetV2Config(image_size=32, depth_multiplier=0.35),
        image,
    ),
    "convnext": (
        t.ConvNextModel,
        t.ConvNextConfig(hidden_sizes=[8, 16, 32, 64], depths=[1, 1, 1, 1]),
        torch.randn(1, 3, 64, 64),
    ),
    "albert": (t.AlbertModel, t.AlbertConfig(**words, embedding_size=16), tokens),
}


class First(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x, return_dict=False)[0]


for name, (make, config, x) in MODELS.items():
    net = First(make(config).eval())
    want = net(x).detach().contiguous().numpy().tobytes()
    save(export(net, (x,)), folder / "model.rl")
    assert load(folder / "model.rl").module()(x).detach().contiguous().numpy().tobytes() == want
    np.save(folder / "x.npy", x.numpy())
    subprocess.run(
        [run, folder / "model.rl", "--input", folder / "x.npy", "--output", folder / "y.npy"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    assert np.load(folder / "y.npy").tobytes() == want
    print(name, flush=True)
