"""Heron's way to a schedule: rules write a template and its constraints, CGA searches in them.

names       how variables are called
steps       schedule primitives as values: their text, their replay on a program
template    stages, loops and constraints while rules work on them
rules/      one rule a file
space       what rules made of an operator: a constraint problem and the steps that use its values
"""
