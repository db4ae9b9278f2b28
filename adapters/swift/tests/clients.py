"""Clients that people have, against a running cluster to try: swift, s3cmd, boto3, rclone, restic.

    imbrex-swift-cluster start DIR
    python3 adapters/swift/tests/clients.py DIR

Each stores a tree of files of lengths at which something changes, reads it back, compares every byte, and removes it.
A client that is not installed is a failure: nothing is skipped in silence.
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

from imbrex_swift.cluster import Cluster  # noqa: E402
from imbrex_swift.cluster_plan import ClusterError  # noqa: E402

#: Empty, one byte, around a block, around the engine's short values and long values, and more than one part of S3.
LENGTHS = (0, 1, 4095, 4096, 4097, 65535, 65536, 1 << 20, (8 << 20) + 1, 20 << 20)
KEY = "testing"


class Failure(Exception):
    """A client did what it should not."""


class Scene:
    """The cluster, and a directory with files to store."""

    def __init__(self, plan, directory, seed):
        self.plan, self.directory = plan, directory
        self.host = f"127.0.0.1:{plan.port('proxy')}"
        self.random = random.Random(seed)
        self.files = os.path.join(directory, "files")
        os.makedirs(os.path.join(self.files, "a directory", "ünïcode ☃"))
        for number, length in enumerate(LENGTHS):
            where = ("", "a directory", "a directory/ünïcode ☃")[number % 3]
            self.write(os.path.join(where, f"{length} bytes"), length)

    def write(self, name, length):
        with open(os.path.join(self.files, name), "wb") as file:
            file.write(self.random.randbytes(length))

    def run(self, *command, env=None, may_fail=False, cwd=None):
        """What the command prints; a failure is an error with its words."""
        environment = {
            "PATH": os.path.dirname(sys.executable) + ":" + os.environ["PATH"], "HOME": self.directory,
            "LANG": "C.UTF-8", **(env or {}),
        }
        try:
            done = subprocess.run(command, env=environment, cwd=cwd or self.directory, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=600)
        except FileNotFoundError:
            raise Failure(f"{command[0]} is not installed") from None
        if done.returncode and not may_fail:
            said = (done.stdout + done.stderr).decode(errors="replace")[-3000:]
            raise Failure(f"{' '.join(command)}: {done.returncode}\n{said}")
        return done.stdout.decode(errors="replace")

    def require_same(self, directory, but=()):
        ours, theirs = tree(self.files), tree(directory)
        for name in but:
            ours.pop(name, None)
        if ours != theirs:
            names = sorted(set(ours) ^ set(theirs)) or [name for name in ours if ours[name] != theirs[name]]
            raise Failure(f"{directory} differs from what was stored in {names}")


def tree(directory):
    """Digests of all files by name."""
    found = {}
    for folder, _, names in os.walk(directory):
        for name in names:
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, directory)] = hashlib.sha256(file.read()).hexdigest()
    return found


def require(is_so, what):
    if not is_so:
        raise Failure(what)


def swift(scene):
    """python-swiftclient: upload with segments, listing, metadata, download, removal."""
    login = ("swift", "-A", scene.plan.url("/auth/v1.0"), "-U", "test:tester", "-K", KEY)
    scene.run(*login, "upload", "clients", ".", "--segment-size", str(6 << 20), "--use-slo", "--header",
              "X-Object-Meta-Colour: red", cwd=scene.files)
    listed = scene.run(*login, "list", "clients").splitlines()
    require(sorted(listed) == sorted(tree(scene.files)), f"the container lists {listed}")
    said = scene.run(*login, "stat", "clients", "a directory/1 bytes")
    require("Meta Colour: red" in said, f"metadata is missing in {said}")
    scene.run(*login, "post", "clients", "a directory/1 bytes", "--header", "X-Object-Meta-Colour: blue")
    said = scene.run(*login, "stat", "clients", "a directory/1 bytes")
    require("Meta Colour: blue" in said, f"new metadata is missing in {said}")
    scene.run(*login, "download", "clients", "--output-dir", os.path.join(scene.directory, "back"))
    scene.require_same(os.path.join(scene.directory, "back"))
    scene.run(*login, "delete", "clients")
    scene.run(*login, "delete", "clients_segments", may_fail=True)
    require("clients" not in scene.run(*login, "list").splitlines(), "the container is still there")


def s3cmd(scene):
    """s3cmd: a bucket, a tree in parts, listing, copy, download, removal."""
    call = ("s3cmd", "--config=/dev/null", "--access_key=test:tester", f"--secret_key={KEY}", f"--host={scene.host}",
            f"--host-bucket={scene.host}", "--no-ssl", "--no-progress")
    scene.run(*call, "mb", "s3://clients-s3cmd")
    scene.run(*call, "--multipart-chunk-size-mb=6", "sync", scene.files + "/", "s3://clients-s3cmd/tree/")
    listed = scene.run(*call, "ls", "--recursive", "s3://clients-s3cmd")
    require(len(listed.splitlines()) == len(LENGTHS), f"the bucket lists {listed}")
    scene.run(*call, "cp", "s3://clients-s3cmd/tree/0 bytes", "s3://clients-s3cmd/copy")
    back = os.path.join(scene.directory, "back")
    os.makedirs(back)
    scene.run(*call, "sync", "s3://clients-s3cmd/tree/", back + "/")
    scene.require_same(back)
    said = scene.run(*call, "sync", scene.files + "/", "s3://clients-s3cmd/tree/")
    require("upload" not in said, f"a second sync uploads again: {said}")
    scene.run(*call, "del", "--recursive", "--force", "s3://clients-s3cmd")
    scene.run(*call, "rb", "s3://clients-s3cmd")
    require("clients-s3cmd" not in scene.run(*call, "ls"), "the bucket is still there")


def boto3(scene):
    """boto3: puts, ranges, parts, copies, pages of a listing, metadata, signed addresses, many deletes."""
    import urllib.request

    import boto3 as package
    from boto3.s3.transfer import TransferConfig
    from botocore.config import Config
    from botocore.exceptions import ClientError

    client = package.client(
        "s3", endpoint_url=scene.plan.url(), aws_access_key_id="test:tester", aws_secret_access_key=KEY,
        region_name="us-east-1", config=Config(s3={"addressing_style": "path"}))
    bucket = "clients-boto3"
    client.create_bucket(Bucket=bucket)
    parts = TransferConfig(multipart_threshold=6 << 20, multipart_chunksize=6 << 20)
    for name in tree(scene.files):
        client.upload_file(os.path.join(scene.files, name), bucket, name, Config=parts,
                           ExtraArgs={"Metadata": {"colour": "red"}})
    for name, digest in tree(scene.files).items():
        answer = client.get_object(Bucket=bucket, Key=name)
        require(hashlib.sha256(answer["Body"].read()).hexdigest() == digest, f"{name} differs")
        require(answer["Metadata"] == {"colour": "red"}, f"{name} has the metadata {answer['Metadata']}")
    long = next(name for name in tree(scene.files) if name.endswith(f"{20 << 20} bytes"))
    with open(os.path.join(scene.files, long), "rb") as file:
        content = file.read()
    for first, last in ((0, 0), (5, 70000), ((6 << 20) - 3, (6 << 20) + 3), (len(content) - 7, len(content) - 1)):
        answer = client.get_object(Bucket=bucket, Key=long, Range=f"bytes={first}-{last}")
        require(answer["Body"].read() == content[first:last + 1], f"the range {first}-{last} differs")
    client.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": long})
    require(client.head_object(Bucket=bucket, Key="copy")["ContentLength"] == len(content), "the copy is short")
    address = client.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "copy"})
    with urllib.request.urlopen(address) as answer:
        require(answer.read() == content, "the signed address gives something else")
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, PaginationConfig={"PageSize": 3})
    keys = [entry["Key"] for page in pages for entry in page.get("Contents", ())]
    # S3 orders keys by their bytes.
    require(keys == sorted([*tree(scene.files), "copy"], key=str.encode), f"the bucket lists {keys}")
    begun = client.create_multipart_upload(Bucket=bucket, Key="given up")
    client.upload_part(Bucket=bucket, Key="given up", UploadId=begun["UploadId"], PartNumber=1, Body=b"x" * (5 << 20))
    client.abort_multipart_upload(Bucket=bucket, Key="given up", UploadId=begun["UploadId"])
    try:
        client.head_object(Bucket=bucket, Key="given up")
        raise Failure("an upload that was given up is there")
    except ClientError as err:
        require(err.response["ResponseMetadata"]["HTTPStatusCode"] == 404, f"{err}")
    client.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key} for key in keys]})
    client.delete_bucket(Bucket=bucket)


def rclone(scene):
    """rclone: a tree by S3 and by Swift's interface, compared by rclone, changed, read back, removed."""
    common = {"RCLONE_CONFIG": os.path.join(scene.directory, "rclone.conf")}
    s3 = {"TYPE": "s3", "PROVIDER": "Other", "ACCESS_KEY_ID": "test:tester", "SECRET_ACCESS_KEY": KEY,
          "ENDPOINT": scene.plan.url(), "REGION": "us-east-1", "CHUNK_SIZE": "6M", "UPLOAD_CUTOFF": "6M"}
    native = {"TYPE": "swift", "USER": "test:tester", "KEY": KEY, "AUTH": scene.plan.url("/auth/v1.0"),
              "AUTH_VERSION": "1", "CHUNK_SIZE": "6M"}
    for remote, options in (("s3", s3), ("native", native)):
        environment = common | {f"RCLONE_CONFIG_{remote.upper()}_{key}": value for key, value in options.items()}

        def call(*arguments):
            return scene.run("rclone", *arguments, env=environment)

        place = f"{remote}:clients-rclone-{remote}"
        call("mkdir", place)
        call("sync", scene.files, f"{place}/tree")
        call("check", "--download", scene.files, f"{place}/tree")
        scene.write("4096 bytes", 5000)
        call("sync", scene.files, f"{place}/tree")
        back = os.path.join(scene.directory, f"back-{remote}")
        call("copy", f"{place}/tree", back)
        scene.require_same(back)
        sizes = json.loads(call("size", "--json", place))
        require(sizes["count"] == len(LENGTHS), f"rclone counts {sizes}")
        call("purge", place)
        if remote == "native":
            scene.run("rclone", "purge", f"{place}_segments", env=environment, may_fail=True)


