"""One function in several processes, and their errors in the parent."""

import multiprocessing
import multiprocessing.connection
import traceback


class ProcessException(Exception):
    """A process failed."""

    def __init__(self, msg, error_index, pid):
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, pid


class ProcessRaisedException(ProcessException):
    """The function raised; the message holds its traceback."""


class ProcessExitedException(ProcessException):
    """The process ended by a signal or an exit code."""

    def __init__(self, msg, error_index, error_pid, exit_code, signal_name=None):
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name


def _run(function, rank, args, errors):
    try:
        function(rank, *args)
    except Exception:  # goes to the parent as text, whatever it is
        errors.put(traceback.format_exc())
        raise SystemExit(1) from None


class ProcessContext:
    """The started processes."""

    def __init__(self, processes, errors):
        self.processes, self._errors = processes, errors

    def pids(self):
        """Their process ids."""
        return [p.pid for p in self.processes]

    def join(self, timeout=None, grace_period=None):
        """Wait until one ends or the timeout passes: True once all have ended well; the first failure ends all and raises."""
        running = [p for p in self.processes if p.is_alive()]
        if running:
            multiprocessing.connection.wait([p.sentinel for p in running], timeout)
        failed = next((i for i, p in enumerate(self.processes) if p.exitcode not in (None, 0)), None)
        if failed is None:
            return all(p.exitcode == 0 for p in self.processes)
        for p in self.processes:
            if p.is_alive():
                p.terminate()
            p.join(grace_period)
        process = self.processes[failed]
        if not self._errors[failed].empty():
            text = self._errors[failed].get()
            raise ProcessRaisedException(f"\n\n-- Process {failed} terminated with the following error:\n{text}", failed, process.pid)
        raise ProcessExitedException(
            f"process {failed} terminated with exit code {process.exitcode}", failed, process.pid, process.exitcode
        )


def start_processes(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    """Run fn(rank, *args) in nprocs processes."""
    context = multiprocessing.get_context(start_method)
    processes, errors = [], []
    for rank in range(nprocs):
        queue = context.SimpleQueue()
        process = context.Process(target=_run, args=(fn, rank, args, queue), daemon=daemon)
        process.start()
        processes.append(process)
        errors.append(queue)
    started = ProcessContext(processes, errors)
    if not join:
        return started
    while not started.join():
        pass
    return None


def spawn(fn, args=(), nprocs=1, join=True, daemon=False, start_method="spawn"):
    """Run fn(rank, *args) in nprocs fresh processes; join waits for them and raises the first error."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)
