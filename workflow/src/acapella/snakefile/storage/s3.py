"""Determines the state of objects in S3 storage, s3://BUCKET/KEY, from the responses to requests for their headers.

An ETag is never used as a checksum of the bytes, because the ETag of a multipart or encrypted object is not their MD5.
"""

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any

from acapella_core import names
from acapella_core.errors import UserError

from .object_state import ObjectState

SHA256_BYTES = 32
CREDENTIALS = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or write ~/.aws/credentials"


class S3Objects:
    """The objects of the storage plugin s3. ``register``: registers a plugin with Snakemake, and returns its provider.

    ``settings``: value of the config key `capture_storage`. Raises UserError for a wrong setting.
    """

    def __init__(self, register: Callable, settings: Mapping[str, Any]):
        from botocore.exceptions import BotoCoreError  # noqa: PLC0415 - slow to import, and optional

        try:
            provider = register("s3", **{key: value for key, value in settings.items() if value is not None})
            self._client = provider.s3c.meta.client
        except (BotoCoreError, ValueError) as error:
            raise UserError(f"capture_storage: {one_line(error)}") from error

    @staticmethod
    def plugin_query(query: str) -> str:
        """Return the plugin's name of an object: its URL."""
        return query

    def state(self, query: str) -> ObjectState:
        """Return the state of an object. Raises UserError if the storage cannot be used at all."""
        return object_state(self._client, query)


def object_state(client, query: str) -> ObjectState:
    """Return the state of an object s3://BUCKET/KEY. Raises UserError if the storage cannot be used at all."""
    from botocore import exceptions  # noqa: PLC0415 - slow to import, and optional

    bucket, _, key = query.removeprefix("s3://").partition("/")
    try:
        found = client.head_object(Bucket=bucket, Key=key, ChecksumMode="ENABLED")
    except exceptions.ClientError as error:
        return ObjectState(fault=fault_of(client, bucket, error))
    except (exceptions.NoCredentialsError, exceptions.PartialCredentialsError) as error:
        raise UserError(one_line(error), where=query, fix=CREDENTIALS) from error
    except exceptions.BotoCoreError as error:
        raise UserError(one_line(error), where=query) from error
    etag = found.get("ETag", "").strip('"') or None
    return ObjectState(etag, whole_sha256(found), found.get("ContentLength"))


def fault_of(client, bucket: str, error) -> str:
    """Return why an object cannot be fetched, from the storage's response, which has no text, only a status."""
    match status_of(error):
        case 404:
            return "no such object" if has_bucket(client, bucket) else f"no such bucket {bucket!r}"
        case 403:
            return "access denied: check the credentials, and their permissions for this object"
        case status:
            return f"the storage responded with status {status}"


def status_of(error) -> int | None:
    """Return the HTTP status of a response from the storage."""
    return error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")


def has_bucket(client, bucket: str) -> bool:
    """Return whether a bucket exists, or may exist."""
    from botocore.exceptions import ClientError  # noqa: PLC0415 - slow to import, and optional

    try:
        client.head_bucket(Bucket=bucket)
    except ClientError as error:
        return status_of(error) != 404
    return True


def whole_sha256(found: Mapping[str, Any]) -> str | None:
    """Return the SHA-256 of an object in hexadecimal; None if it has none, or only a checksum over parts."""
    if found.get("ChecksumType", "FULL_OBJECT") != "FULL_OBJECT":
        return None
    try:
        checksum = base64.b64decode(found.get("ChecksumSHA256", ""), validate=True)  # checksums over parts end with -N
    except binascii.Error:
        return None
    return checksum.hex() if len(checksum) == SHA256_BYTES else None


def one_line(error: Exception) -> str:
    """Return the text of an error in one line, without control characters."""
    return names.shown(" ".join(str(error).split()))
