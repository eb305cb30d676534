"""LeNet-5 (LeCun et al., 1998) at the size of 8x8 images, with ReLU and dropout."""

from rushlight import nn


class LeNet(nn.Module):
    """Images (N, 1, 8, 8) to scores (N, 10)."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.classifier = nn.Sequential(
            nn.Flatten(), nn.Dropout(0.3), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))

    def forward(self, images):
        return self.classifier(self.features(images))
