"""Jobs, by way of the command `adjoin` and its JSON. Never a shell; every wait ends at its timeout.

Each function takes `command`, the program or a list of arguments that ends with it (["sudo", "-u", "trainer",
"adjoin"]), and `coordinator`, "HOST:PORT"; without it the command's own configuration tells. A list must not begin with
`ssh`, which gives the arguments to a shell. What they return has the fields of proto/coordinator.proto; 64-bit numbers
are texts there, as in protobuf's JSON.
"""
from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import tempfile
import time
import uuid
from typing import Any, Callable, Dict, Generator, List, Mapping, Optional, Sequence, Union

Command = Union[str, Sequence[str]]
Job = Dict[str, Any]

ONE_DAY = 86400.0
_FAILED, _CANCELLED = 100, 103  # exit codes of `adjoin follow`
_KILLED_WITHIN = 10.0  # seconds
_SHOWN = 2000  # characters of stderr in a message


class CommandError(RuntimeError):
    """The command could not do it. The message has what it said."""

    def __init__(self, message: str, stderr: str = "", returncode: Optional[int] = None) -> None:
        super().__init__(message)
        self.stderr = stderr
        self.returncode = returncode  # None: it was not started, or not waited for


class CommandTimeout(CommandError):
    """The command took longer than its timeout, and was ended."""


class JobFailed(CommandError):
    """The job that was followed has failed or was cancelled; `job` is its last state."""

    def __init__(self, message: str, job: Job, stderr: str, returncode: int) -> None:
        super().__init__(message, stderr, returncode)
        self.job = job


def submit(job_path: Union[str, "os.PathLike[str]"], *, changes: Optional[Mapping[str, object]] = None,
           unset: Sequence[str] = (), priority: int = 0, replace: bool = False, idempotency_key: Optional[str] = None,
           timeout: float = 120.0, coordinator: Optional[str] = None, command: Command = "adjoin") -> str:
    """Submits a job, and returns its id ("job-17").

    changes: fields of the job to set before, as `--set`: {"train.epochs": 40, "dataset[train].limit": 2000}.
    unset: fields to remove before those are set, as `--unset`.
    replace: the results may take the place of what an earlier job left in the same output_dir.
    idempotency_key: the same key with the same job again is the same job, not a second one.
    timeout: seconds. The job may have been submitted nevertheless; the error tells the key with which trying again
    submits nothing twice.

    Raises CommandError with what the coordinator refuses, by file and line.
    """
    path = os.fspath(job_path)
    key = idempotency_key or f"python-{uuid.uuid4()}"
    arguments = ["submit", path if not path.startswith("-") else os.path.join(".", path), "-o", "json",
                 f"--priority={int(priority)}", f"--idempotency-key={key}"]
    arguments += [f"--unset={field}" for field in unset]
    arguments += [f"--set={field}={_value(field, value)}" for field, value in (changes or {}).items()]
    if replace:
        arguments.append("--replace")
    try:
        lines = list(_lines(_command(command, coordinator, arguments), timeout))
    except CommandTimeout as error:
        raise CommandTimeout(f"{error}; it may be submitted: idempotency_key={key!r} submits it once",
                             error.stderr) from None
    answer = _json("adjoin submit", "\n".join(lines))
    job = answer.get("job_id")
    if not isinstance(job, str) or not job:
        raise CommandError(f"adjoin submit: no job_id in {answer}")
    return job


