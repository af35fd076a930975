"""Design spaces as algebra: sketches with open decisions, interpreted once for populations."""
