"""One thread for each test process: they share the cores, and sums in one order give one result."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # for the processes that tests start

import torch

torch.set_num_threads(1)
