"""Models of Hugging Face's Transformers, unchanged: training step, inference and generation.

    python -m bench.transformers_models [--only TEXT] [--rounds N] [--threads N] [--json FILE]
    python [-m rushlight] bench/transformers_models.py --times THREADS   one library's, as JSON

The library imports torch, or what stands for it, so each runs in processes of its own, which take
turns. The weights are random and the sizes small; `generate` continues 8 words by 32, greedily.
"""

import json
import os
import subprocess
import sys
import time

REPETITIONS = 5


def models():
    """Yields (name, makes the model)."""
    import transformers as t

    yield "GPT-2", lambda: t.GPT2LMHeadModel(
        t.GPT2Config(vocab_size=512, n_positions=128, n_embd=192, n_layer=4, n_head=6))
    yield "Llama", lambda: t.LlamaForCausalLM(t.LlamaConfig(
        vocab_size=512, hidden_size=192, intermediate_size=512, num_hidden_layers=4,
        num_attention_heads=6, num_key_value_heads=2))
    yield "BERT", lambda: t.BertForMaskedLM(t.BertConfig(
        vocab_size=512, hidden_size=192, num_hidden_layers=4, num_attention_heads=6,
        intermediate_size=768))


class Program:
    """A model and what users do with it."""

    def __init__(self, torch, make):
        torch.manual_seed(0)
        self.torch, self.model = torch, make()
        self.words = torch.randint(0, 512, (8, 128))
        self.optimizer = torch.optim.AdamW(self.model.parameters())

    def train(self):
        self.model.train()
        self.optimizer.zero_grad()
        loss = self.model(input_ids=self.words, labels=self.words).loss
        loss.backward()
        self.optimizer.step()
        return loss

    def infer(self):
        self.model.eval()
        with self.torch.no_grad():
            self.model(input_ids=self.words)

    def generate(self):
        self.model.eval()
        start = self.words[:1, :8]
        self.model.generate(start, max_new_tokens=32, do_sample=False, pad_token_id=0)


def measure(threads):
    """Milliseconds by row, and the first loss of each model."""
    os.environ["OMP_NUM_THREADS"] = str(threads)
    import torch

    torch.set_num_threads(threads)
    clock = time.process_time if threads == 1 else time.perf_counter
    found = {}
    for name, make in models():
        program = Program(torch, make)
        found[f"{name}, loss"] = program.train().item()
        for what in ("train", "infer") if name == "BERT" else ("train", "infer", "generate"):
            function, times = getattr(program, what), []
            for _ in range(1 + REPETITIONS):
                start = clock()
                function()
                times.append(clock() - start)
            found[f"{name}, {what}"] = min(times[1:]) * 1e3
    return found


def in_fresh_process(library, threads):
    run_as_torch = [] if library == "torch" else ["-m", library]
    command = [sys.executable, "-W", "ignore", *run_as_torch, __file__, "--times", str(threads)]
    output = subprocess.check_output(command, stderr=subprocess.DEVNULL)
    return json.loads(output.splitlines()[-1])


def main():
    from bench import report

    options = report.arguments("bench.transformers_models", rounds=2).parse_args()
    names = (options.library, "torch")
    runs = {name: [] for name in names}
    for _ in range(options.rounds):
        for name in names:
            runs[name].append(in_fresh_process(name, options.threads))
    table = report.Table("Transformers, 8 x 128 words, 192 wide, 4 layers", names)
    for row in runs["torch"][0]:
        values = {name: min(run[row] for run in runs[name]) for name in names}
        if row.endswith("loss"):
            ours, theirs = values.values()
            if abs(ours - theirs) > 1e-3 * theirs:
                raise SystemExit(f"{row}: {values}")
        elif options.only in row:
            table.add(report.Figure("transformers", row, "ms", values))
    report.finish(options, table)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--times"]:
        print(json.dumps(measure(int(sys.argv[2]))))
    else:
        main()
