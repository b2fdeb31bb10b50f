"""An S3 server on the loopback interface: moto in a separate process that serves until its standard input ends.

s3_server.py BUCKET DIRECTORY COMMAND... serves the files of a directory as objects of a bucket while the command runs.
The command has the variables that clients of the server need; s3_server.py exits with its status.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SECRET = "secret-of-the-test-Zk3wQ"
# Without the variables after the keys, botocore may use files of the user, EC2's metadata server, or a proxy.
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "key-of-the-test",
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "NO_PROXY": "127.0.0.1",
}


@dataclass(frozen=True)
class S3Server:
    """A server, its URL, and a client of it."""

    url: str
    client: object

    def put(self, bucket: str, key: str, file: Path, **options) -> None:
        """Store a file as an object. ``options``: those of put_object."""
        self.client.put_object(Bucket=bucket, Key=key, Body=file.read_bytes(), **options)


@contextlib.contextmanager
def s3_server() -> Iterator[S3Server]:
    """Yield a server without buckets; end it afterwards."""
    import boto3  # noqa: PLC0415 - slow to import

    command, environment = [sys.executable, __file__], os.environ | ENVIRONMENT
    running = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
    try:
        url = f"http://127.0.0.1:{int(running.stdout.readline())}"
        keys = {"aws_access_key_id": "key-of-the-test", "aws_secret_access_key": SECRET}
        yield S3Server(url, boto3.client("s3", endpoint_url=url, region_name="us-east-1", **keys))
    finally:
        running.communicate()  # end of standard input


def main(bucket: str = "", directory: str = "", *command: str) -> int:
    """Serve until standard input, or the command, ends."""
    if command:
        with s3_server() as server:
            server.client.create_bucket(Bucket=bucket)
            for file in Path(directory).iterdir():
                server.put(bucket, file.name, file)
            environment = os.environ | ENVIRONMENT | {"AWS_ENDPOINT_URL": server.url}
            return subprocess.run(command, env=environment, check=False).returncode
    import logging  # noqa: PLC0415

    from moto.server import ThreadedMotoServer  # noqa: PLC0415

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    print(server.get_host_and_port()[1], flush=True)
    sys.stdin.read()
    server.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
