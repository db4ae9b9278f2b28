#!/usr/bin/env python3
"""`cargo`, with the ids of packages as it wrote them before 1.77: the programs of `wheel.rs` read no others."""

import json
import os
import subprocess
import sys

command = [os.environ["REAL_CARGO"], *sys.argv[1:]]
if "metadata" not in sys.argv:
    sys.exit(subprocess.run(command).returncode)
done = subprocess.run(command, stdout=subprocess.PIPE)
if done.returncode:
    sys.exit(done.returncode)
metadata = json.loads(done.stdout)
old_ids = {}
for package in metadata["packages"]:
    source = package["source"] or "path+file://" + os.path.dirname(package["manifest_path"])
    old_ids[package["id"]] = f"{package['name']} {package['version']} ({source})"


def old(value):
    if isinstance(value, str):
        return old_ids.get(value, value)
    if isinstance(value, list):
        return [old(item) for item in value]
    if isinstance(value, dict):
        return {key: old(item) for key, item in value.items()}
    return value


json.dump(old(metadata), sys.stdout)
