#!/usr/bin/env bash
# N × `holdfast bench` on one shared folder as a Slurm array: sbatch examples/slurm_array.sh cin-c
# Each task takes runs that no other task holds and leaves the rest; a task that is preempted is queued again and resumes.
#SBATCH --array=0-7
#SBATCH --cpus-per-task=4
#SBATCH --time=04:00:00
#SBATCH --requeue
#SBATCH --signal=B:TERM@60
set -euo pipefail
suite="${1:?usage: sbatch slurm_array.sh SUITE}"
export HOLDFAST_CACHE="${HOLDFAST_CACHE:-/shared/cache}"
# SIGTERM arrives a minute before the end: bench saves every run and exits with 130, and the task is queued again.
holdfast bench "$suite" --scale paper --out /shared/runs --render-workers 3 &
bench=$!
trap 'kill -TERM "$bench"' TERM
wait "$bench" || code=$?
[ "${code:-0}" -lt 128 ] && exit "${code:-0}"
wait "$bench" || true
scontrol requeue "$SLURM_JOB_ID"
