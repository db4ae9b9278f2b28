"""Swift's object-reconstructor, for drives of Imbrex: ``imbrex-swift-object-reconstructor CONFIG [once]``."""

from swift.common.daemon import run_daemon
from swift.common.utils import parse_options
from swift.obj import reconstructor as swift_reconstructor

from .seams import rebound
from .tree import Direct, Tree, nothing


class ObjectReconstructor(swift_reconstructor.ObjectReconstructor):
    """As Swift's; partitions come from ranges of keys."""

    def __init__(self, conf, logger=None):
        super().__init__(conf, logger)
        self._tree = Tree(self.devices_dir)

    def _rebound(self, name):
        return rebound(
            getattr(swift_reconstructor.ObjectReconstructor, name),
            mkdirs=nothing,
            os=self._tree.os,
            remove_directory=nothing,
            tpool=Direct,
            unlink_older_than=nothing,
        )

    def collect_parts(self, *args, **kwargs):
        return self._rebound("collect_parts")(self, *args, **kwargs)

    def _get_hashes(self, *args, **kwargs):
        return self._rebound("_get_hashes")(self, *args, **kwargs)

    def delete_reverted_objs(self, job, objects):
        return self._rebound("delete_reverted_objs")(self, job, objects)

    def delete_partition(self, path):
        """A partition without files is none, so there is nothing to remove."""
        self.logger.debug("Partition has no files: %s", path)


def main():
    parser = swift_reconstructor.OptionParser("%prog CONFIG [options]")
    for flag, option, what in (("-d", "--devices", "devices"), ("-p", "--partitions", "partitions")):
        parser.add_option(flag, option, help=f"only these {what}, separated by commas; with --once")
    conf_file, options = parse_options(parser=parser, once=True)
    run_daemon(ObjectReconstructor, conf_file, **options)


if __name__ == "__main__":
    main()
