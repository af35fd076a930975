"""TVM's module paths. It has a file for each class, we have a module for each family.

So `ms.runner` stands for `ms.runner.local_runner`, too, as a script may import it.
"""

from __future__ import annotations

import sys
from types import ModuleType

# Families, and the files that TVM has of each.
_FILES = {
    "builder": "builder local_builder",
    "cost_model": "cost_model mlp_model random_model xgb_model",
    "database": (
        "database json_database memory_database ordered_union_database schedule_fn_database "
        "union_database"
    ),
    "feature_extractor": "feature_extractor per_store_feature random_feature_extractor",
    "measure_callback": "add_to_database measure_callback remove_build_artifact update_cost_model",
    "mutator": (
        "mutate_compute_location mutate_parallel mutate_thread_binding mutate_tile_size "
        "mutate_unroll mutator"
    ),
    "postproc": (
        "disallow_async_strided_mem_copy disallow_dynamic_loop postproc "
        "rewrite_cooperative_fetch rewrite_layout rewrite_parallel_vectorize_unroll "
        "rewrite_reduction_block rewrite_tensorize rewrite_unbound_block verify_gpu_code "
        "verify_vtcm_limit"
    ),
    "runner": "config local_runner runner utils",
    "schedule_rule": (
        "add_rfactor apply_custom_rule auto_bind auto_inline cross_thread_reduction "
        "multi_level_tiling parallel_vectorize_unroll random_compute_location schedule_rule"
    ),
    "search_strategy": "evolutionary_search replay_func replay_trace search_strategy",
    "space_generator": "post_order_apply schedule_fn space_generator space_generator_union",
    "task_scheduler": "gradient_based round_robin task_scheduler",
}
FILES = {family: tuple(files.split()) for family, files in _FILES.items()}


def register_path(parent: str, name: str, module: ModuleType) -> None:
    """Let `import parent.name` find a module that lies elsewhere."""
    sys.modules[f"{parent}.{name}"] = module
    setattr(sys.modules[parent], name, module)


def register_files(package: str) -> None:
    """Let every family of the package stand for the files that TVM has of it."""
    for family, files in FILES.items():
        path = f"{package}.{family}"
        for file in files:
            register_path(path, file, sys.modules[path])
