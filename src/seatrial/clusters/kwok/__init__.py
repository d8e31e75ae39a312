"""Fake nodes: the Node objects, the stages that KWOK plays on them and their pods, and KWOK as a process."""
