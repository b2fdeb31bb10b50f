"""Server that runs programs in forks of itself: `python3 [-IS] warm_python_server.py DIRECTORY MODULE...`

Its clients are called as `python3 -IS -c PROGRAM`. Each command on a node of the FABRIC on loopback starts Python,
which takes ten times as long as what the agent does. Each job of Snakemake imports the modules of `acapella`. MODULE:
modules that the server imports first.

The client (warm_python_client.c) sends its arguments, environment, directory, network namespace, and open files. The
server ends when its standard input ends.
"""

import array
import ast
import contextlib
import ctypes
import functools
import gc
import importlib
import os
import select
import signal
import socket
import sys
import traceback

HEADER = 16  # length: the numbers of bytes and of arguments that follow, 8 digits each
FILES = 4  # standard input, output, error; network namespace


@functools.cache
def compiled(program: str) -> object:
    """Return the code of a program, with the modules that it needs imported."""
    tree = ast.parse(program)
    imports = [line for line in tree.body if isinstance(line, ast.Import | ast.ImportFrom)]
    exec(compile(ast.Module(imports, []), "<imports>", "exec"), {})
    return compile(tree, "<string>", "exec")


def receive(connection: socket.socket) -> tuple[list[bytes], list[bytes], bytes, list[int]]:
    """Return arguments, environment, directory and open files of a client."""
    descriptors = array.array("i")
    data, ancillary, _, _ = connection.recvmsg(1 << 20, socket.CMSG_SPACE(FILES * descriptors.itemsize))
    for _, _, sent in ancillary:
        descriptors.frombytes(sent)
    size, number = int(data[:8]), int(data[8:HEADER])
    while len(data) < HEADER + size:
        data += connection.recv(HEADER + size - len(data))
    strings = data[HEADER:].split(b"\0")[:-1]
    return strings[:number], strings[number:-1], strings[-1], list(descriptors)


def become(environment: list[bytes], directory: bytes, files: list[int]) -> None:
    """Take over what a process inherits from the one that starts it."""
    for number, descriptor in enumerate(files[:3]):
        os.dup2(descriptor, number)
    if ctypes.CDLL(None, use_errno=True).setns(files[3], 0) != 0 and os.geteuid() == 0:
        raise OSError(ctypes.get_errno(), "setns")
    for descriptor in files:
        os.close(descriptor)
    os.environb.clear()
    os.environb.update(pair.split(b"=", 1) for pair in environment if b"=" in pair)
    os.chdir(directory)


def run(code: object, arguments: list[bytes]) -> int:
    """Run a program as `__main__`; return its exit status."""
    sys.argv = ["-c", *map(os.fsdecode, arguments)]
    try:
        exec(code, {"__name__": "__main__", "__builtins__": __builtins__})
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def start(connection: socket.socket, listening: socket.socket) -> int:
    """Start the program that a client requests in a fork; return its process id."""
    arguments, environment, directory, files = receive(connection)
    code = compiled(arguments[0].decode())
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            listening.close()
            connection.close()
            become(environment, directory, files)
            status = run(code, arguments[1:])
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(status)
    for descriptor in files:
        os.close(descriptor)
    return pid


def reply(pid: int, connection: socket.socket) -> None:
    """Send the exit code of a program that has ended, and the signal that ended it, or 0."""
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    with connection, contextlib.suppress(OSError):  # the client was killed
        connection.send(bytes([max(code, 0), max(-code, 0)]))


def main() -> None:
    for name in sys.argv[2:]:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a search for unreachable objects would copy the memory that forks share
    listening = socket.socket(socket.AF_UNIX)
    os.chdir(sys.argv[1])  # the path of a socket has at most 107 bytes
    listening.bind("socket")
    listening.listen(128)
    print("ready", flush=True)
    running: dict[int, tuple[int, socket.socket]] = {}  # by a descriptor that is readable when the program has ended
    while True:
        ready = select.select([listening, 0, *running], [], [])[0]
        for handle in running.keys() & set(ready):
            os.close(handle)
            reply(*running.pop(handle))
        if 0 in ready:
            return
        if listening in ready:
            connection, _ = listening.accept()
            try:
                pid = start(connection, listening)
                running[os.pidfd_open(pid)] = pid, connection
            except (OSError, ValueError):  # the client was killed
                traceback.print_exc()
                connection.close()


signal.signal(signal.SIGINT, signal.SIG_IGN)
main()
