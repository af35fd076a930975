"""Results of tuning for people: figures of merit, record ids, and a report in one HTML file."""