def restic(scene):
    """restic: two backups, forget, prune, check of all data, restore of both moments; by S3 and by Swift."""
    s3 = {"AWS_ACCESS_KEY_ID": "test:tester", "AWS_SECRET_ACCESS_KEY": KEY}
    native = {"ST_AUTH": scene.plan.url("/auth/v1.0"), "ST_USER": "test:tester", "ST_KEY": KEY}
    for name, repository, login in (
        ("s3", f"s3:{scene.plan.url('/clients-restic-s3')}", s3), ("native", "swift:clients-restic-native:/", native),
    ):
        environment = login | {
            "RESTIC_REPOSITORY": repository, "RESTIC_PASSWORD": "secret",
            "RESTIC_CACHE_DIR": os.path.join(scene.directory, "cache-" + name),
        }

        def call(*arguments):
            return scene.run("restic", "--quiet", *arguments, env=environment)

        call("init")
        scene.run("restic", "--quiet", "backup", ".", env=environment, cwd=scene.files)
        before = tree(scene.files)
        scene.write("new", 3 << 20)
        os.unlink(os.path.join(scene.files, next(file for file in before if file.endswith(f"{1 << 20} bytes"))))
        scene.run("restic", "--quiet", "backup", ".", env=environment, cwd=scene.files)
        snapshots = json.loads(call("snapshots", "--json"))
        require(len(snapshots) == 2, f"restic lists {len(snapshots)} snapshots")
        back = os.path.join(scene.directory, "first-" + name)
        call("restore", snapshots[0]["id"], "--target", back)
        require(tree(back) == before, "the first backup differs")
        call("forget", "--keep-last", "1", "--prune")
        require(len(json.loads(call("snapshots", "--json"))) == 1, "forget left the first snapshot")
        call("check", "--read-data")
        back = os.path.join(scene.directory, "second-" + name)
        call("restore", "latest", "--target", back)
        scene.require_same(back)
        # Another backup starts from the files that are there now.
        scene.write(next(file for file in before if file.endswith(f"{1 << 20} bytes")), 1 << 20)
        os.unlink(os.path.join(scene.files, "new"))


