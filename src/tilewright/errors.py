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
    │   └── KernelAssertError   an assertion inside the compiled function failed
    ├── TuneError               a task that cannot be tuned, or options that make no sense
    │   ├── DatabaseError       a database that cannot be opened or asked


class MachineError(TuneError):
    """The machine lacks disk space, memory, open files or processes; no candidate is to blame."""
