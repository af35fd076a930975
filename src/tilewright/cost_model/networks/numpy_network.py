"""The network in NumPy: forward, backward and Adam by hand."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tilewright.cost_model.networks import base
from tilewright.cost_model.pack_sum import PackSum

_BETAS, _ADAM_EPSILON = (0.9, 0.999), 1e-8


@dataclass
class _Tape:
    """What the backward pass needs of the forward pass."""

    training: bool = True
    inputs: dict[str, base.Array] = field(default_factory=dict)  # of each layer
    outputs: dict[str, base.Array] = field(default_factory=dict)  # of each layer, after ReLU
    normalised: base.Array | None = None
    deviation: base.Array | None = None
    scores: base.Array | None = None


class NumPyNetwork(base.Network):
    """Two layers on rows, a sum over the rows of a candidate, two residual layers, a score."""

    def set_parameters(self, parameters: base.Parameters) -> None:
        self._parameters = {name: value.copy() for name, value in parameters.items()}
        self._means = {name: np.zeros_like(value) for name, value in parameters.items()}
        self._squares = {name: np.zeros_like(value) for name, value in parameters.items()}
        self._steps = 0

    def parameters(self) -> base.Parameters:
        return {name: value.copy() for name, value in self._parameters.items()}

    def scores(self, batch: PackSum) -> base.Array:
        return self._forward(batch, _Tape(training=False))

    def step(self, batch: PackSum, learning_rate: float) -> float:
        tape = _Tape()
        loss, slope = base.loss_and_gradient(self._forward(batch, tape), batch.labels)
        self._adam(self._clipped(self._backward(batch, tape, slope)), learning_rate)
        return loss

    # --- forward --------------------------------------------------------------------------------

    def _forward(self, batch: PackSum, tape: _Tape) -> base.Array:
        hidden = self._layer("encoder_0", batch.rows, tape)
        hidden = self._layer("encoder_1", hidden, tape)
        summed = np.zeros((batch.num_samples, hidden.shape[1]))
        np.add.at(summed, batch.ids, hidden)
        if self._config.use_norm:
            summed = self._norm(summed, tape)
        for name in ("residual_0", "residual_1"):
            summed = summed + self._layer(name, summed, tape)
        tape.inputs["decoder"] = summed
        scores = self._linear("decoder", summed)[:, 0]
        if self._config.use_sigmoid:
            scores = 1 / (1 + np.exp(-scores))
        tape.scores = scores
        return scores

    def _linear(self, name: str, inputs: base.Array) -> base.Array:
        result: base.Array = (
            inputs @ self._parameters[f"{name}.weight"] + self._parameters[f"{name}.bias"]
        )
        return result

    def _layer(self, name: str, inputs: base.Array, tape: _Tape) -> base.Array:
        tape.inputs[name] = inputs
        outputs: base.Array = np.maximum(self._linear(name, inputs), 0)
        tape.outputs[name] = outputs
        return outputs

    def _norm(self, inputs: base.Array, tape: _Tape) -> base.Array:
        mean, variance = self._parameters[base.NORM_MEAN], self._parameters[base.NORM_VARIANCE]
        if tape.training:
            seen, count = inputs.var(axis=0), len(inputs)
            mean += base.NORM_MOMENTUM * (inputs.mean(axis=0) - mean)
            variance += base.NORM_MOMENTUM * (seen * count / max(count - 1, 1) - variance)
            mean, variance = inputs.mean(axis=0), seen
        tape.deviation = np.sqrt(variance + base.NORM_EPSILON)
        tape.normalised = (inputs - mean) / tape.deviation
        scaled: base.Array = tape.normalised * self._parameters["norm.weight"]
        scaled += self._parameters["norm.bias"]
        return scaled

    # --- backward -------------------------------------------------------------------------------

    def _backward(self, batch: PackSum, tape: _Tape, slope: base.Array) -> base.Parameters:
        gradients: base.Parameters = {}
        if self._config.use_sigmoid:
            assert tape.scores is not None
            slope = slope * tape.scores * (1 - tape.scores)
        back = self._back_linear("decoder", slope[:, None], tape, gradients)
        for name in ("residual_1", "residual_0"):
            back = back + self._back_layer(name, back, tape, gradients)
        if self._config.use_norm:
            back = self._back_norm(back, tape, gradients)
        back = back[batch.ids]
        back = self._back_layer("encoder_1", back, tape, gradients)
        self._back_layer("encoder_0", back, tape, gradients)
        return gradients

    def _back_layer(
        self, name: str, back: base.Array, tape: _Tape, gradients: base.Parameters
    ) -> base.Array:
        return self._back_linear(name, back * (tape.outputs[name] > 0), tape, gradients)

    def _back_linear(
        self, name: str, back: base.Array, tape: _Tape, gradients: base.Parameters
    ) -> base.Array:
        gradients[f"{name}.weight"] = tape.inputs[name].T @ back
        gradients[f"{name}.bias"] = back.sum(axis=0)
        result: base.Array = back @ self._parameters[f"{name}.weight"].T
        return result

    def _back_norm(self, back: base.Array, tape: _Tape, gradients: base.Parameters) -> base.Array:
        assert tape.normalised is not None
        assert tape.deviation is not None
        gradients["norm.weight"] = (back * tape.normalised).sum(axis=0)
        gradients["norm.bias"] = back.sum(axis=0)
        back = back * self._parameters["norm.weight"]
        centred = back - back.mean(axis=0)
        centred = centred - tape.normalised * (back * tape.normalised).mean(axis=0)
        result: base.Array = centred / tape.deviation
        return result

    # --- steps ----------------------------------------------------------------------------------

    def _clipped(self, gradients: base.Parameters) -> base.Parameters:
        norm = np.sqrt(sum(float((value**2).sum()) for value in gradients.values()))
        limit = self._trainer.grad_clip_norm
        if norm <= limit:
            return gradients
        return {name: value * (limit / (norm + 1e-6)) for name, value in gradients.items()}

    def _adam(self, gradients: base.Parameters, learning_rate: float) -> None:
        self._steps += 1
        first, second = _BETAS
        for name, slope in gradients.items():
            value = self._parameters[name]
            gradient = slope + self._trainer.weight_decay * value
            mean, square = self._means[name], self._squares[name]
            mean += (1 - first) * (gradient - mean)
            square += (1 - second) * (gradient**2 - square)
            scale = np.sqrt(square / (1 - second**self._steps)) + _ADAM_EPSILON
            value -= learning_rate * mean / (1 - first**self._steps) / scale
