"""VGG-19 (Simonyan and Zisserman, 2014), configuration E."""

from rushlight import nn


class VGG19(nn.Module):
    """Images (N, 3, H, W) to scores (N, classes)."""

    def __init__(self, classes=1000):
        super().__init__()
        layers, channels = [], 3
        for width, repeats in [(64, 2), (128, 2), (256, 4), (512, 4), (512, 4)]:
            for _ in range(repeats):
                layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True)]
                channels = width
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(7))
        self.classifier = nn.Sequential(
            nn.Flatten(),
            nn.Linear(512 * 49, 4096), nn.ReLU(inplace=True), nn.Dropout(0.5),
            nn.Linear(4096, 4096), nn.ReLU(inplace=True), nn.Dropout(0.5),
            nn.Linear(4096, classes))

    def forward(self, images):
        return self.classifier(self.features(images))
