"""Names and options as suites, commands and Python write them, and what can be wrong with them."""
