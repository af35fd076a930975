"""Named machines: a tag such as `nvidia/nvidia-a100` stands for a full target description."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tilewright.errors import TargetError
from tilewright.support.suggestions import did_you_mean

Config = Mapping[str, object]

_AWS = {"kind": "llvm", "keys": ["x86", "cpu"]}
# Instance size of Amazon's C5 family: CPU and physical cores.
_AWS_C5 = {
    "large": ("skylake-avx512", 1),
    "xlarge": ("skylake-avx512", 2),
    "2xlarge": ("skylake-avx512", 4),
    "4xlarge": ("skylake-avx512", 8),
    "9xlarge": ("skylake-avx512", 18),
    "12xlarge": ("cascadelake", 24),
    "18xlarge": ("skylake-avx512", 36),
    "24xlarge": ("cascadelake", 48),
}

# Architecture of NVIDIA's GPUs: the names that share it.
_NVIDIA_ARCH = {
    "sm_60": "tesla-p100 quadro-gp100",
    "sm_61": "geforce-gtx-1060 geforce-gtx-1070 geforce-gtx-1080 geforce-gtx-1080-ti "
    "nvidia-titan-x nvidia-titan-xp tesla-p4 tesla-p40",
    "sm_70": "nvidia-v100 nvidia-titan-v quadro-gv100",
    "sm_72": "jetson-agx-xavier",
    "sm_75": "nvidia-t4 geforce-rtx-2060 geforce-rtx-2070 geforce-rtx-2080 geforce-rtx-2080-ti "
    "nvidia-titan-rtx quadro-rtx-4000 quadro-rtx-5000 quadro-rtx-6000 quadro-rtx-8000",
    "sm_80": "nvidia-a100 nvidia-a30",
    "sm_86": "geforce-rtx-3060 geforce-rtx-3070 geforce-rtx-3070-ti geforce-rtx-3080 "
    "geforce-rtx-3080-ti geforce-rtx-3090 geforce-rtx-3090-ti nvidia-a2 nvidia-a10 nvidia-a10g "
    "nvidia-a16 nvidia-a40 rtx-a6000",
    "sm_87": "jetson-agx-orin-32gb jetson-agx-orin-64gb",
    "sm_89": "geforce-rtx-4090 nvidia-l4 nvidia-l40s",
    "sm_90a": "nvidia-h100 nvidia-h200",
}

_NVIDIA_L2_BYTES = {
    "nvidia-a100": 41943040,
    "nvidia-h100": 52428800,
    "nvidia-h200": 62914560,
    "nvidia-l4": 50331648,
    "nvidia-l40s": 100663296,
    "geforce-rtx-4090": 75497472,
}

_XAVIER_HOST = {
    "kind": "llvm",
    "keys": ["arm_cpu", "cpu"],
    "mtriple": "aarch64-linux-gnu",
    "mcpu": "carmel",
    "num-cores": 8,
}

_RASPBERRY_PI_4B = {
    "kind": "llvm",
    "keys": ["arm_cpu", "cpu"],
    "mtriple": "aarch64-linux-gnu",
    "mcpu": "cortex-a72",
    "mattr": ["+neon"],
    "num-cores": 4,
}


def _nvidia(name: str, arch: str) -> Config:
    config: dict[str, object] = {
        "kind": "cuda",
        "arch": arch,
        "max_shared_memory_per_block": 49152,
        "max_threads_per_block": 1024,
        "thread_warp_size": 32,
        "registers_per_block": 65536,
    }
    if name in _NVIDIA_L2_BYTES:
        config["l2_cache_size_bytes"] = _NVIDIA_L2_BYTES[name]
    if name == "jetson-agx-xavier":
        config["host"] = _XAVIER_HOST
    return config


_TAGS: Mapping[str, Config] = MappingProxyType(
    {
        **{
            f"aws/cpu/c5.{size}": {**_AWS, "mcpu": cpu, "num-cores": cores}
            for size, (cpu, cores) in _AWS_C5.items()
        },
        **{
            f"nvidia/{name}": _nvidia(name, arch)
            for arch, names in _NVIDIA_ARCH.items()
            for name in names.split()
        },
        "raspberry-pi/4b-aarch64": _RASPBERRY_PI_4B,
    }
)


def get_tag(name: str) -> Config:
    """The description behind a tag; an unknown tag is an error."""
    config = _TAGS.get(name)
    if config is None:
        raise TargetError(f"unknown target tag {name!r}{did_you_mean(name, _TAGS)}")
    return config


def list_tags() -> list[str]:
    """The names of all tags."""
    return list(_TAGS)