def follow(job: str, on_change: Optional[Callable[[Job], None]] = None, *, check: bool = True,
           timeout: float = ONE_DAY, coordinator: Optional[str] = None, command: Command = "adjoin") -> Job:
    """Waits until a job has ended, and returns its last state: `state`, `reason`, `progress`, ...

    on_change: gets each state that comes, also the last one. What it raises ends the following.
    check: raises JobFailed unless the job has succeeded.
    timeout: seconds; one day, where it is not given. The job goes on after it, and after every other error.
    """
    last: Job = {}
    ended = 0
    stderr = ""
    with contextlib.closing(_lines(_command(command, coordinator, ["follow", _job(job), "-o", "json"]),
                                   timeout)) as lines:
        while True:
            try:
                line = next(lines, None)
            except CommandTimeout as error:
                raise CommandTimeout(f"{error}; {job} may go on", error.stderr) from None
            except CommandError as error:
                if error.returncode not in (_FAILED, _CANCELLED) or not last:
                    raise
                ended, stderr = error.returncode, error.stderr
                break
            if line is None:
                break
            last = _json("adjoin follow", line)
            if on_change is not None:
                on_change(last)
    if not last:
        raise CommandError(f"adjoin follow {job}: ended without a state of the job")
    if check and ended != 0:
        what = "was cancelled" if ended == _CANCELLED else "failed"
        reason = f": {last['reason']}" if last.get("reason") else ""
        raise JobFailed(f"{last.get('job_id', job)} {what}{reason}", last, stderr, ended)
    return last


def metrics(job: str, *, type: Optional[str] = None, timeout: float = 300.0, coordinator: Optional[str] = None,
            command: Command = "adjoin") -> List[Dict[str, Any]]:
    """Returns what a job has measured so far, the lines of its metrics.jsonl in their order.

    type: only lines of this type: "step", "validation", "summary", ...
    """
    arguments = ["metrics", _job(job)] + ([f"--type={type}"] if type is not None else [])
    return [_json("adjoin metrics", line) for line in _lines(_command(command, coordinator, arguments), timeout)]


def _job(job: str) -> str:
    if not isinstance(job, str) or not job or job.startswith("-"):
        raise ValueError(f"{job!r} is no job; right would be its id or its name")
    return job


def _value(field: str, value: object) -> str:
    """Returns a value as text format has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(_value(field, element) for element in value) + "]"
    raise ValueError(f"{field}: {value!r} is no value of a field; right would be a text, a number, True or False, or a "
                     "list of them")


def _command(command: Command, coordinator: Optional[str], arguments: Sequence[str]) -> List[str]:
    program = [command] if isinstance(command, str) else list(command)
    return program + ([f"--coordinator={coordinator}"] if coordinator is not None else []) + list(arguments)


def _json(what: str, text: str) -> Dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise CommandError(f"{what}: its output is no JSON ({error}): {text[:200]!r}") from None
    if not isinstance(value, dict):
        raise CommandError(f"{what}: its output is no JSON object: {text[:200]!r}")
    return value


def _lines(arguments: List[str], timeout: float) -> Generator[str, None, None]:
    """Yields the lines that a command writes, as they come. Ends the command in any case."""
    deadline = time.monotonic() + timeout
    with tempfile.TemporaryFile() as errors, contextlib.ExitStack() as cleanup:
        try:
            process = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors)
        except (OSError, ValueError) as error:
            raise CommandError(f"{arguments[0]}: cannot be started: {error}; right would be command=PATH of the "
                               "command adjoin") from error
        cleanup.callback(_end, process)

        def said() -> str:
            errors.seek(0)
            return errors.read().decode("utf-8", "replace")

        def late() -> CommandTimeout:
            text = said()
            more = f" ({text.strip()[-_SHOWN:]})" if text.strip() else ""
            return CommandTimeout(f"{arguments[0]} took longer than {timeout:g} seconds{more}", text)

        begun = b""
        assert process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while True:
                if not selector.select(max(deadline - time.monotonic(), 0)):
                    raise late()
                read = os.read(process.stdout.fileno(), 1 << 16)
                if not read:
                    break
                *whole, begun = (begun + read).split(b"\n")
                for line in whole:
                    if line.strip():
                        yield line.decode("utf-8", "replace")
        if begun.strip():
            yield begun.decode("utf-8", "replace")
        try:
            returncode = process.wait(max(deadline - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            raise late() from None
        if returncode != 0:
            text = said()
            raise CommandError(text.strip()[-_SHOWN:] or f"{arguments[0]} ended with {returncode}", text, returncode)


def _end(process: "subprocess.Popen[bytes]") -> None:
    if process.stdout is not None:
        process.stdout.close()
    if process.poll() is None:
        process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_KILLED_WITHIN)
