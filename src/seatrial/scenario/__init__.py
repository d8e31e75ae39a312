"""The scenario language: a YAML file in, trials out.

`document.read` reads a file, `expansion.expand` makes trials of it. All mistakes of a file are reported together, each with
file:line:column and what to write instead.
"""
