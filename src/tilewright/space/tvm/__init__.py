"""MetaSchedule's own schedule rules, under its names and with its draws."""
