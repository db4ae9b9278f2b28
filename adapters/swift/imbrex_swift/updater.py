"""Swift's object-updater, for drives of Imbrex: ``imbrex-swift-object-updater CONFIG [once]``."""

from swift.common.daemon import run_daemon
from swift.common.utils import parse_options
from swift.obj import updater as swift_updater

from .client import DriveFailure
from .seams import rebound
from .tree import Tree


class ObjectUpdater(swift_updater.ObjectUpdater):
    """As Swift's; the updates that wait are objects of the drive."""

    def __init__(self, conf, logger=None):
        super().__init__(conf, logger)
        self._tree = Tree(self.devices)

    def _rebound(self, name):
        return rebound(
            getattr(swift_updater.ObjectUpdater, name),
            open=self._tree.open,
            os=self._tree.os,
            renamer=self._tree.renamer,
            write_pickle=self._tree.write_pickle,
        )

    def _listdir(self, path):
        return rebound(swift_updater.ObjectUpdater._listdir, os=self._tree.os)(self, path)

    def _process_devices(self, devices):
        served = []
        for device in devices:
            try:
                self._tree.check_drive(self.devices, device, True)
                served.append(device)
            except (ValueError, DriveFailure) as error:
                self.logger.warning("Skipping: %s", error)
        run = rebound(
            swift_updater.ObjectUpdater._process_devices, check_drive=self._tree.check_drive
        )
        return run(self, served)

    def _iter_async_pendings(self, device):
        return self._rebound("_iter_async_pendings")(self, device)

    def _load_update(self, device, update_path):
        return self._rebound("_load_update")(self, device, update_path)

    def process_object_update(self, *args, **kwargs):
        return self._rebound("process_object_update")(self, *args, **kwargs)


def main():
    conf_file, options = parse_options(once=True)
    run_daemon(ObjectUpdater, conf_file, **options)


if __name__ == "__main__":
    main()
