"""Conformance suites: run them on your own members of a family as we do on ours."""
