"""Going on where an earlier call stopped."""
