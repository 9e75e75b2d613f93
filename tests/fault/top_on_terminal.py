#!/usr/bin/env python3
"""Runs `adjoin top` on a pseudo-terminal, presses keys, sends signals, and checks what the terminal got and is left as.

    top_on_terminal.py ADJOIN RUNNING_JOB WAITING_JOB
"""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time

ADJOIN, RUNNING, WAITING = sys.argv[1:]
ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?1049l"
PATIENCE = 20


def in_foreground():
    """Called in the child: it becomes a job of its own, in the terminal's foreground."""
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)


def killed_once_stopped(arguments):
    """What a shell does for Ctrl-Z and `kill %1`: it takes the terminal back, and the job is told to end, and goes on.
    Returns the signal that ended it."""
    child = subprocess.Popen([ADJOIN] + arguments, preexec_fn=in_foreground)
    os.waitpid(child.pid, os.WUNTRACED)
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    os.tcsetpgrp(0, os.getpgrp())
    os.kill(child.pid, signal.SIGTERM)
    os.kill(child.pid, signal.SIGCONT)
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        pid, status = os.waitpid(child.pid, os.WNOHANG)
        if pid:
            return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
        time.sleep(0.05)
    os.kill(child.pid, signal.SIGKILL)
    return 0


class Terminal:
    """A program on a terminal of its own, which it controls."""

    def __init__(self, arguments, under_leader=None, **environment):
        self.output = b""
        # The program's end stays open here, so that the modes are there after the program's end.
        self.fd, self.other = pty.openpty()
        self.resize(24, 160)
        self.modes = termios.tcgetattr(self.other)
        self.pid = os.fork()
        if self.pid == 0:
            try:
                os.login_tty(self.other)
                os.environ.update(environment)
                if under_leader == "shell":
                    os._exit(killed_once_stopped(arguments))
                if under_leader:
                    code = subprocess.call([ADJOIN] + arguments, preexec_fn=in_foreground)
                    os._exit(code if code >= 0 else 100 - code)
                os.execv(ADJOIN, [ADJOIN] + arguments)
            finally:
                os._exit(127)

    def resize(self, rows, columns):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds):
        if select.select([self.fd], [], [], seconds)[0]:
            try:
                self.output += os.read(self.fd, 65536)
            except OSError:
                pass

    def expect(self, what, since=0):
        """Waits until the output from `since` on has this pattern; returns where the output ends."""
        end = time.monotonic() + PATIENCE
        while not re.search(what, self.output[since:], re.DOTALL):
            assert time.monotonic() < end, f"no {what!r} in {self.output[since:]!r}"
            self.read(0.1)
        return len(self.output)

    def press(self, keys):
        at = len(self.output)
        os.write(self.fd, keys)
        return at

    def wait(self):
        end = time.monotonic() + PATIENCE
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                for _ in range(5):
                    self.read(0.05)
                return status
            if time.monotonic() > end:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                raise AssertionError(f"it does not end: {self.output[-500:]!r}")
            self.read(0.05)

    def check_restored(self):
        assert self.output.rfind(LEAVE) > self.output.rfind(ENTER), "the first screen is back"
        assert self.output.rfind(b"\x1b[?25h") > self.output.rfind(b"\x1b[?25l"), "the cursor is back"
        assert self.output.rfind(b"\x1b[?7h") > self.output.rfind(b"\x1b[?7l"), "lines go on again"
        assert termios.tcgetattr(self.other) == self.modes, "the modes are as before"

    def is_raw(self):
        return not termios.tcgetattr(self.other)[3] & termios.ICANON

    def close(self):
        os.close(self.fd)
        os.close(self.other)


def started(**environment):
    terminal = Terminal(["top", "-i", "0.2"], **environment)
    terminal.expect(RUNNING.encode() + b".*" + WAITING.encode())
    assert ENTER in terminal.output and terminal.is_raw()
    return terminal


def step_of(text):
    """The step in the last frame that has one."""
    return int(re.findall(rb"(\d+)/100000", text)[-1])


def fits(output, rows, columns):
    """Whether the last whole frame has at most so many rows and columns."""
    frames = re.findall(rb"\x1b\[H(.*?)\x1b\[J", output, re.DOTALL)
    lines = re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b"", frames[-1]).decode().replace("\r", "").split("\n")
    return len(lines) <= rows and max(map(len, lines)) <= columns


def keys_and_frames():
    terminal = started()
    terminal.expect(rb"\x1b\[32mrunning\x1b\[0m")
    terminal.expect(WAITING.encode() + rb".*needs 2 slots")
    terminal.expect(rb"worker-0")
    first = step_of(terminal.output)
    until = time.monotonic() + PATIENCE
    while step_of(terminal.output) <= first:  # it goes on by itself
        assert time.monotonic() < until, f"it stays at step {first}"
        terminal.expect(rb"/100000", since=len(terminal.output))
    assert b"\x1b[2J" not in terminal.output[terminal.output.find(ENTER) + 40:], "no frame clears the screen first"

    terminal.expect(b"> " + RUNNING.encode())
    terminal.expect(b"> " + WAITING.encode(), since=terminal.press(b"\x1b[B"))
    terminal.expect(rb"by job", since=terminal.press(b"s"))
    terminal.expect(b"> " + RUNNING.encode(), since=terminal.press(b"k"))
    terminal.expect(rb"T_comp|RANK +WORKER", since=terminal.press(b"\r"))
    terminal.expect(rb"enter details", since=terminal.press(b"\x1b"))

    terminal.resize(10, 40)
    end = time.monotonic() + PATIENCE
    while not fits(terminal.output, 10, 40):
        assert time.monotonic() < end, terminal.output[-3000:]
        terminal.read(0.1)

    terminal.press(b"q")
    assert terminal.wait() == 0
    terminal.check_restored()
    terminal.close()


