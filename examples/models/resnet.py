"""ResNet-50 (He et al., 2015), with the stride on the 3x3 convolution, as is now usual."""

from rushlight import nn


def convolution(channels, filters, kernel, stride=1):
    """A convolution that keeps the size up to its stride, and its normalisation."""
    return nn.Sequential(
        nn.Conv2d(channels, filters, kernel, stride=stride, padding=kernel // 2, bias=False),
        nn.BatchNorm2d(filters))


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions around which the input is added."""

    def __init__(self, channels, width, stride):
        super().__init__()
        filters = 4 * width
        self.reduce = convolution(channels, width, 1)
        self.middle = convolution(width, width, 3, stride)
        self.expand = convolution(width, filters, 1)
        self.shortcut = nn.Identity()
        if stride > 1 or channels != filters:
            self.shortcut = convolution(channels, filters, 1, stride)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        y = self.relu(self.reduce(x))
        y = self.relu(self.middle(y))
        y = self.expand(y)
        y += self.shortcut(x)
        return self.relu(y)


class ResNet50(nn.Module):
    """Images (N, 3, H, W) to scores (N, classes)."""

    def __init__(self, classes=1000):
        super().__init__()
        self.stem = nn.Sequential(
            convolution(3, 64, 7, stride=2), nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2, padding=1))
        blocks, channels = [], 64
        for width, repeats, stride in [(64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)]:
            for i in range(repeats):
                blocks.append(Bottleneck(channels, width, stride if i == 0 else 1))
                channels = 4 * width
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))

    def forward(self, images):
        return self.head(self.blocks(self.stem(images)))
