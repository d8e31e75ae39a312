"""Traces of workloads: files of other programs and our own become one table of jobs, and that becomes a load with due times.

`reading` reads a file of any format into the columns of `columns`; `selecting` keeps what a scenario asked for; `arrivals` makes
the arrays that a submit replays. Nothing here knows scenarios or clusters.
"""
