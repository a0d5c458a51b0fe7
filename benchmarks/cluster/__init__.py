"""Carries out docs/how-to/training/cluster.md in miniature, on a Ray cluster of three nodes on this machine.

    OMP_NUM_THREADS=1 python -m benchmarks.cluster --out runs/cluster
    OMP_NUM_THREADS=1 python -m benchmarks.cluster --out runs/cluster --until filter   # the data alone

Every stage is a command in its own process. Trajectories are made twice: undisturbed, and with a node killed
(SIGKILL of its raylet and of all its workers) after a third of them. Fine-tuning is done twice too:
undisturbed, and with one of its two machines killed after the first checkpoint and started again. The last
line is JSON.
"""
