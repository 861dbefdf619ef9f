"""An S3-compatible object store on this machine, for tests."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from moto.server import ThreadedMotoServer
from pyarrow import fs


@contextmanager
def object_store() -> Iterator[fs.S3FileSystem]:
    """Run a store with a bucket `fleet`; within the block, the environment points to it."""
    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    known = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "any",
        "AWS_SECRET_ACCESS_KEY": "any",
        "AWS_REGION": "us-east-1",
    }
    try:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in known.items():
                patch.setenv(name, value)
            store = fs.S3FileSystem(
                endpoint_override=f"{host}:{port}",
                scheme="http",
                access_key="any",
                secret_key="any",
                allow_bucket_creation=True,
            )
            store.create_dir("fleet")
            yield store
    finally:
        server.stop()
