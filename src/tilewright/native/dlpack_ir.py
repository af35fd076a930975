"""The native code that frees DLPack capsules, as LLVM IR: it may run while Python shuts down."""

from __future__ import annotations

import re
from collections.abc import Mapping

# A consumer calls the deleter; an unused capsule calls it from its own destructor.
_DELETER_IR = """
define void @tw_dlpack_delete_{name}(ptr %managed) {{
  %alive = call i32 @Py_IsInitialized()
  %gone = icmp eq i32 %alive, 0
  br i1 %gone, label %done, label %release
release:
  %lock = call i32 @PyGILState_Ensure()
  %place = getelementptr i8, ptr %managed, i64 {manager_at}
  %owner = load ptr, ptr %place
  call void @Py_DecRef(ptr %owner)
  call void @PyMem_RawFree(ptr %managed)
  call void @PyGILState_Release(i32 %lock)
  br label %done
done:
  ret void
}}

@tw_dlpack_name_{name} = constant [{length} x i8] c"{name}\\00"

define void @tw_dlpack_drop_{name}(ptr %capsule) {{
  %unused = call i32 @PyCapsule_IsValid(ptr %capsule, ptr @tw_dlpack_name_{name})
  %used = icmp eq i32 %unused, 0
  br i1 %used, label %done, label %drop
drop:
  %managed = call ptr @PyCapsule_GetPointer(ptr %capsule, ptr @tw_dlpack_name_{name})
  call void @tw_dlpack_delete_{name}(ptr %managed)
  br label %done
done:
  ret void
}}
"""
_DECLARATIONS = """
declare i32 @Py_IsInitialized()
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare void @Py_DecRef(ptr)
declare void @PyMem_RawFree(ptr)
declare i32 @PyCapsule_IsValid(ptr, ptr)
declare ptr @PyCapsule_GetPointer(ptr, ptr)
"""
# What the code calls, all of it of Python's C interface.
PYTHON_FUNCTIONS: list[str] = re.findall(r"@(Py\w+)\(", _DECLARATIONS)


def capsule_ir(manager_at: Mapping[str, int]) -> str:
    """For each name of capsules its deleter, its destructor and the name itself.

    `manager_at` says for each name how far into a capsule's memory the owner of the data stands.
    """
    parts = (
        _DELETER_IR.format(name=name, length=len(name) + 1, manager_at=at)
        for name, at in manager_at.items()
    )
    return _DECLARATIONS + "".join(parts)
