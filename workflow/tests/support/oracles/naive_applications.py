"""Naive reference of the application of a flow, from the tokens of its frames."""

from collections import Counter

from acapella_testing.source_tree import ROOT

LINES = (ROOT / "schemas" / "protocols.tsv").read_text(encoding="utf-8").splitlines()[1:]
LAYERS = {token: layer for token, _, layer in (line.split("\t") for line in LINES)}
FORMATS = {  # content of a protocol: text, images, certificates
    *("data-text-lines", "media", "png", "image-gif", "image-jfif", "tiff", "mp4", "mpeg-audio", "mime_multipart"),
    *("urlencoded-form", "wbxml", "cbor", "msgpack", "json", "xml", "cms", "pkcs-1", "x509sat", "x509ce", "x509af"),
    *("x509if", "pkix1explicit", "pkix1implicit", "pkixqualified"),
}


def application(flow, sample):
    """Return the application of a flow: not the format of its content, and the protocol itself for ICMP."""
    if flow["ip_proto"] in (1, 58):
        return "icmp" if flow["ip_proto"] == 1 else "icmpv6"
    if flow["app"] not in FORMATS:
        return flow["app"]
    tokens = Counter()
    for frame in sample.frames:
        if frame["flow"] == flow["flow"]:
            parts = frame["protocols"].split(":")
            last = max(n for n, token in enumerate(parts) if LAYERS.get(token, "app") not in ("app", "payload"))
            tokens.update({token for token in parts[last + 1 :] if LAYERS.get(token, "app") == "app"} - FORMATS)
    return min(tokens, key=lambda token: (-tokens[token], token), default=flow["app"])
