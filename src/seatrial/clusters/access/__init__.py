"""What every command does with a cluster that is there: reach it, make objects in it, submit to it, and clean up.

`run`, `submit`, `sample` and `clean` share it; a trial adds the parts of `live`.
"""
