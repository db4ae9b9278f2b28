"""Runs programs of Swift's as an ordinary process: `python -m imbrex_swift.launch SWIFT_DIR LOG MODULE:MAIN ARGS`.

Swift reads `/etc/swift/swift.conf` when its modules are loaded, and logs to the system's syslog. Here the first is
SWIFT_DIR and the second is the file LOG. Nothing else of Swift changes.

`+ MODULE:MAIN ARGS` runs one more program after that, in the same process: daemons with `once` start faster so.
"""

import importlib
import logging
import logging.handlers
import os
import sys


class LogFile(logging.Handler):
    """Stands where Swift makes its handler of syslog, and takes what that takes.

    It has no lock. A green thread may be ended while it holds one, and a child inherits the locks that others held;
    whoever logs next would wait forever. One line is one write to the end of the file, which the kernel keeps whole.
    """

    path = os.devnull

    def __init__(self, address=None, facility=None, **_ignored):
        super().__init__()
        self.file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def createLock(self):
        self.lock = None

    def emit(self, record):
        try:
            os.write(self.file, (self.format(record) + "\n").encode("utf-8", "backslashreplace"))
        except Exception:
            self.handleError(record)

    def setFormatter(self, fmt):
        super().setFormatter(_Dated(fmt))


class _Dated(logging.Formatter):
    """Puts the time before a line, as syslog does."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def format(self, record):
        return f"{self.formatTime(record, '%H:%M:%S')}.{int(record.msecs):03} {self.inner.format(record)}"


def use_directory(swift_dir):
    """Makes `swift_dir` the directory of configurations for this process; before any other module of Swift."""
    # The hub and the patches come first, as in Swift's own programs.
    import swift.common.utils as settings

    settings.set_swift_dir(swift_dir)
    from swift.common import constraints, storage_policy

    constraints.reload_constraints()
    storage_policy.reload_storage_policies()


def programs(words):
    """Lists of words between the words `+`."""
    found = [[]]
    for word in words:
        if word == "+":
            found.append([])
        else:
            found[-1].append(word)
    return found


def keep_hub():
    """Keeps eventlet's hub for the programs that follow. Each would choose one, and the threads of the first wait in its own."""
    import eventlet.hubs

    eventlet.hubs.use_hub = lambda mod=None: None


def main():
    swift_dir, log, *words = sys.argv[1:]
    LogFile.path = log
    try:
        import swift.common.utils.logs as logs
    except ImportError as err:
        sys.exit(f"Swift is not installed in {sys.executable}: {err}")
    logs.ThreadSafeSysLogHandler = LogFile
    use_directory(swift_dir)
    status = None
    for program, *args in programs(words):
        module, function = program.split(":")
        run = getattr(importlib.import_module(module), function)
        sys.argv = [program, *args]
        # The program before may have put its log in their places.
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
        status = run() or status
        keep_hub()
    sys.exit(status)


if __name__ == "__main__":
    main()
