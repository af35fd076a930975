"""Moving blocks: plans, the nests they get, and the bindings of their iterators."""
