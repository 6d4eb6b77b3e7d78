"""Plans: which sample comes in which domain, at which severity, in which order."""
