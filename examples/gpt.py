"""A small GPT learns to write Python from the standard library's own source.

Radford et al., "Language Models are Unsupervised Multitask Learners" (GPT-2), 2019; the tokens are
characters.
"""

import sysconfig
from pathlib import Path

import rushlight as torch
from models.gpt import GPT
from rushlight import nn
from rushlight.nn import functional as F


def initialize(module):
    """Weights as GPT-2's; those of the embedding are the output layer's too."""
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)


def load_text():
    """The source of the pure Python modules that every Python comes with, in one string."""
    files = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    text = "".join(path.read_text("utf-8") for path in files)
    return "".join(character for character in text if character.isascii())


def batch_of(tokens, size, length):
    """`size` random pieces of the text, and the same pieces one character later."""
    starts = torch.randint(len(tokens) - length, (size,))
    pieces = tokens[starts.unsqueeze(1) + torch.arange(length + 1)]
    return pieces[:, :-1], pieces[:, 1:]


def train_step(model, optimizer, inputs, targets):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss


@torch.no_grad()
def generate(model, tokens, count, length, temperature=0.8):
    model.eval()
    for _ in range(count):
        logits = model(tokens[:, -length:])[:, -1] / temperature
        following = torch.multinomial(logits.softmax(dim=-1), 1)
        tokens = torch.cat([tokens, following], dim=1)
    return tokens


def main(steps=1500, batch_size=32, length=64):
    torch.manual_seed(0)
    text = load_text()
    alphabet = sorted(set(text))
    index = {character: i for i, character in enumerate(alphabet)}
    tokens = torch.tensor([index[character] for character in text])
    model = GPT(len(alphabet), length, width=64, heads=4, layers=2)
    model.apply(initialize)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=3e-3, total_steps=steps)
    average = None
    for step in range(steps):
        loss = train_step(model, optimizer, *batch_of(tokens, batch_size, length)).item()
        schedule.step()
        average = loss if average is None else 0.95 * average + 0.05 * loss
        if step % 100 == 99:
            print(f"step {step + 1}: {average:.3f} nats per character")
    start = torch.tensor([[index[character] for character in "def "]])
    print("".join(alphabet[token] for token in generate(model, start, 200, length)[0].tolist()))
    return average


if __name__ == "__main__":
    main()
