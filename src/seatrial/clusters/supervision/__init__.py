"""Processes of this machine: the directory of a cluster, its ports, and the supervisor that starts, watches and stops programs."""
