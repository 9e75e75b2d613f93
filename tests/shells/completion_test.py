#!/usr/bin/python3
"""Completion in real shells: bash and zsh on a terminal, with Tab; fish by its own `complete -C`.

hostile_coordinator has jobs whose names would run commands, were they ever evaluated; a real coordinator has others. In bash
and zsh, `adjoin` is a function that shows its arguments: so the test sees what the shell made of the line that Tab completed.

The programs are looked for below the current folder, or in the folder ADJOIN_PROGRAMS.
"""
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

PROGRAMS = {"adjoin": "cli", "adjoin-coordinator": "coordinator", "adjoin-worker": "worker",
            "hostile_coordinator": "tests/shells"}
COMPLETED = ["adjoin", "adjoin-coordinator", "adjoin-worker"]
SECONDS = 60  # For what takes a moment.

# By their beginnings, which Tab completes.
JOBS = {
    "alpha": "alpha $(touch PWNED)",
    "beta": "beta's \"q\" `touch PWNED`",
    "gamma": "gamma; touch PWNED & >PWNED",
    "delta": "delta\\back|*?[a]{b,c}!x~#y",
    "epsilon": "epsilon \u00e9\u4e16",
    "zeta:": "zeta:colon=equals",
    "omega/": "omega/of/folders",
}
# Not offered: what would be read as an option, and a tab. Control characters are written out.
REFUSED = ["--help", "rho\tx"]
WRITTEN_OUT = {"psi\x1b[31m": "psi\\x1b[31m", "chi\nphi": "chi\\nphi"}

SPEC = """
name: "real-job" kind: TRAIN ranks: 1 seed: 1
layer { name: "flat" input: "image" flatten { arg: 1 } }
layer { name: "fc" linear { out_features: 10 } }
loss { kind: "cross_entropy" input: "fc" target: "label" }
dataset {
  name: "train"
  field { name: "image" idx { path: "images.idx" } shape: [1, 28, 28] }
  field { name: "label" idx { path: "labels.idx" } dtype: "int64" }
}
train { dataset: "train" batch: 64 epochs: 1 optimizer { sgd { lr: 0.01 } } }
output_dir: "out"
"""


def program(name):
    folder = os.environ.get("ADJOIN_PROGRAMS", PROGRAMS[name])
    return os.path.abspath(os.path.join(folder, name))


class Terminal:
    """A shell on a terminal of its own."""

    def __init__(self, command, environment, folder):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execvpe(command[0], command, environment)
        self.seen = ""

    def send(self, text):
        os.write(self.fd, text.encode())

    def read_until(self, pattern):
        """What came up to the pattern, as a match object."""
        end = time.monotonic() + SECONDS
        while True:
            match = re.search(pattern, self.seen, re.DOTALL)
            if match:
                self.seen = self.seen[match.end():]
                return match
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.fd], [], [], left)[0]:
                raise AssertionError(f"{pattern!r} did not come within {SECONDS} s, but {self.seen!r}")
            self.seen += os.read(self.fd, 65536).decode(errors="replace")

    def close(self):
        os.close(self.fd)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


class CompletionTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.processes = []
        (cls.folder / "bin").mkdir()
        for name in PROGRAMS:
            (cls.folder / "bin" / name).symlink_to(program(name))
        cls.environment = {"PATH": f"{cls.folder}/bin:/usr/bin:/bin", "HOME": str(cls.folder), "TERM": "dumb",
                           "LC_ALL": "C.UTF-8", "XDG_CONFIG_HOME": str(cls.folder / "config"),
                           "XDG_DATA_HOME": str(cls.folder / "data"), "ADJOIN_COMPLETION_SECONDS": "20"}
        try:
            hostile = subprocess.Popen([program("hostile_coordinator"), *JOBS.values(), *REFUSED, *WRITTEN_OUT],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       stderr=subprocess.DEVNULL)
            cls.processes.append(hostile)
            cls.environment["ADJOIN_COORDINATOR"] = hostile.stdout.readline().decode().strip()
            cls.real = cls.start_coordinator()
        except BaseException:
            cls.tearDownClass()
            raise
        cls.work = cls.folder / "work"
        cls.work.mkdir()
        (cls.work / "job one.textproto").write_text("")
        (cls.work / "jungle").mkdir()

    @classmethod
    def start_coordinator(cls):
        """Where a real one listens, that has the job real-job."""
        port = cls.folder / "port"
        coordinator = subprocess.Popen(
            [program("adjoin-coordinator"), "--listen", "127.0.0.1:0", "--port-file", port, "--state-dir",
             cls.folder / "state"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=cls.environment)
        cls.processes.append(coordinator)
        end = time.monotonic() + SECONDS
        while not port.exists():
            if coordinator.poll() is not None or time.monotonic() > end:
                raise AssertionError("the coordinator did not start")
            time.sleep(0.05)
        address = port.read_text().strip()
        run = subprocess.run([program("adjoin"), "--coordinator", address, "submit", "-"], input=SPEC.encode(), check=False,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=SECONDS, env=cls.environment)
        if run.returncode != 0:
            raise AssertionError(run.stderr.decode())
        return address

    @classmethod
    def tearDownClass(cls):
        for process in cls.processes:
            process.kill()
            process.communicate()
        shutil.rmtree(cls.folder)

    def tearDown(self):
        run = list(self.folder.rglob("PWNED"))
        for path in run:
            path.unlink()
        self.assertEqual(run, [])

    def need(self, shell):
        if shutil.which(shell) is None:
            self.skipTest(f"the shell {shell} is not installed")

    def script(self, name, shell):
        return subprocess.run([program(name), "--completion", shell], stdout=subprocess.PIPE, check=True,
                              timeout=SECONDS, env=self.environment).stdout

    def test_the_command_and_the_option_print_the_same(self):
        for shell in ("bash", "zsh", "fish"):
            self.assertEqual(subprocess.run([program("adjoin"), "completion", shell], stdout=subprocess.PIPE, check=True,
                                            timeout=SECONDS, env=self.environment).stdout, self.script("adjoin", shell))

    # ------------------------------------------------------------------------------------------------------------------
    # bash and zsh

    def terminal(self, shell):
        """A shell that has loaded the completion, and whose `adjoin` prints <its arguments>."""
        self.need(shell)
        for name in COMPLETED:
            (self.folder / f"_{name}").write_bytes(self.script(name, shell))
        command = {"bash": ["bash", "--norc", "--noprofile", "-i"], "zsh": ["zsh", "-f", "-i"]}[shell]
        terminal = Terminal(command, self.environment, self.work)
        self.addCleanup(terminal.close)
        if shell == "bash":
            terminal.send("bind 'set show-all-if-ambiguous on'; bind 'set enable-bracketed-paste off'\n")
            terminal.send("bind 'set page-completions off'; bind 'set completion-query-items 0'\n")
            for name in COMPLETED:
                terminal.send(f"source '{self.folder}/_{name}'\n")
        else:
            # Tab completes, and does not expand what is there, as zsh's own does.
            terminal.send("bindkey '^I' complete-word\n")
            terminal.send("unset zle_bracketed_paste; unsetopt beep prompt_sp; LISTMAX=1000\n")
            terminal.send(f"fpath=('{self.folder}' $fpath); autoload -U compinit; compinit -u -D\n")
        terminal.send("adjoin() { printf '<%s>' \"$@\"; echo '<''end>'; }; adjoin-worker() { adjoin \"$@\"; }\n")
        terminal.send("PS1='ready> '; echo 'be''gin'\n")
        terminal.read_until("begin")
        terminal.read_until("ready> ")
        return terminal

    def arguments(self, terminal, typed):
        """What the command gets where one types this and Tab."""
        terminal.send(typed + "\t\n")
        shown = terminal.read_until(r"((?:<[^\n]*>)?)<end>").group(1)
        terminal.read_until("ready> ")
        return re.findall(r"<(.*?)>(?=<|$)", shown)

    def shown(self, terminal, typed):
        """What Tab shows where there are several."""
        terminal.send(typed + "\t\t")
        terminal.send("\x15echo 'list''ed'\n")
        shown = terminal.read_until(r"(.*)listed").group(1)
        terminal.read_until("ready> ")
        return shown

    def check_on_terminal(self, shell):
        terminal = self.terminal(shell)
        for begun, name in JOBS.items():
            with self.subTest(job=name):
                self.assertEqual(self.arguments(terminal, f"adjoin cancel {begun}"), ["cancel", name])
        for quote in "'\"":
            for begun, name in JOBS.items():
                with self.subTest(job=name, quote=quote):
                    self.assertEqual(self.arguments(terminal, f"adjoin cancel {quote}{begun}"), ["cancel", name])
        for typed, arguments in (
                ("adjoin canc", ["cancel"]),
                ("adjoin token cr", ["token", "create"]),
                ("adjoin ps --wat", ["ps", "--watch"]),
                ("adjoin ps -o ya", ["ps", "-o", "yaml"]),
                ("adjoin ps --format=ya", ["ps", "--format=yaml"]),
                ("adjoin ps --state running,fa", ["ps", "--state", "running,failed"]),
                ("adjoin verify --tol", ["verify", "--tolerance"]),
                ("adjoin submit job", ["submit", "job one.textproto"]),
                ("adjoin run --data-root j", ["run", "--data-root", "jungle/" if shell == "bash" else "jungle"]),
                ("adjoin cancel alpha\\ $\\(to", ["cancel", JOBS["alpha"]]),
                ("adjoin-worker --log-format j", ["--log-format", "json"])):
            with self.subTest(typed=typed):
                self.assertEqual(self.arguments(terminal, typed), arguments)
        shown = self.shown(terminal, "adjoin cancel job-")
        for number in range(1, len(JOBS) + 1):
            self.assertIn(f"job-{number}", shown)
        shown = re.sub(r"  -- .*", "", self.shown(terminal, "adjoin cancel "))  # without descriptions
        for refused in ("\x1b[31m", "\nphi", "rho", "--help"):
            self.assertNotIn(refused, shown)
        typed = f"adjoin --coordinator {self.real} cancel real"
        self.assertEqual(self.arguments(terminal, typed), ["--coordinator", self.real, "cancel", "real-job"])
        shown = self.shown(terminal, "adjoin ")
        for command in ("submit", "follow", "token", "completion"):
            self.assertIn(command, shown)

    def check_that_typed_text_is_not_run(self, shell):
        terminal = self.terminal(shell)
        for typed in ("adjoin cancel $(touch PWNED) ", "adjoin cancel `touch PWNED` al", "adjoin cancel \"$(touch PWNED)",
                      "adjoin --coordinator $(touch PWNED) cancel al", "adjoin cancel ${x:=$(touch PWNED)} "):
            self.shown(terminal, typed)
            self.assertEqual(list(self.folder.rglob("PWNED")), [], typed)

    def check_without_a_coordinator(self, shell):
        terminal = self.terminal(shell)
        terminal.send("ADJOIN_COORDINATOR=127.0.0.1:1\n")
        terminal.read_until("ready> ")
        began = time.monotonic()
        self.assertEqual(self.arguments(terminal, "adjoin cancel al"), ["cancel", "al"])
        self.assertLess(time.monotonic() - began, 10)

    def test_bash(self):
        self.check_on_terminal("bash")

    def test_bash_runs_nothing_that_was_typed(self):
        self.check_that_typed_text_is_not_run("bash")

    def test_bash_without_a_coordinator(self):
        self.check_without_a_coordinator("bash")

    def test_zsh(self):
        self.check_on_terminal("zsh")

    def test_zsh_runs_nothing_that_was_typed(self):
        self.check_that_typed_text_is_not_run("zsh")

    def test_zsh_without_a_coordinator(self):
        self.check_without_a_coordinator("zsh")

    # ------------------------------------------------------------------------------------------------------------------
    # fish

    def fish(self, typed, *options):
        """Lines of `complete -C`: what fish offers for the typed text, with descriptions after a tab."""
        self.need("fish")
        sources = []
        for name in COMPLETED:
            path = self.folder / f"{name}.fish"
            path.write_bytes(self.script(name, "fish"))
            sources.append(f"source '{path}'")
        run = subprocess.run(["fish", "--no-config", "-c", "; ".join(sources) + f"; complete {' '.join(options)} -C $argv[1]",
                              typed], cwd=self.work, env=self.environment, check=False, timeout=SECONDS,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual((run.returncode, run.stderr.decode()), (0, ""))
        return run.stdout.decode().splitlines()

    def test_fish(self):
        for begun, name in JOBS.items():
            texts = [line.split("\t")[0] for line in self.fish(f"adjoin cancel {begun}")]
            self.assertEqual(texts, [name])
            # As fish puts it on the line: it reads it back as one argument.
            escaped = self.fish(f"adjoin cancel {begun}", "--escape")[0].split("\t")[0]
            run = subprocess.run(["fish", "--no-config", "-c", f"printf '<%s>' {escaped}"], cwd=self.work, check=True,
                                 env=self.environment, timeout=SECONDS, stdout=subprocess.PIPE)
            self.assertEqual(run.stdout.decode(), f"<{name}>")
        for typed, texts in (("adjoin canc", ["cancel"]), ("adjoin token cr", ["create"]),
                             ("adjoin ps -o ya", ["yaml"]), ("adjoin ps --format=ya", ["--format=yaml"]),
                             ("adjoin ps --state running,fa", ["running,failed"]),
                             ("adjoin submit job", ["job one.textproto"]),
                             ("adjoin verify --tol", ["--tolerance"]),
                             ("adjoin-worker --log-format j", ["json"])):
            with self.subTest(typed=typed):
                self.assertEqual([line.split("\t")[0] for line in self.fish(typed)], texts)
        ids = [line.split("\t")[0] for line in self.fish("adjoin cancel job-")]
        self.assertEqual(sorted(ids), sorted(f"job-{number}" for number in range(1, len(JOBS) + len(REFUSED) + len(WRITTEN_OUT) + 1)))
        names = [line.split("\t")[0] for line in self.fish("adjoin cancel ")]
        self.assertEqual(sorted(set(names) - set(ids)), sorted([*JOBS.values(), *WRITTEN_OUT.values()]))
        texts = [line.split("\t")[0] for line in self.fish(f"adjoin --coordinator {self.real} cancel re")]
        self.assertEqual(texts, ["real-job"])

    def test_fish_runs_nothing_that_was_typed(self):
        for typed in ("adjoin cancel (touch PWNED) ", "adjoin cancel \"(touch PWNED)", "adjoin cancel $(touch PWNED) al"):
            self.fish(typed)

    def test_fish_without_a_coordinator(self):
        environment = dict(self.environment, ADJOIN_COORDINATOR="127.0.0.1:1")
        self.environment, kept = environment, self.environment
        try:
            self.assertEqual(self.fish("adjoin cancel al"), [])
        finally:
            self.environment = kept


if __name__ == "__main__":
    unittest.main()
