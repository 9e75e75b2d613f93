#!/usr/bin/python3
"""deploy/slurm/adjoin.sbatch with stand-ins for Slurm's commands and Adjoin's programs, without root.

Under a real Slurm: tests/slurm/check.
"""
import fcntl
import os
import pathlib
import re
import subprocess
import tempfile
import time
import unittest

_SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "deploy" / "slurm" / "adjoin.sbatch"
_SECONDS = 60  # For what takes a moment.

# Those that stay end with the folder of the test.
_PROGRAMS = {
    "scontrol": """case "$2" in
  hostnames) echo n1 ;;
  node) echo "NodeName=n1 NodeAddr=127.0.0.1 NodeHostName=n1" ;;
esac
""",
    "srun": """while [[ "$1" == --* ]]; do shift; done
echo $$ >> "$STANDINS/pids"
SLURM_PROCID=0 SLURM_STEP_ID=0 exec "$@"
""",
    "scancel": 'kill -TERM $(cat "$STANDINS/pids")\n',
    "make-certs": 'mkdir -p "$1" && touch "$1/ca.key"\n',
    "adjoin-coordinator": """[[ "$1" == --port-file ]] && echo 0.0.0.0:7411 > "$2"
while [[ -d "$STANDINS" ]]; do sleep 0.1; done
""",
    "adjoin-worker": """[[ "$3" == --state-dir ]] || exit 9
echo "$4" >> "$STANDINS/states"
if [[ "$WORKER" == ends ]]; then exit 0; fi
echo $$ >> "$STANDINS/pids"
while [[ -d "$STANDINS" ]]; do sleep 0.1; done
""",
    "adjoin-rank": "",
    "adjoin": """case " $* " in
  *" token create "*) echo "token secret" ;;
  *" ps "*) echo '"heartbeat_age_seconds": 0' ;;
  *" submit "*) echo job-1 ;;
  *" describe "*) echo '{"state": "RUNNING"}' ;;
esac
""",
}


class AdjoinSbatchTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        for name in ("bin", "submit", "job", "tmp"):
            (self.folder / name).mkdir()
        for name, text in _PROGRAMS.items():
            program = self.folder / "bin" / name
            program.write_text("#!/bin/bash\n" + text)
            program.chmod(0o755)
        (self.folder / "submit" / "job.textproto").write_text("")

    def lines(self, name):
        path = self.folder / name
        return path.read_text().split() if path.exists() else []

    def environment(self, **more):
        return {
            "PATH": f"{self.folder}/bin:/usr/bin:/bin",
            "STANDINS": str(self.folder),
            "TMPDIR": str(self.folder / "tmp"),
            "ADJOIN_BIN": str(self.folder / "bin"),
            "ADJOIN_WORKER_NET_DEVICE": "lo",
            "SLURMD_NODENAME": "n1",
            "WORKER": "stays",
            **more,
        }

    def start_worker(self, run, behaviour):
        """What srun starts on a node."""
        environment = self.environment(
            WORKER=behaviour, ADJOIN_RUN=run, ADJOIN_UMASK="0022", SLURM_PROCID="0", SLURM_STEP_ID="0"
        )
        command = ["bash", str(_SCRIPT), "--worker", str(self.folder / "job")]
        worker = subprocess.Popen(command, env=environment, cwd=self.folder / "submit")
        self.addCleanup(worker.wait)
        self.addCleanup(worker.kill)
        return worker

    def run_worker(self, run, behaviour="ends"):
        return self.start_worker(run, behaviour).wait(_SECONDS)

    def worker_that_stays(self, run):
        known = len(self.lines("pids"))
        worker = self.start_worker(run, "stays")
        end = time.monotonic() + _SECONDS
        while len(self.lines("pids")) == known and worker.poll() is None and time.monotonic() < end:
            time.sleep(0.02)
        self.assertGreater(len(self.lines("pids")), known, self.log())
        return worker, pathlib.Path(self.lines("states")[-1])

    def log(self):
        path = self.folder / "job" / "worker-n1.log"
        return path.read_text() if path.exists() else ""

    def left(self):
        return sorted(path.name for path in (self.folder / "tmp").iterdir())

    def test_a_relative_folder_is_written_as_an_absolute_one(self):
        environment = self.environment(
            ADJOIN_JOB_DIR="mine/job",
            SLURM_JOB_ID="7",
            SLURM_JOB_NODELIST="n1",
            SLURM_JOB_NUM_NODES="1",
            SLURM_SUBMIT_DIR=str(self.folder / "submit"),
        )
        answer = subprocess.run(
            ["bash", str(_SCRIPT), "job.textproto"],
            env=environment,
            cwd=self.folder / "submit",
            capture_output=True,
            text=True,
            timeout=_SECONDS,
        )
        self.assertEqual(answer.returncode, 0, answer.stdout + answer.stderr)
        folder = self.folder / "submit" / "mine" / "job"
        paths = re.findall(r'^(?:tls-ca|token-file) = "(.*)"$', (folder / "adjoin.conf").read_text(), re.MULTILINE)
        self.assertEqual(paths, [f"{folder}/tls/ca.pem", f"{folder}/token"])
        self.assertIn(f"adjoin --config {folder}/adjoin.conf shows it", answer.stdout)
        self.assertEqual(self.left(), [], self.log())

    def test_names_that_are_taken_keep_no_worker_from_starting(self):
        tmp = self.folder / "tmp"
        names = [f"adjoin-{os.getuid()}-7-n1{end}" for end in ("", ".lock", ".new")]
        for name in names:
            (tmp / name).mkdir()
            self.assertEqual(self.run_worker("7"), 0, f"{name}: {self.log()}")
            (state,) = self.lines("states")
            (self.folder / "states").unlink()
            self.assertTrue(state.startswith(f"{tmp}/"), state)
            self.assertEqual(self.left(), [name])
            (tmp / name).rmdir()

    def test_a_folder_is_its_users_alone_and_goes_once_its_worker_is_killed(self):
        worker, state = self.worker_that_stays("8")
        self.assertEqual(state.parent.stat().st_mode & 0o777, 0o700)
        self.assertEqual(state.stat().st_mode & 0o777, 0o700)
        with open(state.parent / "lock") as lock, self.assertRaises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.assertEqual(self.run_worker("9"), 0, self.log())
        self.assertEqual(self.left(), [state.parent.name], "it is in use")
        self.assertEqual(self.run_worker("8"), 1)
        self.assertIn("is another worker of this job there?", self.log())
        self.assertEqual(self.left(), [state.parent.name])
        worker.kill()
        worker.wait()
        self.assertEqual(self.run_worker("9"), 0, self.log())
        self.assertEqual(self.left(), [])


if __name__ == "__main__":
    unittest.main()
