"""MobileNetV2 (Sandler et al., 2018)."""

from rushlight import nn


def convolution(channels, filters, kernel, stride=1, groups=1):
    """A convolution that keeps the size up to its stride, its normalisation, and ReLU6."""
    return nn.Sequential(
        nn.Conv2d(channels, filters, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(filters), nn.ReLU6(inplace=True))


class InvertedResidual(nn.Module):
    """Widens by `expansion`, filters each channel by itself, narrows again, adds the input."""

    def __init__(self, channels, filters, stride, expansion):
        super().__init__()
        width = channels * expansion
        layers = [convolution(channels, width, 1)] if expansion > 1 else []
        self.layers = nn.Sequential(
            *layers,
            convolution(width, width, 3, stride, groups=width),
            nn.Conv2d(width, filters, 1, bias=False), nn.BatchNorm2d(filters))
        self.adds_input = stride == 1 and channels == filters

    def forward(self, x):
        return x + self.layers(x) if self.adds_input else self.layers(x)


class MobileNetV2(nn.Module):
    """Images (N, 3, H, W) to scores (N, classes)."""

    def __init__(self, classes=1000):
        super().__init__()
        layers, channels = [convolution(3, 32, 3, stride=2)], 32
        for expansion, filters, repeats, stride in [
                (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                (6, 160, 3, 2), (6, 320, 1, 1)]:
            for i in range(repeats):
                layers.append(
                    InvertedResidual(channels, filters, stride if i == 0 else 1, expansion))
                channels = filters
        self.features = nn.Sequential(*layers, convolution(channels, 1280, 1))
        self.classifier = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(1280, classes))

    def forward(self, images):
        return self.classifier(self.features(images))
