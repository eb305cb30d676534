"""A transformer encoder with a causal mask, trained to continue sequences; perplexity at the end."""

import math
import os
import tempfile
import time

import torch
from torch import Tensor, nn
from torch.nn import TransformerEncoder, TransformerEncoderLayer
from torch.optim.lr_scheduler import LambdaLR


class PositionalEncoding(nn.Module):
    def __init__(self, d_model: int, dropout: float = 0.1, max_len: int = 64):
        super().__init__()
        self.dropout = nn.Dropout(p=dropout)
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(max_len, 1, d_model)
        pe[:, 0, 0::2] = torch.sin(position * div_term)
        pe[:, 0, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(x + self.pe[: x.size(0)])


class LanguageModel(nn.Module):
    def __init__(self, tokens: int, d_model: int, heads: int, d_hid: int, layers: int):
        super().__init__()
        self.d_model = d_model
        self.pos_encoder = PositionalEncoding(d_model, 0.0)
        layer = TransformerEncoderLayer(d_model, heads, d_hid, dropout=0.0)
        self.transformer_encoder = TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.embedding = nn.Embedding(tokens, d_model)
        self.linear = nn.Linear(d_model, tokens)
        self.init_weights()

    def init_weights(self) -> None:
        initrange = 0.1
        self.embedding.weight.data.uniform_(-initrange, initrange)
        self.linear.bias.data.zero_()
        self.linear.weight.data.uniform_(-initrange, initrange)

    def forward(self, src: Tensor, src_mask: Tensor = None) -> Tensor:
        src = self.pos_encoder(self.embedding(src) * math.sqrt(self.d_model))
        if src_mask is None:
            src_mask = nn.Transformer.generate_square_subsequent_mask(len(src))
        return self.linear(self.transformer_encoder(src, src_mask))


def sample(batch, length, tokens):
    """Arithmetic sequences modulo the number of tokens."""
    start = torch.randint(tokens, (1, batch))
    step = torch.randint(1, 4, (1, batch))
    return (start + step * torch.arange(length + 1).unsqueeze(1)) % tokens


def evaluate(model, data):
    model.eval()
    with torch.no_grad():
        output = model(data[:-1])
        return nn.functional.cross_entropy(output[2:].flatten(0, 1), data[3:].flatten()).item()


torch.manual_seed(0)
tokens = 12
model = LanguageModel(tokens, 32, 4, 64, 2)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, betas=(0.9, 0.98), weight_decay=0.01)
scheduler = LambdaLR(optimizer, lambda step: min((step + 1) / 10, 1.0))
test_data = sample(64, 16, tokens)
best_loss, start = float("inf"), time.time()
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "best_model_params.pt")
    for step in range(120):
        model.train()
        data = sample(32, 16, tokens)
        output = model(data[:-1])
        loss = criterion(output.view(-1, tokens), data[1:].reshape(-1))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        scheduler.step()
        if step % 40 == 39:
            val_loss = evaluate(model, test_data)
            print(
                f"step {step + 1:3d} | lr {scheduler.get_last_lr()[0]:.4f} | loss {loss.item():.2f}"
            )
            if val_loss < best_loss:
                best_loss = val_loss
                torch.save(model.state_dict(), path)
    model.load_state_dict(torch.load(path, weights_only=True))
assert abs(evaluate(model, test_data) - best_loss) < 1e-5
assert math.exp(best_loss) < 3, math.exp(best_loss)
assert time.time() > start
