"""What the command line calls beside the benchmark: catalogue, descriptions, recommendation, replay."""
