"""Lowered functions as readable C99, for GCC and Clang.

types.py        how types, constants and names are spelled
expressions.py  expressions, vectors one lane at a time
calls.py        builtin operators and calls by name
vectors.py      whole vectors, where the vector extension says it directly
statements.py   statements
prelude.py      helper functions
module.py       the file
"""
