"""The settings of a longer training script: autocast, checkpointing, compile, EMA, worker processes."""

import contextlib
import math
import os
import sys
from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.allow_tf32 = True
torch.set_float32_matmul_precision("high")


@dataclass
class Config:
    block_size: int = 16
    vocab_size: int = 16
    n_layer: int = 2
    n_head: int = 2
    n_embd: int = 32
    bias: bool = False


class LayerNorm(nn.Module):
    def __init__(self, ndim, bias):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(ndim))
        self.bias = nn.Parameter(torch.zeros(ndim)) if bias else None

    def forward(self, input):
        return F.layer_norm(input, self.weight.shape, self.weight, self.bias, 1e-5)


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln_1 = LayerNorm(config.n_embd, config.bias)
        self.attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)
        self.proj = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)
        self.ln_2 = LayerNorm(config.n_embd, config.bias)
        self.mlp = nn.ModuleDict(
            dict(
                c_fc=nn.Linear(config.n_embd, 4 * config.n_embd, bias=config.bias),
                gelu=nn.GELU(),
                c_proj=nn.Linear(4 * config.n_embd, config.n_embd, bias=config.bias),
            )
        )
        self.n_head = config.n_head

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.attn(self.ln_1(x)).split(C, dim=2)
        q, k, v = (t.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).contiguous().view(B, T, C))
        m = self.mlp
        return x + m.c_proj(m.gelu(m.c_fc(self.ln_2(x))))


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.transformer = nn.ModuleDict(
            dict(
                wte=nn.Embedding(config.vocab_size, config.n_embd),
                wpe=nn.Embedding(config.block_size, config.n_embd),
                h=nn.ModuleList([Block(config) for _ in range(config.n_layer)]),
                ln_f=LayerNorm(config.n_embd, bias=config.bias),
            )
        )
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size, bias=False)
        self.transformer.wte.weight = self.lm_head.weight
        self.apply(self._init_weights)
        for pn, p in self.named_parameters():
            if pn.endswith("proj.weight"):
                torch.nn.init.normal_(p, mean=0.0, std=0.02 / math.sqrt(2 * config.n_layer))

    def _init_weights(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            torch.nn.init.normal_(module.weight, mean=0.0, std=0.02)

    def forward(self, idx, targets=None):
        pos = torch.arange(0, idx.size(1), dtype=torch.long, device=idx.device)
        x = self.transformer.wte(idx) + self.transformer.wpe(pos)
        for block in self.transformer.h:
            x = checkpoint(block, x, use_reentrant=False)
        logits = self.lm_head(self.transformer.ln_f(x))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(
            logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1
        )

    def configure_optimizers(self, weight_decay, learning_rate, betas, device_type):
        params = {n: p for n, p in self.named_parameters() if p.requires_grad}
        groups = [
            {"params": [p for p in params.values() if p.dim() >= 2], "weight_decay": weight_decay},
            {"params": [p for p in params.values() if p.dim() < 2], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=learning_rate, betas=betas, fused=device_type == "cuda")

    @torch.no_grad()
    def generate(self, idx, count, top_k):
        for _ in range(count):
            logits, _ = self(idx[:, -self.config.block_size :])
            logits = logits[:, -1, :]
            v, _ = torch.topk(logits, min(top_k, logits.size(-1)))
            logits[logits < v[:, [-1]]] = -float("Inf")
            idx = torch.cat(
                (idx, torch.multinomial(F.softmax(logits, dim=-1), num_samples=1)), dim=1
            )
        return idx


def get_batch(config, device):
    ix = torch.randint(config.vocab_size, (16, 1))
    rows = (ix + torch.arange(config.block_size + 1)) % config.vocab_size
    x, y = rows[:, :-1].contiguous(), rows[:, 1:].contiguous()
    return x.to(device, non_blocking=True), y.to(device, non_blocking=True)


def get_lr(it, warmup, total, peak):
    if it < warmup:
        return peak * (it + 1) / warmup
    return 0.1 * peak + 0.45 * peak * (1.0 + math.cos(math.pi * (it - warmup) / (total - warmup)))


def ask_worker(rank, queue):
    import torch.nn.functional

    queue.put((rank, torch.nn.functional.relu(torch.tensor([-1.0, 2.0])).sum().item()))


def main():
    ddp = int(os.environ.get("RANK", -1)) != -1
    assert not (dist.is_available() and dist.is_initialized()) and not ddp
    torch.manual_seed(1337)
    device = (
        "cuda"
        if torch.cuda.is_available()
        else "mps"
        if torch.backends.mps.is_available()
        else "cpu"
    )
    device_type = "cuda" if "cuda" in device else "cpu"
    ctx = torch.amp.autocast(device_type=device_type, dtype=torch.bfloat16)
    config = Config()
    model = GPT(config).to(device)
    scaler = torch.amp.GradScaler(device_type, enabled=False)
    optimizer = model.configure_optimizers(1e-1, 1e-2, (0.9, 0.95), device_type)
    compiled = torch.compile(model)
    x, y = get_batch(config, device)
    with torch.no_grad(), contextlib.nullcontext():
        print(f"start {compiled(x, y)[1].item():.3f}")
    for it in range(30):
        for group in optimizer.param_groups:
            group["lr"] = get_lr(it, 5, 30, 1e-2)
        for _ in range(2):
            x, y = get_batch(config, device)
            with ctx:
                logits, loss = compiled(x, y)
                loss = loss / 2
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
    assert logits.dtype is torch.bfloat16 and next(model.parameters()).dtype is torch.float32
    assert loss.item() * 2 < 0.7, loss.item() * 2
    out = model.generate(torch.tensor([[3]]), 6, top_k=1)
    assert out[0].tolist() == [3, 4, 5, 6, 7, 8, 9], out
    context = mp.get_context("spawn")
    queue = context.SimpleQueue()
    worker = context.Process(target=ask_worker, args=(0, queue))
    worker.start()
    print(queue.get())
    worker.join()
    return worker.exitcode


if __name__ == "__main__":
    sys.exit(main())
