"""Traces of schedules: instructions, their text and JSON, and the random engine behind samples."""
