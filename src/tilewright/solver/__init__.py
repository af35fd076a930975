"""Solutions of constraint problems: even samples, repairs and explanations, behind one interface."""
