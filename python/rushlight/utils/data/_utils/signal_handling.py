"""The import path `utils.data._utils.signal_handling` of existing programs.

A loader learns of the death of a worker through its pipe and its sentinel, and needs no handler of
SIGCHLD; these watch processes that a program has started itself.
"""

import faulthandler
import os
import signal
import threading

_worker_pids = {}
_SIGCHLD_handler_set = False


def _set_worker_pids(key, pids):
    _worker_pids[key] = tuple(pids)


def _remove_worker_pids(key):
    _worker_pids.pop(key, None)


def _error_if_any_worker_fails():
    """Raise a RuntimeError if a noted process was killed or ended with an error."""
    for pids in list(_worker_pids.values()):
        for pid in pids:
            _check(pid)


def _check(pid):
    try:
        info = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return  # its end has been noted elsewhere
    if info is None or (info.si_code == os.CLD_EXITED and info.si_status == 0):
        return
    how = (
        f"exited unexpectedly with exit code {info.si_status}"
        if info.si_code == os.CLD_EXITED
        else f"is killed by signal: {signal.strsignal(info.si_status)}"
    )
    raise RuntimeError(f"DataLoader worker (pid {pid}) {how}")


def _set_SIGCHLD_handler():
    """Have the main thread raise as soon as a noted process fails."""
    global _SIGCHLD_handler_set
    if _SIGCHLD_handler_set or threading.current_thread() is not threading.main_thread():
        return
    before = signal.getsignal(signal.SIGCHLD)

    def handle(number, frame):
        _error_if_any_worker_fails()
        if callable(before):
            before(number, frame)

    signal.signal(signal.SIGCHLD, handle)
    _SIGCHLD_handler_set = True


def _set_worker_signal_handlers():
    """Have a fault in compiled code of this worker say where in the program it was, and its end by
    SIGTERM, as multiprocessing ends what still runs at exit, not count as a failure.
    """
    faulthandler.enable()
    signal.signal(signal.SIGTERM, lambda number, frame: os._exit(0))
