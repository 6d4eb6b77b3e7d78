"""A classifier that adapts: `adapt`, `guard`, the step as a transaction, and the checks of its inputs."""
