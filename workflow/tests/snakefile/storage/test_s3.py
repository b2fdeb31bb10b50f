"""Tests the state of objects in an S3 storage, with responses that moto does not return."""

import base64
import hashlib

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from acapella.snakefile.storage.object_state import ObjectState
from acapella.snakefile.storage.s3 import object_state, whole_sha256
from acapella_core.errors import UserError

DIGEST = hashlib.sha256(b"bytes")
CHECKSUM = base64.b64encode(DIGEST.digest()).decode()


class Client:
    """A client that receives these responses to requests for objects and buckets: headers, or a status."""

    def __init__(self, found, bucket: int = 200):
        self._found, self._bucket = found, bucket

    def head_object(self, **_) -> dict:
        return answer(self._found, "HeadObject")

    def head_bucket(self, **_) -> dict:
        return answer(self._bucket, "HeadBucket")


def answer(found, operation: str) -> dict:
    """Return headers; raise the error for a status, or an exception."""
    if isinstance(found, Exception):
        raise found
    if found != 200 and not isinstance(found, dict):
        raise ClientError({"Error": {"Code": str(found)}, "ResponseMetadata": {"HTTPStatusCode": found}}, operation)
    return {} if found == 200 else found


@pytest.mark.parametrize(
    ("headers", "sha256"),
    [
        ({"ChecksumSHA256": CHECKSUM}, DIGEST.hexdigest()),
        ({"ChecksumSHA256": CHECKSUM, "ChecksumType": "FULL_OBJECT"}, DIGEST.hexdigest()),
        ({"ChecksumSHA256": CHECKSUM, "ChecksumType": "COMPOSITE"}, None),  # a checksum of the checksums of the parts
        ({"ChecksumSHA256": f"{CHECKSUM}-2"}, None),
        ({"ChecksumCRC32": "AAAAAA=="}, None),
        ({"ETag": f'"{DIGEST.hexdigest()}"'}, None),
    ],
)
def test_only_the_checksum_of_a_whole_object_is_used(headers, sha256):
    assert whole_sha256(headers) == sha256


@pytest.mark.parametrize(
    ("found", "bucket", "state"),
    [
        (
            {"ETag": '"a-2"', "ChecksumSHA256": CHECKSUM, "ContentLength": 5},
            200,
            ObjectState("a-2", DIGEST.hexdigest(), 5),
        ),
        (404, 200, ObjectState(fault="no such object")),
        (404, 403, ObjectState(fault="no such object")),
        (404, 404, ObjectState(fault="no such bucket 'bucket'")),
        (403, 200, ObjectState(fault="access denied: check the credentials, and their permissions for this object")),
        (503, 200, ObjectState(fault="the storage responded with status 503")),
    ],
)
def test_fault_of_an_object_matches_the_response(found, bucket, state):
    assert object_state(Client(found, bucket), "s3://bucket/x.pcap") == state


def test_unresponsive_storage_is_a_one_line_error():
    refused = EndpointConnectionError(endpoint_url="http://127.0.0.1:1/\n", error="refused\n")
    with pytest.raises(UserError, match=r"^s3://bucket/x\.pcap: Could not connect") as raised:
        object_state(Client(refused), "s3://bucket/x.pcap")
    assert "\n" not in str(raised.value)
