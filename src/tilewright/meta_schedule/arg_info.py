"""Types and shapes of arguments."""

from tilewright.records import ArgInfo as ArgInfo, TensorInfo as TensorInfo, args_info_of

from_entry_func = args_info_of
