"""The machine: folders and files, child processes, signals, devices."""
