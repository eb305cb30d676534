"""A training program that goes on from its last checkpoint: test_resume.py runs it and kills it.

python resumable.py CHECKPOINT RESULT WORKERS
"""

import os
import random
import sys

import rushlight as torch
from rushlight import nn
from rushlight.utils.data import Dataset, StatefulDataLoader

EPOCHS, EVERY = 3, 2


class Noisy(Dataset):
    """A line with noise that is drawn anew each time, from all the generators a worker has."""

    def __len__(self):
        return 90

    def __getitem__(self, index):
        x = torch.rand(4) + random.random()
        return x, x.sum(dim=0, keepdim=True) + index / 90


def main(checkpoint, result, workers):
    torch.manual_seed(0)
    random.seed(0)
    loader = StatefulDataLoader(Noisy(), batch_size=10, shuffle=True, num_workers=workers)
    model = nn.Sequential(
        nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 1)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, amsgrad=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.01, total_steps=27)
    parts = {"model": model, "optimizer": optimizer, "schedule": schedule, "loader": loader}
    epoch = step = 0
    if os.path.exists(checkpoint):
        state = torch.load(checkpoint)
        for name, part in parts.items():
            part.load_state_dict(state[name])
        torch.set_rng_state(state["torch"])
        random.setstate(state["random"])
        epoch, step = state["epoch"], state["step"]
    print("from", step, flush=True)
    while epoch < EPOCHS:
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
            schedule.step()
            step += 1
            if step % EVERY == 0:
                print("saving", step, flush=True)
                state = {name: part.state_dict() for name, part in parts.items()}
                state.update(
                    torch=torch.get_rng_state(), random=random.getstate(), epoch=epoch, step=step
                )
                torch.save(state, checkpoint)
        epoch += 1
    torch.save({"weights": model.state_dict(), "step": step}, result)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
