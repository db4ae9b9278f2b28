"""What tests with Swift's daemons share: three devices behind a real object server, and a ring of them."""

from unittest import mock

import eventlet
import eventlet.wsgi
from scene import POLICIES, Served

from swift.common.utils import Timestamp, md5
from swift.obj import server as swift_server

from imbrex_swift import metadata as envelopes


class Ring:
    """`primaries` are the numbers of the devices that each partition belongs to."""

    next_part_power = None
    reload_time = 15

    def __init__(self, port, devices, primaries):
        self.devs = [
            {
                "id": number, "device": f"d{number + 1}", "ip": "127.0.0.1", "port": port, "region": 1, "zone": number,
                "replication_ip": "127.0.0.1", "replication_port": port, "weight": 1,
            }
            for number in range(devices)
        ]
        self.primaries = primaries
        self.replica_count = self.replicas = len(primaries)

    def get_part_nodes(self, part):
        return [{**self.devs[number], "index": index} for index, number in enumerate(self.primaries)]

    def get_nodes(self, account, container=None, obj=None):
        return 0, self.get_part_nodes(0)

    def get_more_nodes(self, part):
        others = [dev for dev in self.devs if dev["id"] not in self.primaries]
        for index, dev in enumerate(others):
            yield {**dev, "handoff_index": index}

    def has_changed(self):
        return False


class Cluster(Served):
    """Three devices behind one object server."""

    policy = POLICIES[0]
    primaries = (0, 1)

    def setUp(self):
        super().setUp()
        self.serve("d2")
        self.serve("d3")
        listener = eventlet.listen(("127.0.0.1", 0))
        self.port = listener.getsockname()[1]
        app = swift_server.ObjectController(self.conf(replication_concurrency="0"), self.logger)
        server = eventlet.spawn(eventlet.wsgi.server, listener, app, log_output=False)
        self.addCleanup(listener.close)
        self.addCleanup(server.kill)
        self.app = app
        ring = Ring(self.port, 3, self.primaries)
        before = self.policy.object_ring
        self.policy.object_ring = ring
        self.addCleanup(setattr, self.policy, "object_ring", before)
        # The rings of other policies do not exist.
        for module in ("replicator", "reconstructor"):
            found = mock.patch(f"swift.obj.{module}.POLICIES", [self.policy])
            found.start()
            self.addCleanup(found.stop)

    def daemon_conf(self, **more):
        return self.conf(
            bind_ip="127.0.0.1", bind_port=str(self.port), recon_cache_path=self.directory,
            # A machine that has much to do is no failure.
            node_timeout="60", conn_timeout="30", http_timeout="60", swift_dir=self.directory, **more,
        )

    def manager(self):
        return self.app._diskfile_router[self.policy]

    def put(self, device, name, data, at, part="5", index=None, meta=None):
        kwargs = {} if index is None else {"frag_index": index}
        diskfile = self.manager().get_diskfile(device, part, "a", "c", name, self.policy, **kwargs)
        at = Timestamp(at)
        with diskfile.create(size=len(data)) as writer:
            writer.write(data)
            etag = md5(data, usedforsecurity=False).hexdigest()
            writer.put({"X-Timestamp": at.internal, "ETag": etag, "Content-Length": str(len(data)),
                        "Content-Type": "a/b", **(meta or {})})
            writer.commit(at)
        return diskfile

    def objects(self, device):
        """The files of a device: keys with data and metadata."""
        entries = self.stores[device].entries
        return {
            key: (data, envelopes.decode(envelope, key))
            for key, (data, envelope) in entries.items()
            if key.startswith(b"objects")
        }
