"""Rings and configurations of a cluster to try, written into its directory.

The proxy has every filter that Swift's functional tests ask for, so that they run and are not skipped.
Objects replicate by ssync. Databases of accounts and containers are Swift's and replicate by rsync.
"""

import os
import secrets

from imbrex_swift.cluster_plan import TEST_ACCOUNTS, USERS, ClusterError, write_record

PIPELINE = (
    "catch_errors gatekeeper healthcheck proxy-logging cache etag-quoter domain_remap listing_formats "
    "container_sync bulk tempurl ratelimit crossdomain formpost s3api tempauth staticweb copy container-quotas "
    "account-quotas slo dlo versioned_writes symlink proxy-logging proxy-server"
)

#: Filters whose name is that of the program, and which need no option.
PLAIN = {
    "catch_errors": "catch_errors", "gatekeeper": "gatekeeper", "healthcheck": "healthcheck",
    "proxy-logging": "proxy_logging", "listing_formats": "listing_formats",
    "bulk": "bulk", "tempurl": "tempurl", "ratelimit": "ratelimit", "crossdomain": "crossdomain",
    "formpost": "formpost", "staticweb": "staticweb", "copy": "copy", "container-quotas": "container_quotas",
    "account-quotas": "account_quotas", "slo": "slo", "dlo": "dlo", "symlink": "symlink",
}

#: Names below which containers are hosts, for `domain_remap` and S3.
STORAGE_DOMAIN = "example.net"

#: Seconds between two rounds of a process in the background.
INTERVAL_S = 30


def write_cluster(plan):
    """Makes the directory of the cluster. Nothing may be there."""
    try:
        os.makedirs(plan.directory, mode=0o700, exist_ok=True)
        write_record(plan, complete=False)
    except OSError as err:
        raise ClusterError(f"cannot make {plan.directory}: {err.strerror}") from None
    for part in ("etc", "log", "run", "drives", "cache"):
        os.makedirs(plan.path(part))
    for node in plan.nodes:
        os.makedirs(os.path.join(plan.devices(node), plan.device(node)))
        os.makedirs(plan.path("cache", f"node{node}"))
    if plan.options.backend == "directories":
        _require_attributes(plan)
    _write_swift_conf(plan)
    _write_rings(plan)
    _write_proxy(plan)
    _write_internal_client(plan)
    for node in plan.nodes:
        _write_node(plan, node)
    for account in TEST_ACCOUNTS:
        _write_test_conf(plan, account)
    write_record(plan, complete=True)


def _require_attributes(plan):
    """Swift keeps the metadata of an object in extended attributes of its file."""
    try:
        os.setxattr(plan.devices(1), "user.imbrex", b"?")
        os.removexattr(plan.devices(1), "user.imbrex")
    except OSError as err:
        raise ClusterError(
            f"{plan.directory}: this file system has no extended attributes, which Swift needs ({err.strerror})"
        ) from None


