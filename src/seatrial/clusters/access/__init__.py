"""Access to an existing cluster, for every command: connect, create objects, submit, and clean up.

`run`, `submit`, `sample` and `clean` share it; a trial adds the parts of `live`.
"""
