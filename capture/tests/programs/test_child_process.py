import signal
import subprocess
import threading

from acapella_capture.programs.child_process import kill_and_reap


def reaped_in_time(process):
    thread = threading.Thread(target=kill_and_reap, args=(process,), daemon=True)
    thread.start()
    thread.join(timeout=60)
    return not thread.is_alive()


def test_running_and_ended_children_are_reaped():
    process = subprocess.Popen(["sleep", "600"])
    assert reaped_in_time(process)
    assert process.returncode == -signal.SIGKILL
    assert reaped_in_time(process)
    assert process.returncode == -signal.SIGKILL


def test_wait_does_not_need_the_lock_of_an_interrupted_poll():
    process = subprocess.Popen(["sleep", "600"])
    process._waitpid_lock.acquire()  # as if a signal handler had raised in poll(), before its `try`
    try:
        assert reaped_in_time(process)
    finally:
        process._waitpid_lock.release()
    assert process.wait(timeout=60) == -signal.SIGKILL
