"""Becomes the program given, tied to the life of the process that started it: `launcher.py OWNER-PID PROGRAM ARG…`.

A separate tiny program because the wish must be made between fork and exec, and running Python code there
(`preexec_fn`) can deadlock in a process with threads. It costs about 20 ms per component. Started with `python -I
-S`, so it may import nothing but the standard library.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    owner = int(sys.argv[1])
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != owner:  # it died before we asked to be told
        os._exit(1)
    try:
        os.execv(sys.argv[2], sys.argv[2:])
    except OSError as error:
        print(f"{sys.argv[2]}: {error.strerror}", file=sys.stderr)
        os._exit(127)


if __name__ == "__main__":
    main()
