"""The network in PyTorch, where it is installed: the same weights, losses and steps."""

from __future__ import annotations

from importlib import import_module
from typing import Any, TypeAlias

import numpy as np

from tilewright.cost_model.networks import base
from tilewright.cost_model.pack_sum import PackSum

Tensor: TypeAlias = Any  # PyTorch need not be installed
_EPSILON = 1e-10


class TorchNetwork(base.Network):
    """Automatic differentiation and Adam are PyTorch's."""

    @property
    def _torch(self) -> Any:
        """The package; not kept, because members are copied and packages cannot be."""
        return import_module("torch")

    def set_parameters(self, parameters: base.Parameters) -> None:
        self._tensors: dict[str, Tensor] = {
            name: self._torch.tensor(
                value, requires_grad=name not in (base.NORM_MEAN, base.NORM_VARIANCE)
            )
            for name, value in parameters.items()
        }
        self._optimiser = self._torch.optim.Adam(
            self._trained_tensors(), weight_decay=self._trainer.weight_decay
        )

    def _trained_tensors(self) -> list[Tensor]:
        return [tensor for tensor in self._tensors.values() if tensor.requires_grad]

    def parameters(self) -> base.Parameters:
        return {name: tensor.detach().numpy().copy() for name, tensor in self._tensors.items()}

    def scores(self, batch: PackSum) -> base.Array:
        with self._torch.no_grad():
            return np.asarray(self._forward(batch, False).numpy(), dtype=np.float64)

    def step(self, batch: PackSum, learning_rate: float) -> float:
        torch = self._torch
        for group in self._optimiser.param_groups:
            group["lr"] = learning_rate
        self._optimiser.zero_grad()
        loss = self._loss(self._forward(batch, True), batch.labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self._trained_tensors(), self._trainer.grad_clip_norm)
        self._optimiser.step()
        return float(loss.detach())

    def _loss(self, scores: Tensor, labels: base.Array) -> Tensor:
        torch = self._torch
        order, weights = base.pair_weights(scores.detach().numpy(), labels)
        ranked = scores[torch.from_numpy(order)]
        right = torch.sigmoid(ranked[:, None] - ranked[None, :])
        return -(torch.from_numpy(weights) * torch.log2(right.clamp(min=_EPSILON))).sum()

    def _forward(self, batch: PackSum, training: bool) -> Tensor:
        torch = self._torch
        hidden = self._layer("encoder_0", torch.from_numpy(batch.rows).double())
        hidden = self._layer("encoder_1", hidden)
        summed = torch.zeros(batch.num_samples, hidden.shape[1], dtype=hidden.dtype)
        summed = summed.index_add(0, torch.from_numpy(batch.ids), hidden)
        if self._config.use_norm:
            summed = torch.nn.functional.batch_norm(
                summed,
                self._tensors[base.NORM_MEAN],
                self._tensors[base.NORM_VARIANCE],
                self._tensors["norm.weight"],
                self._tensors["norm.bias"],
                training,
                base.NORM_MOMENTUM,
                base.NORM_EPSILON,
            )
        for name in ("residual_0", "residual_1"):
            summed = summed + self._layer(name, summed)
        scores = self._linear("decoder", summed)[:, 0]
        return torch.sigmoid(scores) if self._config.use_sigmoid else scores

    def _linear(self, name: str, inputs: Tensor) -> Tensor:
        return inputs @ self._tensors[f"{name}.weight"] + self._tensors[f"{name}.bias"]

    def _layer(self, name: str, inputs: Tensor) -> Tensor:
        return self._torch.relu(self._linear(name, inputs))
