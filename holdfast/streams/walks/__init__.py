"""CCC: paths between two corruptions at constant accuracy, and the walk along them (Press et al., NeurIPS 2023)."""
