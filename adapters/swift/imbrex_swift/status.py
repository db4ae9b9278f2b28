"""What the drives of a node are and have: ``imbrex-swift-status /srv/node``.

It says what Swift's recon finds in directories: which devices are not there, how full they are, how much is quarantined,
how many updates of containers wait. It asks the daemons, and changes nothing.
"""

import argparse
import json
import os
import sys

from . import identity, names
from .client import SOCKET_NAME, DriveFailure, drive_of
from .drive import Problem, cluster_for


def status_of(drive):
    """The figures of a drive that is served."""
    capacity, free = drive.room()
    quarantined = waiting = 0
    for top, _ in drive.children(b""):
        if top == names.QUARANTINED:
            for kind, _ in drive.children(top):
                quarantined += sum(1 for _ in drive.children(names.join(top, kind)))
        elif top.startswith(b"async_pending"):
            waiting += sum(1 for _ in drive.scan(top + b"/"))
    return {"capacity_bytes": capacity, "free_bytes": free, "quarantined": quarantined, "async_pending": waiting}


def statuses(devices, cluster):
    """The devices below a directory that have or had a daemon, each with its figures or with `error`."""
    found = {}
    for device in sorted(os.listdir(devices)):
        if not os.path.lexists(os.path.join(devices, device, SOCKET_NAME)) and not is_empty(devices, device):
            # A device of a file system.
            continue
        try:
            found[device] = status_of(drive_of(devices, device, cluster))
        except DriveFailure as error:
            found[device] = {"error": error.strerror}
    return found


def is_empty(devices, device):
    """Whether a device is a directory where nothing lies: its daemon may not have been started."""
    try:
        return not os.listdir(os.path.join(devices, device))
    except NotADirectoryError:
        return False


def table(found):
    """The figures as lines of text."""
    rows = [("device", "free", "of", "quarantined", "waiting")]
    for device, status in found.items():
        if "error" in status:
            rows.append((device, "-", "-", "-", "-", status["error"]))
        else:
            free, capacity = (f"{status[name] / 2**30:.1f} GiB" for name in ("free_bytes", "capacity_bytes"))
            rows.append((device, free, capacity, str(status["quarantined"]), str(status["async_pending"])))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    lines = []
    for device, *cells in rows:
        figures = [cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=False)]
        lines.append("  ".join([device.ljust(widths[0]), *figures, *cells[4:]]))
    return "\n".join(lines)


def parse(arguments):
    parser = argparse.ArgumentParser(prog="imbrex-swift-status", description=__doc__.partition("\n")[0])
    parser.add_argument("devices", metavar="DEVICES", nargs="?", default="/srv/node")
    parser.add_argument("--swift-dir", default="/etc/swift", help="where swift.conf lies")
    parser.add_argument("--json", action="store_true", help="for programs; lengths in bytes")
    return parser.parse_args(arguments)


def run(options):
    """Prints the figures; the exit code is 1 if a device is not served."""
    found = statuses(options.devices, cluster_for(options))
    print(json.dumps(found, indent=2) if options.json else table(found))
    return 1 if any("error" in status for status in found.values()) else 0


def main(arguments=None):
    try:
        sys.exit(run(parse(arguments)))
    except (Problem, identity.WrongDrive, OSError) as error:
        print(f"imbrex-swift-status: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
