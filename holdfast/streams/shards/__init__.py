"""Streams as WebDataset shards: writing them, and replaying them in their stored order."""
