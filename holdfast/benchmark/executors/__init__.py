"""Executors: where jobs run. All have the same signature and give the same results."""

from holdfast.benchmark.executors.base import EXECUTORS, Executor, Lost
from holdfast.benchmark.executors.processes import processes
from holdfast.benchmark.executors.ray import ray
from holdfast.benchmark.executors.serial import serial
from holdfast.benchmark.executors.slurm import slurm

__all__ = ["EXECUTORS", "Executor", "Lost", "processes", "ray", "serial", "slurm"]
