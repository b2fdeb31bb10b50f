"""Agent on a node, run as root: `python3 -IS -c THIS DIRECTORY COMMAND ARGUMENTS` (base64 of JSON).

It is sent as text with each command and uses nothing beyond the standard library of Python 3.6. A program started here
keeps running when the connection ends. Jobs have names, so a repeated command finds the job that it started.
"""

import base64
import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

MAX_TEXT = 1 << 20  # maximum bytes of output in a reply; only the end of a longer output is sent
BLOCK = 1 << 20
START_S = 10
POLL_S = 0.02
FORGET_S = 600
KILL_S = 5
LOG_DRAIN_S = 1
CAPTURE = re.compile(r"\.(pcap|pcapng|columns)(\.anonymized)?(\.zst)?(\.part)?$")
KEY = "acapella-key"  # of control/preprocess.py
MARKER = ".acapella"  # file in each directory that the agent created; it deletes no other directory
CANNOT_RUN = 127  # exit status of a shell if the program is missing


def job_directory(name):
    return DIRECTORY / "jobs" / name


def write(path, text):
    """Write a small file atomically."""
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    part.rename(path)


def read(path):
    """Return the end of a file's text; empty if the file is missing."""
    try:
        with path.open("rb") as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - MAX_TEXT))
            return stream.read().decode("utf-8", "replace")
    except OSError:
        return ""


def start(job, argv, stdin, output):
    """Start a program in a new session, once per job name."""
    directory = job_directory(job)
    directory.parent.mkdir(exist_ok=True)
    try:
        directory.mkdir()
    except FileExistsError:
        return wait_until_started(directory)
    write(directory / "stdin", stdin)
    if os.fork() == 0:
        try:
            supervise(directory, argv, DIRECTORY / output if output else directory / "out")
        finally:
            os._exit(0)
    return wait_until_started(directory)


def wait_until_started(directory):
    """Wait until the program has a process id or has ended."""
    wait_for(lambda: read(directory / "pid") or read(directory / "status"), START_S)
    return {}


def wait_for(condition, seconds):
    """Wait until a condition holds or the time is over. The pauses between checks increase up to POLL_S."""
    end, pause = time.time() + seconds, POLL_S / 32
    while not condition() and time.time() < end:
        time.sleep(pause)
        pause = min(2 * pause, POLL_S)


def supervise(directory, argv, output):
    """Run as the program's parent: detach from the connection, wait, and record the exit status."""
    os.setsid()
    null_device = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null_device, descriptor)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)  # background jobs of a shell, and their children, would ignore SIGINT
    # Standard error is not the log file itself: AppArmor on Ubuntu denies tcpdump files without suffix .pcap.
    with (directory / "log").open("wb") as log:
        with contextlib.suppress(FileNotFoundError):
            output.unlink()  # a program of a killed collection may still write to the old file
        try:
            with (directory / "stdin").open("rb") as standard_input, output.open("wb") as out:
                program = subprocess.Popen(
                    argv,
                    stdin=standard_input,
                    stdout=out,
                    stderr=subprocess.PIPE,
                    cwd=str(DIRECTORY),
                    start_new_session=True,
                )
        except OSError as error:
            log.write(f"{error.filename or argv[0]}: {error.strerror}\n".encode())
            log.flush()
            write(directory / "status", str(CANNOT_RUN))
            return
        write(directory / "pid", str(program.pid))
        copying = threading.Thread(target=copy, args=(program.stderr.fileno(), log), daemon=True)
        copying.start()
        status = program.wait()
        copying.join(LOG_DRAIN_S)  # may never end if a child still holds standard error
        write(directory / "status", str(status))


def copy(source, log):
    """Copy a program's standard error to its log."""
    for data in iter(lambda: os.read(source, BLOCK), b""):
        log.write(data)
        log.flush()


def state(job, seconds):
    """Return a job's status and output, waiting for its end for at most that many seconds."""
    directory = job_directory(job)
    if not directory.is_dir():
        return {"error": f"no job {job}"}
    wait_for(lambda: read(directory / "status"), seconds)
    status = read(directory / "status")
    return {"status": int(status) if status else None, "out": read(directory / "out"), "log": read(directory / "log")}


def remove_old_jobs():
    """Remove `run` jobs that ended more than FORGET_S ago: their output is not read again."""
    for directory in (DIRECTORY / "jobs").glob("run-*"):
        if read(directory / "status") and time.time() - directory.stat().st_mtime > FORGET_S:
            shutil.rmtree(str(directory))


def run(job, argv, stdin, seconds):
    """Run a program to its end; kill it after the timeout."""
    remove_old_jobs()
    start(job, argv, stdin, None)
    result = state(job, seconds)
    if result.get("status") is None:
        kill(job, "KILL")
        result["late"] = True
    return result


