"""A small web server for the local testbed if nginx is missing: `python -m ... DIRECTORY [PEM]`, ports 80 and 443."""

import functools
import http.server
import socket
import ssl
import sys
import threading


class DualStack(http.server.ThreadingHTTPServer):
    """A server for both IP versions."""

    address_family = socket.AF_INET6


def main(directory: str, pem: str = "") -> None:
    """Serve a directory over HTTP and, with a certificate, over HTTPS; does not return."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=directory)
    if pem:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem)
        secure = DualStack(("::", 443), handler)
        secure.socket = context.wrap_socket(secure.socket, server_side=True)
        threading.Thread(target=secure.serve_forever, daemon=True).start()
    DualStack(("::", 80), handler).serve_forever()


if __name__ == "__main__":
    main(*sys.argv[1:])
