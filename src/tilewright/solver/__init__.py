"""Solutions of constraint problems: even samples, repairs, explanations; one interface."""
