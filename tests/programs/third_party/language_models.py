"""Transformers' GPT-2, Llama and BERT, small and of random weights: some steps, then some words."""

import tempfile

import torch
from transformers import (
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
)

MODELS = [
    GPT2LMHeadModel(GPT2Config(vocab_size=100, n_positions=32, n_embd=32, n_layer=2, n_head=4)),
    LlamaForCausalLM(
        LlamaConfig(
            vocab_size=100,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=64,
        )
    ),
    BertForMaskedLM(
        BertConfig(
            vocab_size=100,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=64,
        )
    ),
]

for model in MODELS:
    torch.manual_seed(0)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.1)
    words = torch.randint(0, 100, (2, 16))
    mask = torch.ones_like(words)
    mask[1, 12:] = 0
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model.train()
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = model(input_ids=words, labels=words, attention_mask=mask).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    print(type(model).__name__, *(f"{loss:.4f}" for loss in losses))
    if model.can_generate() and not isinstance(model, BertForMaskedLM):
        model.eval()
        print(model.generate(words[:1, :4], max_new_tokens=8, do_sample=False, pad_token_id=0))
        torch.manual_seed(1)
        print(model.generate(words[:1, :4], max_new_tokens=8, do_sample=True, pad_token_id=0))
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        again = type(model).from_pretrained(folder)
    saved, loaded = model.state_dict(), again.state_dict()
    assert saved.keys() == loaded.keys() and all(map(torch.equal, saved.values(), loaded.values()))
