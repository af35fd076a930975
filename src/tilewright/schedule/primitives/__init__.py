"""The built-in primitives, one a file; `Schedule` has a method for each."""
