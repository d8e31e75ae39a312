"""Executes a program that the kernel kills when its owner dies: `launcher.py OWNER-PID PROGRAM ARG…`.

A program of its own, because the kernel must be asked between fork and exec, and Python code there (`preexec_fn`) can deadlock in a
process with threads. It costs about 20 ms per component. It runs with `python -I -S` and imports the standard library alone.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Asks to be killed with the owner, then becomes the program."""
    owner = int(sys.argv[1])
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != owner:  # the owner died before we asked
        os._exit(1)
    try:
        os.execv(sys.argv[2], sys.argv[2:])
    except OSError as error:
        print(f"{sys.argv[2]}: {error.strerror}", file=sys.stderr)
        os._exit(127)


if __name__ == "__main__":
    main()
