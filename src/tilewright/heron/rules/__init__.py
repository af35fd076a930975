"""Rules that write a template, one a file; importing this registers them."""

from tilewright.heron.rules import (  # noqa: F401
    add_cache_stage,
    add_multi_level_spm,
    add_multi_scope_spm,
    always_inline,
    cpu_loops,
    default_schedule,
    gpu_loops,
    merge_consumer,
    multi_level_tiling,
    tensorize,
    user_defined,
    vta_loops,
)
