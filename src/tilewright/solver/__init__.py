"""Solutions of constraint problems: even samples, repairs, explanations; one interface.

Importing this package makes the solvers known by name.
"""

from tilewright.solver.array_solver import ArraySolver as ArraySolver
from tilewright.solver.base import (
    NoSolutionError as NoSolutionError,
    SolutionSet as SolutionSet,
    SolutionSpace as SolutionSpace,
    Solver as Solver,
    solvers as solvers,
)
from tilewright.solver.cp_sat import CpSatSolver as CpSatSolver
