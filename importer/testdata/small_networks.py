"""Small networks of what people write, of which PyTorch 1.13 and PyTorch 2 make test data."""
import torch
from torch import nn
from torch.nn import functional as F


class LeNet(nn.Module):
    """Of images of 16x16 with `kernel` 3, or of 28x28 with `kernel` 5."""

    def __init__(self, kernel, features, hidden):
        super().__init__()
        side = 3 if kernel == 3 else 5
        self.conv1 = nn.Conv2d(1, 4, 5, padding=2)
        self.conv2 = nn.Conv2d(4, features, kernel)
        self.fc1 = nn.Linear(features * side * side, hidden)
        self.drop = nn.Dropout(0.5)
        self.fc2 = nn.Linear(hidden, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2, stride=2)
        x = x.view(x.size(0), -1)
        return self.fc2(self.drop(torch.tanh(self.fc1(x))))


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False),
                                            nn.BatchNorm2d(outputs))

    def forward(self, x):
        identity = x if self.downsample is None else self.downsample(x)
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += identity
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.stem = nn.Conv2d(3, features, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(features)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        self.layer1 = nn.Sequential(Block(features, features, 1), Block(features, features, 1))
        self.layer2 = nn.Sequential(Block(features, 2 * features, 2), Block(2 * features, 2 * features, 1))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(2 * features, 5)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.stem(x))))
        x = self.layer2(self.layer1(x))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class Level(nn.Sequential):
    def __init__(self, inputs, outputs, stride=1):
        super().__init__(nn.Conv3d(inputs, outputs, 3, stride=stride, padding=1),
                         nn.InstanceNorm3d(outputs, affine=True), nn.LeakyReLU(0.01, inplace=True))


class UNet3d(nn.Module):
    """With so many features on its first and second level."""

    def __init__(self, first, second, outputs):
        super().__init__()
        self.down0 = Level(1, first)
        self.down1 = Level(first, second, stride=2)
        self.bottom = Level(second, second, stride=(1, 2, 2))
        self.up1 = nn.ConvTranspose3d(second, second, (1, 2, 2), stride=(1, 2, 2))
        self.left1 = Level(2 * second, second)
        self.up0 = nn.ConvTranspose3d(second, first, 2, stride=2, bias=False)
        self.left0 = Level(2 * first, first)
        self.head = nn.Conv3d(first, outputs, 1)

    def forward(self, x):
        down0 = self.down0(x)
        down1 = self.down1(down0)
        x = self.left1(torch.cat((self.up1(self.bottom(down1)), down1), 1))
        return self.head(self.left0(torch.cat((self.up0(x), down0), 1)))