def _write(path, *sections):
    """Sections are pairs of a name and options."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    lines = []
    for name, options in sections:
        lines.append(f"[{name}]")
        lines.extend(f"{key} = {value}" for key, value in options.items())
        lines.append("")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines))
    os.chmod(path, 0o600)


def _write_swift_conf(plan):
    imbrex = plan.options.backend == "imbrex"
    sections = [("swift-hash", {
        "swift_hash_path_prefix": secrets.token_hex(8),
        "swift_hash_path_suffix": secrets.token_hex(8),
    })]
    for policy in plan.policies:
        options = {"name": policy.name}
        kind = "erasure_coding" if policy.is_ec else "replication"
        options["policy_type"] = kind
        if policy.index == 0:
            options["default"] = "yes"
        if policy.is_ec:
            options.update(ec_type="liberasurecode_rs_vand", ec_num_data_fragments=2, ec_num_parity_fragments=1)
        if imbrex:
            options["diskfile_module"] = f"egg:imbrex-swift#{kind}.imbrex"
        sections.append((f"storage-policy:{policy.index}", options))
    _write(plan.conf("swift"), *sections)


def _write_rings(plan):
    from swift.common.ring import RingBuilder

    kinds = [("account", "account", plan.options.replicas), ("container", "container", plan.options.replicas)]
    kinds += [(policy.ring, "object", policy.replicas) for policy in plan.policies]
    for name, kind, replicas in kinds:
        builder = RingBuilder(plan.options.part_power, replicas, 0)
        for node in plan.nodes:
            address, port = plan.address(node), plan.port(kind)
            builder.add_dev({
                "region": 1, "zone": node, "weight": 100.0, "device": plan.device(node), "meta": "",
                "ip": address, "port": port, "replication_ip": address, "replication_port": port,
            })
        # The same seed, so that two clusters of the same options place alike.
        builder.rebalance(seed=1)
        builder.save(plan.path("etc", f"{name}.builder"))
        builder.get_ring().save(plan.path("etc", f"{name}.ring.gz"))


def _memcached(plan):
    return f"127.0.0.1:{plan.port('memcached')}"


def _process(plan, **more):
    """Options that every process has."""
    return {"swift_dir": plan.swift_dir, "user": plan.user, "log_level": "INFO", **more}


def _write_proxy(plan):
    accounts = {f"user_{account}_{user}": words for (account, user), words in USERS.items()}
    filters = [(f"filter:{name}", {"use": f"egg:swift#{program}"}) for name, program in PLAIN.items()]
    realm = plan.path("etc", "container-sync-realms.conf")
    _write(
        plan.conf("proxy-server"),
        ("DEFAULT", _process(plan, bind_ip="127.0.0.1", bind_port=plan.port("proxy"), workers=2)),
        ("pipeline:main", {"pipeline": PIPELINE}),
        ("app:proxy-server", {
            "use": "egg:swift#proxy", "allow_account_management": "true", "account_autocreate": "true",
            # Four servers share two cores: a busy one is slow, not lost.
            "node_timeout": 60, "recoverable_node_timeout": 60, "conn_timeout": 5,
            # A node that comes back is asked again soon: with four nodes there is no other to ask for a minute.
            "error_suppression_interval": 5,
        }),
        ("filter:tempauth", {
            "use": "egg:swift#tempauth", "reseller_prefix": "AUTH, SERVICE", "SERVICE_require_group": "service",
            "storage_url_scheme": "http", **accounts,
        }),
        ("filter:cache", {"use": "egg:swift#memcache", "memcache_servers": _memcached(plan)}),
        ("filter:s3api", {
            "use": "egg:swift#s3api", "s3_acl": "yes", "check_bucket_owner": "yes",
            "cors_preflight_allow_origin": "*", "storage_domain": STORAGE_DOMAIN, "location": "us-east-1",
        }),
        ("filter:versioned_writes", {
            "use": "egg:swift#versioned_writes", "allow_versioned_writes": "true", "allow_object_versioning": "true",
        }),
        ("filter:etag-quoter", {"use": "egg:swift#etag_quoter", "enable_by_default": "false"}),
        ("filter:domain_remap", {"use": "egg:swift#domain_remap", "storage_domain": STORAGE_DOMAIN}),
        ("filter:container_sync", {"use": "egg:swift#container_sync", "current": "//try/here"}),
        *filters,
    )
    key = secrets.token_hex(8)
    _write(realm, ("try", {"key": key, "cluster_here": plan.url("/v1/")}))


def _write_internal_client(plan):
    plain = ("catch_errors", "proxy-logging", "symlink")
    _write(
        plan.conf("internal-client"),
        ("DEFAULT", _process(plan)),
        ("pipeline:main", {"pipeline": "catch_errors proxy-logging cache symlink proxy-server"}),
        ("app:proxy-server", {
            "use": "egg:swift#proxy", "account_autocreate": "true", "allow_account_management": "true",
        }),
        ("filter:cache", {"use": "egg:swift#memcache", "memcache_servers": _memcached(plan)}),
        *((f"filter:{name}", {"use": f"egg:swift#{PLAIN[name]}"}) for name in plain),
    )
    # The reconciler reads its own file, and is the internal client's pipeline with one more section.
    with open(plan.conf("internal-client"), encoding="utf-8") as file:
        text = file.read()
    with open(plan.conf("container-reconciler"), "w", encoding="utf-8") as file:
        file.write(text + f"\n[container-reconciler]\ninterval = {INTERVAL_S}\n")


def _write_node(plan, node):
    address = plan.address(node)
    client = plan.conf("internal-client")

    def default(kind):
        return ("DEFAULT", _process(
            plan, devices=plan.devices(node), mount_check="false", disable_fallocate="true", bind_ip=address,
            bind_port=plan.port(kind), workers=0, recon_cache_path=plan.path("cache", f"node{node}"),
        ))

    def server(kind):
        return [
            ("pipeline:main", {"pipeline": f"healthcheck recon {kind}-server"}),
            (f"app:{kind}-server", {"use": f"egg:swift#{kind}", "replication_concurrency_per_device": 4}),
            ("filter:healthcheck", {"use": "egg:swift#healthcheck"}),
            ("filter:recon", {"use": "egg:swift#recon"}),
        ]

    every = {"interval": INTERVAL_S}
    databases = {
        **every, "concurrency": 2,
        # Each node has an rsync of its own, all on one port: the template knows the receiver's address only.
        "rsync_module": f"rsync://{{replication_ip}}:{plan.port('rsync')}/databases",
    }
    _write(
        plan.conf("object", node), default("object"), *server("object"),
        ("object-replicator", {
            **every, "sync_method": "ssync", "concurrency": 2, "ring_check_interval": 5, "stats_interval": 60,
        }),
        ("object-reconstructor", {**every, "concurrency": 2, "ring_check_interval": 5, "stats_interval": 60}),
        ("object-updater", {**every, "concurrency": 2}),
        ("object-auditor", {**every, "files_per_second": 200, "concurrency": 1}),
        ("object-expirer", {**every, "internal_client_conf_path": client}),
    )
    _write(
        plan.conf("container", node), default("container"), *server("container"),
        ("container-replicator", databases),
        ("container-updater", {"interval": 10}),
        ("container-auditor", every),
        ("container-sync", {**every, "internal_client_conf_path": client}),
        ("container-sharder", {
            **databases, "auto_shard": "true", "shard_container_threshold": 100, "shard_scanner_batch_size": 10,
            "cleave_batch_size": 2, "internal_client_conf_path": client,
        }),
    )
    _write(
        plan.conf("account", node), default("account"), *server("account"),
        ("account-replicator", databases), ("account-auditor", every), ("account-reaper", every),
    )
    with open(plan.path("etc", f"rsyncd-{node}.conf"), "w", encoding="utf-8") as file:
        file.write(
            f"address = {address}\nport = {plan.port('rsync')}\nuse chroot = no\n"
            f"reverse lookup = no\n[databases]\npath = {plan.devices(node)}\nread only = no\n"
            # A daemon that root starts would be nobody else; one that a person starts stays that person.
            + (f"uid = {os.getuid()}\ngid = {os.getgid()}\n" if os.getuid() == 0 else "")
        )


def _write_test_conf(plan, account):
    """A configuration of Swift's own tests, for `SWIFT_TEST_CONFIG_FILE`."""
    keys = {user: words.split()[0] for (_, user), words in USERS.items()}
    options = {"auth_uri": plan.url("/auth/v1.0"), "auth_version": 1, "collate": "C", "insecure": "no",
               "service_prefix": "SERVICE", "storage_domain": STORAGE_DOMAIN}
    for number, of, user in (("", account, "tester"), ("2", f"{account}2", "tester2"), ("3", None, "tester3"),
                             ("5", f"{account}5", "tester5"), ("6", account, "tester6")):
        if of:
            options[f"account{number}"] = of
        options[f"username{number}"] = user
        options[f"password{number}"] = keys[user]
    s3 = {"endpoint": plan.url(), "region": "us-east-1", "s3_acl_tests_enabled": "true"}
    for number, user in enumerate(("tester", "tester2", "tester3"), 1):
        of_function = "" if number == 1 else number
        options[f"s3_access_key{of_function}"] = s3[f"access_key{number}"] = f"{account}:{user}"
        options[f"s3_secret_key{of_function}"] = s3[f"secret_key{number}"] = keys[user]
    options["s3_storage_url"] = plan.url("/")
    options["s3_region"] = "us-east-1"
    _write(
        plan.conf(f"test-{account}"), ("func_test", options), ("s3api_test", s3),
        ("probe_test", {"validate_rsync": "false", "proxy_base_url": plan.url()}),
    )
