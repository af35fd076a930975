"""The live page: tasks, nodes, rooflines and schedules of a database of records, in a browser."""