def kill(job, name):
    """Send a signal to a program and its children, unless it has ended."""
    directory = job_directory(job)
    pid = read(directory / "pid")
    if pid and not read(directory / "status"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(int(pid), getattr(signal, "SIG" + name))
    return {}


def checksums(path, length):
    """Return a file's size and the SHA-256 of the whole file and of each part."""
    total, parts = hashlib.sha256(), []
    try:
        with (DIRECTORY / path).open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            for offset in range(0, size, length):
                part, remaining = hashlib.sha256(), min(length, size - offset)
                while remaining:
                    data = stream.read(min(BLOCK, remaining))
                    if not data:
                        return {"error": f"{path} became shorter"}
                    total.update(data)
                    part.update(data)
                    remaining -= len(data)
                parts.append(part.hexdigest())
    except OSError as error:
        return {"error": f"{path}: {error.strerror}"}
    return {"size": size, "sha256": total.hexdigest(), "checksums": parts}


def extract_part(path, offset, length):
    """Copy one part to a file that the login user may read; return its path."""
    copied = DIRECTORY.parent / f".{DIRECTORY.name}.{os.getpid()}.part"
    with (DIRECTORY / path).open("rb") as stream, copied.open("wb") as part:
        stream.seek(offset)
        while length:
            data = stream.read(min(BLOCK, length))
            if not data:
                break
            part.write(data)
            length -= len(data)
    if os.geteuid() == 0:
        os.chown(str(copied), DIRECTORY.parent.stat().st_uid, -1)
    return {"path": str(copied)}


def accept_upload(path, file):
    """Move a file from the login user's home to the agent's directory, executable by its owner only."""
    uploaded = DIRECTORY.parent / path
    if not uploaded.exists() and (DIRECTORY / file).exists():
        return {}  # the command was repeated
    if os.geteuid() == 0:
        os.chown(str(uploaded), 0, 0)
    uploaded.chmod(0o700)
    uploaded.rename(DIRECTORY / file)
    return {}


def remove(paths):
    """Delete files in the agent's directory."""
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            (DIRECTORY / path).unlink()
    return {}


def is_used():
    """Return whether the agent has a directory on this node."""
    return {"used": (DIRECTORY / MARKER).is_file()}


def create_directory():
    """Create the agent's directory together with its marker, unless it exists."""
    if DIRECTORY.exists():
        return
    created = DIRECTORY.parent / f".{DIRECTORY.name}.{os.getpid()}.new"
    created.mkdir(exist_ok=True)
    (created / MARKER).touch()
    try:
        created.rename(DIRECTORY)
    except OSError:  # another command has created it meanwhile
        shutil.rmtree(str(created))


def foreign_directory():
    """Return an error if the directory was not created by the agent; None otherwise."""
    if DIRECTORY.exists() and not (DIRECTORY / MARKER).is_file():
        return f"{DIRECTORY} is not a directory of this program: rename or remove it"
    return None


def end_programs():
    """End all programs that were started here, including those of a killed collection."""
    for file in (DIRECTORY / "jobs").glob("*/pid"):
        with contextlib.suppress(OSError):  # after a reboot, the process id may belong to a different program
            if Path("/proc/" + read(file) + "/cwd").resolve(strict=True) == DIRECTORY.resolve():
                kill(file.parent.name, "KILL")
                state(file.parent.name, KILL_S)
    return {}


def remove_captures():
    """Delete captures, digests and the key that a killed collection left here."""
    for file in DIRECTORY.glob("*"):
        if CAPTURE.search(file.name) or file.name == KEY:
            file.unlink()
    return {}


def clean():
    """End all programs that were started here, and delete the agent's directory."""
    end_programs()
    end = time.time() + KILL_S
    while DIRECTORY.exists():
        try:
            delete_directory()
        except OSError:  # a program that ended still writes its status, or the command was repeated
            if time.time() > end:
                raise
            time.sleep(0.02)
    return {}


def delete_directory():
    """Delete the agent's directory, which keeps its marker until it is gone."""
    for path in DIRECTORY.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(str(path))
        elif path.name != MARKER:
            path.unlink()
    emptied = DIRECTORY.parent / f".{DIRECTORY.name}.{os.getpid()}.old"
    DIRECTORY.rename(emptied)
    shutil.rmtree(str(emptied))


def interfaces():
    """Return the names of the network interfaces by MAC address.

    VLAN interfaces, which FABRIC's client creates for tagged networks, and bridges have the address of the interface
    below them. The interface below was created first, so `ip` prints it first. In a bond, `permaddr` is the interface's
    own address.
    """
    result = subprocess.run(["ip", "-j", "link", "show"], stdout=subprocess.PIPE, check=True)
    names = {}
    for link in json.loads(result.stdout.decode()):
        address = link.get("permaddr") or link.get("address")
        if address:
            names.setdefault(address.lower(), link["ifname"])
    return {"interfaces": names}


def main():
    os.umask(0o077)
    if sys.argv[2] not in ("is_used", "end_programs", "remove_captures", "clean"):
        create_directory()
    commands = {
        command.__name__: command
        for command in (
            start,
            state,
            run,
            kill,
            checksums,
            extract_part,
            accept_upload,
            remove,
            is_used,
            end_programs,
            remove_captures,
            clean,
            interfaces,
        )
    }
    try:
        fault = None if sys.argv[2] == "is_used" else foreign_directory()
        arguments = json.loads(base64.b64decode(sys.argv[3]).decode())
        reply = {"error": fault} if fault else commands[sys.argv[2]](**arguments)
    except Exception as error:  # sent as the reply: the connection has no exit status
        reply = {"error": f"{type(error).__name__}: {error}"}
    print("\nacapella-reply:" + base64.b64encode(json.dumps(reply).encode()).decode() + ";", flush=True)


if __name__ == "__main__":
    DIRECTORY = Path(sys.argv[1])
    main()
