"""Markov chains over domains and classes, and the plans that follow them (Du et al., arXiv 2407.20080)."""
