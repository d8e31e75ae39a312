"""A trial on a real API server, made of parts that `local` and `attached` choose."""
