"""Eight well-known networks in plain PyTorch, with random weights; nothing is downloaded.

    python benchmarks/models/zoo.py [--format onnx|torch] FOLDER [NAME ...]

writes NAME.onnx, or NAME.pt2 of `torch.export`, into FOLDER.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

# --- convolutional networks ---------------------------------------------------------------------


def conv_norm(
    inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1, act: Any = None
) -> nn.Sequential:
    """A convolution with a batch norm and, perhaps, an activation."""
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    layers: list[nn.Module] = [conv, nn.BatchNorm2d(outputs)]
    return nn.Sequential(*layers, *([act()] if act else []))


class Residual(nn.Module):
    """A block of ResNet: two 3x3, or 1x1, 3x3, 1x1."""

    def __init__(self, inputs: int, width: int, stride: int, expansion: int) -> None:
        super().__init__()
        outputs = width * expansion
        if expansion == 1:
            self.body = nn.Sequential(
                conv_norm(inputs, width, 3, stride, act=nn.ReLU), conv_norm(width, width, 3)
            )
        else:
            self.body = nn.Sequential(
                conv_norm(inputs, width, 1, act=nn.ReLU),
                conv_norm(width, width, 3, stride, act=nn.ReLU),
                conv_norm(width, outputs, 1),
            )
        self.short = (
            conv_norm(inputs, outputs, 1, stride) if stride != 1 or inputs != outputs else None
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.body(x) + (x if self.short is None else self.short(x)))


class ResNet(nn.Module):
    """ResNet; images of any size."""

    def __init__(self, depths: tuple[int, ...], expansion: int, width: int = 64) -> None:
        super().__init__()
        self.stem = nn.Sequential(conv_norm(3, width, 7, 2, act=nn.ReLU), nn.MaxPool2d(3, 2, 1))
        blocks, inputs = [], width
        for stage, depth in enumerate(depths):
            for number in range(depth):
                stride = 2 if stage and number == 0 else 1
                blocks.append(Residual(inputs, width << stage, stride, expansion))
                inputs = (width << stage) * expansion
        self.body = nn.Sequential(*blocks)
        self.head = nn.Linear(inputs, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.adaptive_avg_pool2d(self.body(self.stem(x)), 1)
        return self.head(torch.flatten(x, 1))


class Gate(nn.Module):
    """Squeeze and excite."""

    def __init__(self, channels: int, inner: int) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(channels, inner, 1), nn.Conv2d(inner, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate = F.silu(self.down(F.adaptive_avg_pool2d(x, 1)))
        return x * torch.sigmoid(self.up(gate))


class Inverted(nn.Module):
    """An inverted residual of MobileNetV2 and EfficientNet."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        kernel: int,
        stride: int,
        factor: int,
        act: Any,
        gated: bool,
    ) -> None:
        super().__init__()
        wide = inputs * factor
        layers = [conv_norm(inputs, wide, 1, act=act)] if factor != 1 else []
        layers.append(conv_norm(wide, wide, kernel, stride, wide, act))
        if gated:
            layers.append(Gate(wide, inputs // 4))  # type: ignore[arg-type]
        layers.append(conv_norm(wide, outputs, 1))
        self.body = nn.Sequential(*layers)
        self.is_residual = stride == 1 and inputs == outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.body(x) if self.is_residual else self.body(x)


class Mobile(nn.Module):
    """MobileNetV2 and EfficientNet-B0: rows of (factor, channels, count, stride, kernel)."""

    def __init__(self, rows: Any, last: int, act: Any, gated: bool) -> None:
        super().__init__()
        blocks: list[nn.Module] = [conv_norm(3, 32, 3, 2, act=act)]
        inputs = 32
        for factor, outputs, count, stride, kernel in rows:
            for number in range(count):
                step = stride if number == 0 else 1
                blocks.append(Inverted(inputs, outputs, kernel, step, factor, act, gated))
                inputs = outputs
        blocks.append(conv_norm(inputs, last, 1, act=act))
        self.body = nn.Sequential(*blocks)
        self.head = nn.Linear(last, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.flatten(F.adaptive_avg_pool2d(self.body(x), 1), 1))


_MOBILENET = (
    (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 32, 3, 2, 3), (6, 64, 4, 2, 3), (6, 96, 3, 1, 3),
    (6, 160, 3, 2, 3), (6, 320, 1, 1, 3),
)  # fmt: skip
_EFFICIENTNET = (
    (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5), (6, 320, 1, 1, 3),
)  # fmt: skip


def vgg16(side: int = 224, width: int = 64) -> nn.Module:
    """VGG-16 without batch norms, for images of one size."""
    layers: list[nn.Module] = []
    inputs = 3
    for factor, count in ((1, 2), (2, 2), (4, 3), (8, 3), (8, 3)):
        for _ in range(count):
            layers += [nn.Conv2d(inputs, factor * width, 3, padding=1), nn.ReLU()]
            inputs = factor * width
        layers.append(nn.MaxPool2d(2, 2))
    last, wide = inputs * (side // 32) ** 2, 64 * width
    dense = [nn.Linear(last, wide), nn.ReLU(), nn.Linear(wide, wide), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten(), *dense, nn.Linear(wide, 1000))


# --- transformers -------------------------------------------------------------------------------


class Attention(nn.Module):
    """Attention of 12 heads."""

    def __init__(self, width: int, is_causal: bool) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.is_causal = is_causal

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape

        def heads(part: nn.Module) -> torch.Tensor:
            return part(x).view(batch, tokens, 12, width // 12).transpose(1, 2)

        mixed = F.scaled_dot_product_attention(
            heads(self.query), heads(self.key), heads(self.value), is_causal=self.is_causal
        )
        return self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))


class Layer(nn.Module):
    """A layer of a transformer; norms come first (GPT-2, ViT) or last (BERT)."""

    def __init__(self, width: int, norm_first: bool, is_causal: bool, gelu: str) -> None:
        super().__init__()
        self.attention = Attention(width, is_causal)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.norm_first, self.gelu = norm_first, gelu

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.norm_first:
            x = x + self.attention(self.norm1(x))
            return x + self._wide(self.norm2(x))
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self._wide(x))

    def _wide(self, x: torch.Tensor) -> torch.Tensor:
        return self.narrow(F.gelu(self.wide(x), approximate=self.gelu))


class Bert(nn.Module):
    """BERT-base: token numbers in, states and the pooled first state out."""

    def __init__(self, width: int = 768, depth: int = 12, words: int = 30522) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(512, width)
        self.kinds, self.norm = nn.Embedding(2, width), nn.LayerNorm(width)
        self.layers = nn.Sequential(*(Layer(width, False, False, "none") for _ in range(depth)))
        self.pooler = nn.Linear(width, width)

    def forward(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.words(tokens) + self.places(places) + self.kinds(torch.zeros_like(tokens))
        x = self.layers(self.norm(x))
        return x, torch.tanh(self.pooler(x[:, 0]))


class Gpt2(nn.Module):
    """GPT-2 small: logits of all tokens."""

    def __init__(self, width: int = 768, depth: int = 12, words: int = 50257) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(1024, width)
        self.layers = nn.Sequential(*(Layer(width, True, True, "tanh") for _ in range(depth)))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        return F.linear(self.norm(self.layers(x)), self.words.weight)


class Vit(nn.Module):
    """ViT-B/16, for images of one size."""

    def __init__(self, width: int = 768, depth: int = 12, side: int = 224) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.randn(1, (side // 16) ** 2 + 1, width) * 0.02)
        self.layers = nn.Sequential(*(Layer(width, True, False, "none") for _ in range(depth)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.norm(self.layers(x))[:, 0])


# --- the eight ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Network:
    """A network and inputs for it."""

    make: Callable[[], nn.Module]
    inputs: Callable[[], tuple[torch.Tensor, ...]]


def _image(side: int) -> Callable[[], tuple[torch.Tensor, ...]]:
    return lambda: (torch.randn(1, 3, side, side),)


def _tokens(count: int, words: int) -> Callable[[], tuple[torch.Tensor, ...]]:
    return lambda: (torch.randint(0, words, (1, count)),)


NETWORKS = {
    "resnet18": Network(lambda: ResNet((2, 2, 2, 2), 1), _image(224)),
    "resnet50": Network(lambda: ResNet((3, 4, 6, 3), 4), _image(224)),
    "mobilenet_v2": Network(lambda: Mobile(_MOBILENET, 1280, nn.ReLU6, False), _image(224)),
    "efficientnet_b0": Network(lambda: Mobile(_EFFICIENTNET, 1280, nn.SiLU, True), _image(224)),
    "vgg16": Network(vgg16, _image(224)),
    "bert_base": Network(Bert, _tokens(128, 30000)),
    "gpt2_small": Network(Gpt2, _tokens(128, 30000)),
    "vit_b16": Network(Vit, _image(224)),
}
# The same structures with few layers and channels, for tests.
SMALL = {
    "resnet18": Network(lambda: ResNet((1, 2), 1, 8), _image(40)),
    "resnet50": Network(lambda: ResNet((1, 1), 4, 8), _image(40)),
    "mobilenet_v2": Network(
        lambda: Mobile(((1, 8, 1, 1, 3), (6, 16, 2, 2, 3)), 32, nn.ReLU6, False), _image(32)
    ),
    "efficientnet_b0": Network(
        lambda: Mobile(((1, 8, 1, 1, 3), (6, 16, 2, 2, 5)), 32, nn.SiLU, True), _image(32)
    ),
    "vgg16": Network(lambda: vgg16(32, 4), _image(32)),
    "bert_base": Network(lambda: Bert(48, 2, 100), _tokens(19, 100)),
    "gpt2_small": Network(lambda: Gpt2(48, 2, 100), _tokens(19, 100)),
    "vit_b16": Network(lambda: Vit(48, 2, 48), _image(48)),
}


def network(name: str, *, small: bool = False) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """A network with the same random weights each time, and inputs."""
    torch.manual_seed(0)
    found = (SMALL if small else NETWORKS)[name]
    module = found.make().eval()
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            part.running_mean.normal_(0, 0.1)  # type: ignore[union-attr]
            part.running_var.uniform_(0.5, 1.5)  # type: ignore[union-attr]
    return module, found.inputs()


def export(name: str, folder: Path, *, small: bool = False) -> Path:
    """Write a network as ONNX."""
    module, inputs = network(name, small=small)
    path = folder / f"{name}.onnx"
    names = [f"x{number}" for number in range(len(inputs))]
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter that needs no further package is deprecated
        torch.onnx.export(
            module, inputs, str(path), dynamo=False, opset_version=17, input_names=names
        )
    return path


def export_program(name: str, folder: Path, *, small: bool = False) -> Path:
    """Write a network as `torch.export` gives it."""
    module, inputs = network(name, small=small)
    path = folder / f"{name}.pt2"
    with torch.no_grad():
        torch.export.save(torch.export.export(module, inputs, strict=False), path)
    return path


_EXPORTS = {"onnx": export, "torch": export_program}


def main() -> None:
    """Export networks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--format", choices=list(_EXPORTS), default="onnx")
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", default=list(NETWORKS))
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in NETWORKS]
    if unknown:
        parser.error(f"no network {', '.join(unknown)}; known: {', '.join(NETWORKS)}")
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.names:
        print(_EXPORTS[options.format](name, options.folder))


if __name__ == "__main__":
    main()
