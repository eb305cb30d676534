"""Fine-tunes a saved network: frozen layers, parameter groups, resuming, averaged weights."""

import copy
import os
import tempfile
from collections import OrderedDict

import torch
import torch.nn as nn
from torch.optim import lr_scheduler
from torch.optim.swa_utils import AveragedModel
from torch.utils.data import DataLoader, Dataset, Subset, WeightedRandomSampler


class Points(Dataset):
    def __init__(self, count, transform=None):
        generator = torch.Generator().manual_seed(count)
        self.x = torch.randn(count, 6, generator=generator)
        self.y = (self.x[:, :3].sum(1) > self.x[:, 3:].sum(1)).long()
        self.transform = transform

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        x = self.x[i] if self.transform is None else self.transform(self.x[i])
        return {"x": x, "label": self.y[i].item()}


def backbone():
    return nn.Sequential(
        OrderedDict([("fc1", nn.Linear(6, 24)), ("bn", nn.BatchNorm1d(24)), ("act", nn.ReLU())])
    )


class Classifier(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.features = backbone()
        self.head = nn.Linear(24, classes)

    def forward(self, x):
        return self.head(self.features(x))


def train_model(model, criterion, optimizer, scheduler, loaders, epochs):
    best_wts, best_acc = copy.deepcopy(model.state_dict()), 0.0
    for epoch in range(epochs):
        for phase in ["train", "val"]:
            model.train(phase == "train")
            running_loss, running_corrects = 0.0, 0
            for batch in loaders[phase]:
                inputs, labels = batch["x"], batch["label"]
                optimizer.zero_grad()
                with torch.set_grad_enabled(phase == "train"):
                    outputs = model(inputs)
                    _, preds = torch.max(outputs, 1)
                    loss = criterion(outputs, labels)
                    if phase == "train":
                        loss.backward()
                        optimizer.step()
                running_loss += loss.item() * inputs.size(0)
                running_corrects += torch.sum(preds == labels.data)
            if phase == "train":
                scheduler.step()
            size = len(loaders[phase].dataset)
            acc = running_corrects.double() / size
            print(f"{epoch} {phase} Loss: {running_loss / size:.4f} Acc: {acc:.4f}")
            if phase == "val" and acc > best_acc:
                best_acc, best_wts = acc, copy.deepcopy(model.state_dict())
    model.load_state_dict(best_wts)
    return best_acc.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    pretrained = Classifier(10)
    train_set, val_set = Points(200, transform=lambda x: x + 0.01), Subset(Points(80), range(64))
    weights = 1.0 / torch.bincount(train_set.y).float()[train_set.y]
    loaders = {
        "train": DataLoader(
            train_set, batch_size=20, sampler=WeightedRandomSampler(weights, 200), drop_last=True
        ),
        "val": DataLoader(val_set, batch_size=32, num_workers=1),
    }
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "backbone.pt")
        torch.save(pretrained.state_dict(), path)
        state = torch.load(path, map_location=torch.device("cpu"))
        state = {k: v for k, v in state.items() if not k.startswith("head.")}
        model = Classifier(2)
        result = model.load_state_dict(state, strict=False)
        assert result.missing_keys == ["head.weight", "head.bias"] and not result.unexpected_keys
        for param in model.features.fc1.parameters():
            param.requires_grad = False
        optimizer = torch.optim.SGD(
            [
                {"params": model.features.bn.parameters(), "lr": 0.02},
                {"params": model.head.parameters()},
            ],
            lr=0.1,
            momentum=0.9,
            weight_decay=1e-4,
            nesterov=True,
        )
        scheduler = lr_scheduler.CosineAnnealingLR(optimizer, T_max=4)
        criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
        accuracy = train_model(model, criterion, optimizer, scheduler, loaders, 2)
        frozen = torch.equal(model.features.fc1.weight, pretrained.features.fc1.weight)
        assert frozen and model.features.fc1.weight.grad is None

        path = os.path.join(folder, "checkpoint.tar")
        torch.save(
            {
                "epoch": 2,
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "scheduler": scheduler.state_dict(),
                "rng": torch.get_rng_state(),
            },
            path,
        )
        checkpoint = torch.load(path)
        resumed = Classifier(2)
        resumed.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        scheduler.load_state_dict(checkpoint["scheduler"])
        torch.set_rng_state(checkpoint["rng"])
        assert checkpoint["epoch"] == 2 and scheduler.last_epoch == 2
    averaged = AveragedModel(resumed)
    averaged.update_parameters(resumed)
    with torch.inference_mode():
        x = val_set[0]["x"].unsqueeze(0)
        resumed.eval(), averaged.eval()
        assert torch.allclose(resumed(x), averaged(x), atol=1e-6)
    total = sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert total == 24 * 2 + 24 * 2 + 2 and accuracy > 0.8, (total, accuracy)
