"""Swift's object-replicator, for drives of Imbrex: ``imbrex-swift-object-replicator CONFIG [once]``.

Jobs come from ranges of keys, and partitions are replicated by Swift's ssync. Partitions and objects of a handoff are
removed only as far as nothing has been written to them since the job began.
"""

import os
import sys

from swift.common.daemon import run_daemon
from swift.common.utils import parse_options
from swift.obj import replicator as swift_replicator

from .client import DriveFailure
from .diskfile import as_key, digests_of
from .seams import rebound
from .tree import Direct, Tree, nothing


class ObjectReplicator(swift_replicator.ObjectReplicator):
    """As Swift's. `sync_method` is ssync; nothing of a drive can be given to rsync."""

    def __init__(self, conf, logger=None):
        method = conf.get("sync_method", "ssync")
        if method != "ssync":
            raise ValueError("[object-replicator] sync_method = %s: drives of Imbrex need ssync" % method)
        super().__init__({**conf, "sync_method": "ssync"}, logger)
        self._tree = Tree(self.devices_dir)
        #: The digests of a partition when its job began, by the path of the job.
        self._began = {}

    def _rebound(self, name, **more):
        return rebound(
            getattr(swift_replicator.ObjectReplicator, name),
            check_drive=self._tree.check_drive,
            isdir=self._tree.isdir,
            isfile=lambda path: False,
            listdir=self._tree.listdir,
            mkdirs=nothing,
            os=self._tree.os,
            tpool=Direct,
            unlink_older_than=nothing,
            **more,
        )

    def build_replication_jobs(self, *args, **kwargs):
        return self._rebound("build_replication_jobs")(self, *args, **kwargs)

    def replicate(self, *args, **kwargs):
        return self._rebound("replicate")(self, *args, **kwargs)

    def update(self, job):
        return self._rebound("update")(self, job)

    def revert(self, job):
        try:
            drive, directory = self._tree.place(job["path"])
            self._began[job["path"]] = dict(digests_of(drive, directory)) if drive else {}
        except DriveFailure:
            self.logger.exception("Error reading %s", job["path"])
            return None
        try:
            return self._rebound("revert")(self, job)
        finally:
            self._began.pop(job["path"], None)

    def delete_partition(self, path):
        self.logger.info("Removing partition: %s", path)
        drive, directory = self._tree.place(path)
        for suffix, digest in self._began.get(path, {}).items():
            if not drive.call("drop", directory + b"/" + as_key(suffix), digest):
                self.logger.info("%s has been written to: it stays until the next pass", os.path.join(path, suffix))

    def delete_handoff_objs(self, job, delete_objs):
        deleted, failed = [], []
        drive, directory = self._tree.place(job["path"])
        began = dict(self._began.get(job["path"], {}))
        for object_hash in delete_objs:
            suffix = object_hash[-3:]
            key = b"/".join((directory, as_key(suffix), as_key(object_hash)))
            path = os.path.join(job["path"], suffix, object_hash)
            try:
                if drive.call("drop", key, began.get(suffix)):
                    deleted.append(path)
                    # The mark that this one has left is what the next one of its suffix expects.
                    stat = drive.stat(b"digests/" + directory + b"/" + as_key(suffix))
                    began[suffix] = stat[1] if stat else None
            except DriveFailure:
                failed.append(path)
                self.logger.exception("Unexpected error removing %r", path)
        return deleted, failed


def main():
    parser = swift_replicator.OptionParser("%prog CONFIG [options]")
    for flag, option, what in (
        ("-d", "--devices", "devices"),
        ("-p", "--partitions", "partitions"),
        ("-i", "--policies", "indices of policies"),
    ):
        parser.add_option(flag, option, help=f"only these {what}, separated by commas; with --once")
    conf_file, options = parse_options(parser=parser, once=True)
    try:
        run_daemon(ObjectReplicator, conf_file, **options)
    except ValueError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
