"""An S3 server on this machine."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from types import MappingProxyType

import pytest
from pyarrow import fs

# for all processes that use it; the server checks no password
ENVIRONMENT = MappingProxyType(
    {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_EC2_METADATA_DISABLED": "true"}
)


@contextmanager
def s3_server() -> Iterator[str]:
    """The query of the URIs of a server with one bucket, `bucket`."""
    threaded = pytest.importorskip("moto.server").ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        threaded.start()
        try:
            host, port = threaded.get_host_and_port()
            query = f"endpoint_override={host}:{port}&scheme=http&region=us-east-1"
            fs.FileSystem.from_uri(f"s3://bucket/x?{query}&allow_bucket_creation=true")[0].create_dir("bucket")
            yield query
        finally:
            threaded.stop()
