"""Files to arrays: images, Parquet columns and rows of runs."""
