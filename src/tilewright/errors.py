"""Every exception Tilewright raises on purpose.

    TilewrightError
    ├── ConfigError             an environment variable with a value that makes no sense
    ├── IRError                 a node that cannot be built (dtype mismatch, bad lanes, ...)
    │   └── WellFormedError     a program that breaks a rule of TensorIR (undefined variable, ...)
    ├── ScriptError             a TVMScript source that does not parse; shows the user's line
    ├── TensorExpressionError   a tensor expression that makes no sense
    ├── ArithError              an arithmetic analysis asked something it cannot answer
    ├── ScheduleError           a primitive whose precondition does not hold
    ├── LowerError              a pass that met a program it cannot lower
    ├── CodegenError            a lowered program that a backend cannot express
    ├── TargetError             an unknown or inconsistent target
    ├── RuntimeFailure          a compiled function that could not run
    │   ├── ArgumentError       a wrong argument: shape, dtype, device, contiguity, alignment
    │   │   └── OverlapError    an array that is written overlaps another one
    │   ├── KernelAssertError   an assertion inside the compiled function failed
    │   └── DeviceError         a GPU that is missing, lacks something, or failed
    ├── TuneError               a task that cannot be tuned, or options that make no sense
    │   ├── DatabaseError       a database that cannot be opened or asked
    │   │   └── StoredDataError stored data that is damaged; names the row
    │   ├── MachineError        the machine lacks something: disk space, memory, files, processes
    │   └── MemberError         a rule, cost model, ... of the user's own raised an exception
    ├── ServeError              a live page that cannot be served as it was asked for
    │   └── MissingPageError    an address that names a task or a record that is not there
    └── RegistryError           a name that is registered twice or not at all

A user's mistake is always one of these; a bug of ours surfaces as a built-in exception.
"""

from __future__ import annotations


class TilewrightError(Exception):
    """Root of all errors that Tilewright raises on purpose."""


class ConfigError(TilewrightError, ValueError):
    """An environment variable with a value that makes no sense."""


class IRError(TilewrightError, ValueError):
    """A node that cannot be built from what was given."""


class WellFormedError(IRError):
    """A program that breaks a rule of TensorIR."""


class ScriptError(TilewrightError, SyntaxError):
    """A script source that cannot be turned into TensorIR."""


class TensorExpressionError(TilewrightError, ValueError):
    """A tensor expression that makes no sense."""


class GraphError(TilewrightError, ValueError):
    """A graph of operators that cannot be: unknown operators, types that do not fit, cycles."""


class ArithError(TilewrightError, ValueError):
    """An arithmetic analysis was asked something it cannot answer."""


class ScheduleError(TilewrightError, RuntimeError):
    """A schedule primitive whose precondition does not hold."""


class LowerError(TilewrightError, RuntimeError):
    """A pass met a program that it cannot lower."""


class CodegenError(TilewrightError, RuntimeError):
    """A backend cannot express the lowered program."""


class TargetError(TilewrightError, ValueError):
    """An unknown or inconsistent target."""


class RuntimeFailure(TilewrightError, RuntimeError):
    """A compiled function could not run."""


class ArgumentError(RuntimeFailure, TypeError):
    """An argument of a compiled function does not fit its signature."""


class OverlapError(ArgumentError):
    """An array that a function writes shares memory with another argument."""


class KernelAssertError(RuntimeFailure):
    """An assertion inside a compiled function failed."""


class DeviceError(RuntimeFailure):
    """A GPU that is missing, lacks something, or failed; `is_lost`: this process has to end."""

    def __init__(self, message: str, *, is_lost: bool = False) -> None:
        super().__init__(message)
        self.is_lost = is_lost


class RegistryError(TilewrightError, KeyError, ValueError):
    """A name is registered twice, or not at all."""

    def __str__(self) -> str:
        # KeyError would show the repr of the message.
        return str(self.args[0]) if self.args else ""


class TuneError(TilewrightError, ValueError):
    """A task that cannot be tuned, or options of the tuner that make no sense."""


class DatabaseError(TuneError):
    """A database of tuning records that cannot be opened or asked."""


class StoredDataError(DatabaseError):
    """A row of a database, or a file of records, that does not hold what its place is for."""


class MachineError(TuneError):
    """The machine lacks disk space, memory, open files or processes; no candidate is to blame."""


class MemberError(TuneError):
    """A member of the user's own (rule, cost model, strategy, ...) raised; `__cause__` is what."""


class ServeError(TilewrightError, ValueError):
    """A live page that cannot be served as it was asked for."""


class MissingPageError(ServeError):
    """An address that names a task or a record that the database does not have."""
