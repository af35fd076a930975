"""Building and measuring on many machines: Ray runs the actors, `scheduler` says who does what."""
