"""Models of other frameworks as graphs; each needs its framework, which is imported when used."""
