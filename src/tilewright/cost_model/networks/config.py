"""Settings of the network and of its training."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SegmentSumMLPConfig:
    """The shape of the network: rows are encoded, summed for each candidate, and scored."""

    input_dim: int = 172
    hidden_dim: int = 256
    output_dim: int = 1
    use_norm: bool = False
    use_sigmoid: bool = False


@dataclass(frozen=True)
class TrainerConfig:
    """How the network is trained; `frozen` keeps it as it is."""

    batch_size: int = 128
    learning_rate: float = 7e-4
    weight_decay: float = 1e-6
    num_epoch_full: int = 50
    num_epoch_incremental: int = 5
    grad_clip_norm: float = 0.5
    train_verbose: int = 1000
    test_interval: int = 1
    test_split: float = 0.2
    frozen: bool = False