CLIENTS = {client.__name__: client for client in (swift, s3cmd, boto3, rclone, restic)}


def version(scene, name):
    """As the client says it."""
    if name == "boto3":
        import boto3 as package
        return f"boto3 {package.__version__}"
    lines = scene.run(name, *(["version"] if name in ("restic", "rclone") else ["--version"])).splitlines()
    return lines[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("directory", metavar="DIR", help="of a running cluster")
    parser.add_argument("--client", action="append", choices=CLIENTS, help="only this one (may be given again)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", help="write what happened to this file")
    args = parser.parse_args()
    try:
        cluster = Cluster.at(args.directory)
        cluster.wait_until_serving(patience_s=10)
    except ClusterError as err:
        print(f"clients: {err}", file=sys.stderr)
        return 2
    rows = []
    for name in args.client or CLIENTS:
        directory = tempfile.mkdtemp(prefix=f"swift-client-{name}-")
        began = time.monotonic()
        which = name
        try:
            scene = Scene(cluster.plan, directory, args.seed)
            which = version(scene, name)
            CLIENTS[name](scene)
            status = "passed"
        except Failure as err:
            status = "failed"
            print(f"{name}: {err}", file=sys.stderr)
        except Exception:
            status = "failed"
            traceback.print_exc()
        finally:
            shutil.rmtree(directory)
        print(f"  {which}: {status}, {time.monotonic() - began:.0f} s", flush=True)
        rows.append({"client": which, "did": CLIENTS[name].__doc__.split(": ", 1)[1], "status": status})
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    count = sum(row["status"] == "passed" for row in rows)
    print(f"{count} passed, {len(rows) - count} failed")
    return 0 if count == len(rows) else 1


if __name__ == "__main__":
    sys.exit(main())