def signals():
    for number, ends in [(signal.SIGINT, 0), (signal.SIGTERM, signal.SIGTERM), (signal.SIGHUP, signal.SIGHUP),
                         (signal.SIGQUIT, signal.SIGQUIT), (signal.SIGABRT, signal.SIGABRT)]:
        terminal = started()
        os.kill(terminal.pid, number)
        status = terminal.wait()
        assert os.WTERMSIG(status) == ends if os.WIFSIGNALED(status) else status == 0 == ends, (number, status)
        terminal.check_restored()
        terminal.close()
    terminal = started()
    terminal.press(b"\x03")  # Ctrl-C, by the terminal
    assert terminal.wait() == 0
    terminal.check_restored()
    terminal.close()


def stop_and_go_on():
    # As under a shell: the leader of the terminal's session is the parent, and the program a job of its own.
    terminal = Terminal(["top", "-i", "0.2"], under_leader="parent")
    terminal.expect(RUNNING.encode())
    child = int(open(f"/proc/{terminal.pid}/task/{terminal.pid}/children").read().split()[0])
    for _ in range(2):
        at = len(terminal.output)
        os.kill(child, signal.SIGTSTP)
        terminal.expect(re.escape(LEAVE), since=at)
        end = time.monotonic() + PATIENCE
        while open(f"/proc/{child}/stat").read().split(")")[1].split()[0] != "T":
            assert time.monotonic() < end, "it does not stop"
            terminal.read(0.05)
        assert not terminal.is_raw(), "a shell would have its terminal"
        at = len(terminal.output)
        os.kill(child, signal.SIGCONT)
        terminal.expect(re.escape(ENTER) + b".*" + RUNNING.encode(), since=at)
        assert terminal.is_raw()
    # After SIGSTOP, which no program can handle, too.
    os.kill(child, signal.SIGSTOP)
    time.sleep(0.2)
    at = len(terminal.output)
    os.kill(child, signal.SIGCONT)
    terminal.expect(re.escape(ENTER) + b".*" + RUNNING.encode(), since=at)
    terminal.press(b"q")
    assert terminal.wait() == 0
    terminal.check_restored()
    terminal.close()


def killed_while_stopped():
    terminal = Terminal(["top", "-i", "0.2"], under_leader="shell")
    terminal.expect(RUNNING.encode())
    child = int(open(f"/proc/{terminal.pid}/task/{terminal.pid}/children").read().split()[0])
    os.kill(child, signal.SIGTSTP)
    assert os.WEXITSTATUS(terminal.wait()) == signal.SIGTERM
    terminal.check_restored()
    terminal.close()


def no_busy_loop():
    terminal = started()
    before = open(f"/proc/{terminal.pid}/stat").read().split(")")[1].split()
    end = time.monotonic() + 3
    while time.monotonic() < end:
        terminal.read(0.1)
    after = open(f"/proc/{terminal.pid}/stat").read().split(")")[1].split()
    ticks = int(after[11]) + int(after[12]) - int(before[11]) - int(before[12])
    assert ticks < 1.5 * os.sysconf("SC_CLK_TCK"), f"{ticks} ticks in 3 s"
    terminal.press(b"q")
    assert terminal.wait() == 0
    terminal.close()


def no_screen():
    """On a dumb terminal one page is printed; colours go by NO_COLOR and --color."""
    dumb = Terminal(["top"], TERM="dumb")
    assert dumb.wait() == 0
    assert ENTER not in dumb.output and b"\x1b" not in dumb.output and RUNNING.encode() in dumb.output
    dumb.close()
    plain = started(NO_COLOR="1")
    assert b"\x1b[32m" not in plain.output
    plain.press(b"q")
    assert plain.wait() == 0
    plain.close()
    for arguments, environment, painted in [(["ps"], {}, True), (["ps"], {"NO_COLOR": "1"}, False),
                                            (["ps"], {"TERM": "dumb"}, False),
                                            (["ps", "--color", "always"], {"NO_COLOR": "1"}, True),
                                            (["ps", "--color", "never"], {}, False), (["describe", RUNNING], {}, True)]:
        terminal = Terminal(arguments, **environment)
        assert terminal.wait() == 0
        assert (b"\x1b[32mrunning\x1b[0m" in terminal.output) == painted, (arguments, environment, terminal.output)
        terminal.close()


for check in (keys_and_frames, signals, stop_and_go_on, killed_while_stopped, no_busy_loop, no_screen):
    begin = time.monotonic()
    check()
    print(f"{check.__name__}: {time.monotonic() - begin:.1f} s")
