"""Cache stages: blocks that copy a region of a buffer, and where they go."""
