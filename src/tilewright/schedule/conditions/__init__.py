"""Conditions that primitives check before they change a program."""
