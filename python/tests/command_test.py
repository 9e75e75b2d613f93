#!/usr/bin/python3
"""Jobs by way of a command that prints what the command `adjoin` printed. cluster_test.cc has the real one."""
import json
import os
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import adjoin  # noqa: E402

# As `adjoin follow job-1 -o json` printed them, and `adjoin metrics job-1`.
STATE = {
    "job_id": "job-1", "name": "lenet5-serial", "state": "SUCCEEDED", "reason": "", "ranks": 1, "epoch": "1",
    "submitted_unix_ms": "1795495621009", "started_unix_ms": "1795495621063", "ended_unix_ms": "1795495622188",
    "progress": {
        "step": "10", "total_steps": "10", "epoch": 1, "total_epochs": 1, "loss": 2.2947502136230469,
        "steps_per_second": 103.31534179308279, "seconds_left": 0, "phase": "finished",
        "compute_seconds": 0.0093482127, "sync_seconds": 7.0182999999999994e-06,
        "metric": {"accuracy": 0.1885, "samples": 2000, "loss": 2.2956724987030031, "correct": 377},
        "program": "train", "bytes_sent": "0", "resumed_step": "0", "checkpoint_step": "0",
        "peak_tensor_bytes": "5559080", "peak_resident_bytes": "210817024", "step_seconds": 0.005045253},
    "queue_position": 0, "priority": 0, "owner": "", "held": False, "attempts": 1, "restarts_counted": 0}
STEP = {"type": "step", "step": 1, "epoch": 1, "loss": 2.3021554946899414, "lr": 0.01, "samples": 64,
        "t_comp": 0.046232069, "t_sync": 1.9339e-05, "bytes_sent": 0}
SUBMITTED = '{\n "job_id": "job-1",\n "existed": false\n}\n'


class CommandTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def command(self, out="", err="", code=0, after="pass"):
        """A program that notes its arguments, prints, does `after` and ends with `code`."""
        path = self.folder / "adjoin"
        path.write_text(f"#!{sys.executable} -SE\nimport json, os, sys, time\n"
                        f"json.dump([sys.argv[1:], os.getpid()], open({str(self.folder / 'called')!r}, 'w'))\n"
                        f"sys.stderr.write({err!r})\nsys.stderr.flush()\n"
                        f"sys.stdout.write({out!r})\nsys.stdout.flush()\n{after}\nsys.exit({code})\n")
        path.chmod(0o755)
        return str(path)

    def called(self):
        return json.loads((self.folder / "called").read_text())

    def assert_ended(self):
        with self.assertRaises(ProcessLookupError):
            os.kill(self.called()[1], 0)

    def test_submit_returns_the_id(self):
        job = adjoin.submit("lenet.textproto", command=self.command(SUBMITTED), coordinator="node:7411",
                            changes={"train.epochs": 4, "dataset[train].shuffle": True, "output_dir": "a b; rm *",
                                     "train.batch": 2.5, "layer[0].pad": [1, 2]},
                            unset=["train"], priority=-3, replace=True, idempotency_key="mine")
        self.assertEqual(job, "job-1")
        self.assertEqual(self.called()[0], [
            "--coordinator=node:7411", "submit", "lenet.textproto", "-o", "json", "--priority=-3",
            "--idempotency-key=mine", "--unset=train", "--set=train.epochs=4", "--set=dataset[train].shuffle=true",
            "--set=output_dir=a b; rm *", "--set=train.batch=2.5", "--set=layer[0].pad=[1,2]", "--replace"])

    def test_arguments_that_look_like_options_are_none(self):
        adjoin.submit("-job", command=self.command(SUBMITTED))
        self.assertEqual(self.called()[0][1], "./-job")
        for job in ("-a", "", None):
            with self.assertRaisesRegex(ValueError, "is no job"):
                adjoin.follow(job, command=self.command())
        with self.assertRaisesRegex(ValueError, "train: .* is no value"):
            adjoin.submit("job", changes={"train": None}, command=self.command())

    def test_a_command_may_begin_with_others(self):
        self.assertEqual(adjoin.submit("job", command=["/usr/bin/env", "A=1", self.command(SUBMITTED)]), "job-1")

    def test_two_submits_have_two_keys(self):
        keys = set()
        for _ in range(2):
            adjoin.submit("job", command=self.command(SUBMITTED))
            keys.update(value for value in self.called()[0] if value.startswith("--idempotency-key=python-"))
        self.assertEqual(len(keys), 2)

    def test_what_the_command_refuses_is_raised_with_its_text(self):
        text = "adjoin: error: --set bach: there is no field 'bach' here; there are: name, kind, ...\n"
        for call in (lambda c: adjoin.submit("job", command=c), lambda c: adjoin.follow("job-1", command=c),
                     lambda c: adjoin.metrics("job-1", command=c)):
            with self.assertRaises(adjoin.CommandError) as raised:
                call(self.command(err=text, code=1))
            self.assertEqual((raised.exception.stderr, raised.exception.returncode), (text, 1))
            self.assertEqual(str(raised.exception), text.strip())

    def test_a_command_that_is_not_there_is_told(self):
        with self.assertRaisesRegex(adjoin.CommandError, "none/adjoin: cannot be started.*command=PATH"):
            adjoin.submit("job", command=str(self.folder / "none" / "adjoin"))

    def test_output_that_is_no_json_is_an_error(self):
        for out in ("", "job-1\n", "[]", '{"existed": false}', "\xff"):
            with self.assertRaises(adjoin.CommandError):
                adjoin.submit("job", command=self.command(out))
        with self.assertRaisesRegex(adjoin.CommandError, "without a state"):
            adjoin.follow("job-1", command=self.command())

    def test_follow_hands_out_each_state_and_returns_the_last(self):
        running = dict(STATE, state="RUNNING")
        seen = []
        command = self.command(f"{json.dumps(running)}\n{json.dumps(STATE)}\n")
        last = adjoin.follow("lenet", seen.append, command=command)
        self.assertEqual(seen, [running, STATE])
        self.assertEqual(last, STATE)
        self.assertEqual(self.called()[0], ["follow", "lenet", "-o", "json"])

    def test_states_come_before_the_job_has_ended(self):
        class Seen(Exception):
            pass

        def stop(state):
            raise Seen
        with self.assertRaises(Seen):
            adjoin.follow("job-1", stop, command=self.command(json.dumps(STATE) + "\n", after="time.sleep(600)"))
        self.assert_ended()

    def test_a_job_that_does_not_succeed_is_raised_or_returned(self):
        for state, code, text in (("FAILED", 100, "job-1 failed: rank 2 was lost"),
                                  ("CANCELLED", 103, "job-1 was cancelled: rank 2 was lost")):
            ended = dict(STATE, state=state, reason="rank 2 was lost")
            command = self.command(json.dumps(ended) + "\n", code=code)
            with self.assertRaisesRegex(adjoin.JobFailed, text) as raised:
                adjoin.follow("job-1", command=command)
            self.assertEqual((raised.exception.job, raised.exception.returncode), (ended, code))
            self.assertEqual(adjoin.follow("job-1", check=False, command=command), ended)

    def test_every_wait_ends_at_its_timeout(self):
        for after in ("time.sleep(600)", "os.close(1); time.sleep(600)"):
            for call in (lambda c: adjoin.submit("job", command=c, timeout=4),
                         lambda c: adjoin.follow("job-1", command=c, timeout=4),
                         lambda c: adjoin.metrics("job-1", command=c, timeout=4)):
                with self.assertRaisesRegex(adjoin.CommandTimeout, "longer than 4 seconds .does not answer"):
                    call(self.command(json.dumps(STATE) + "\n", "does not answer", after=after))
                self.assert_ended()

    def test_a_timeout_of_submit_tells_the_key(self):
        with self.assertRaisesRegex(adjoin.CommandTimeout, "idempotency_key='mine' submits it once"):
            adjoin.submit("job", idempotency_key="mine", timeout=0.5, command=self.command(after="time.sleep(600)"))

    def test_metrics_returns_whole_lines(self):
        steps = [dict(STEP, step=i) for i in range(5000)]  # more than a pipe holds
        command = self.command("".join(json.dumps(step) + "\n" for step in steps), err="x" * 200000)
        self.assertEqual(adjoin.metrics("job-1", type="step", command=command), steps)
        self.assertEqual(self.called()[0], ["metrics", "job-1", "--type=step"])


if __name__ == "__main__":
    unittest.main()
