"""Other machines, as Ray has them: the connection, our code on them, and whether they would give the same bytes as this one."""
