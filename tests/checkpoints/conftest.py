"""Stores of every kind, and a real S3 server (moto) over HTTP on loopback for those in a bucket."""

import itertools
import os

import pytest

from agentkit.checkpoints.stores import open_store

_numbers = itertools.count()


@pytest.fixture(scope="session")
def s3():
    """Options of a bucket on a server in this process; the server speaks HTTP, so other processes reach it as well."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    options = {
        "endpoint": f"http://{host}:{port}",
        "region": "us-east-1",
        "access_key_id": "test",
        "secret_access_key": "test",
        "client_options": {"allow_http": True},
    }
    import boto3

    boto3.client(
        "s3", endpoint_url=options["endpoint"], region_name="us-east-1", aws_access_key_id="test",
        aws_secret_access_key="test",
    ).create_bucket(Bucket="threads")
    yield options
    server.stop()


def address(kind: str, folder) -> str:
    """An unused place of this kind."""
    return {
        "memory": "memory:",
        "local": str(folder / "store"),
        "sqlite": f"sqlite:{folder / 'store.sqlite'}",
        "s3": f"s3://threads/{os.getpid()}/{next(_numbers)}",
    }[kind]


@pytest.fixture(params=["memory", "local", "sqlite", "s3"])
def place(request, tmp_path):
    """Address and options of an unused store, once for every kind."""
    options = request.getfixturevalue("s3") if request.param == "s3" else {}
    return address(request.param, tmp_path), options


@pytest.fixture
def store(place):
    """An empty store of every kind."""
    store = open_store(place[0], **place[1])
    yield store
    store.close()
