#!/usr/bin/python3
"""The package with the command `adjoin` and a cluster that runs: cluster_check.py ADJOIN HOST:PORT DATA FOLDER.

DATA is the folder of the MNIST subset, FOLDER an empty one. //tests/e2e:python_package_test starts it.
"""
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples" / "mnist"))
import adjoin  # noqa: E402
import train_pytorch  # noqa: E402

JOB = pathlib.Path(train_pytorch.__file__).parent / "lenet5-spatial.textproto"
MINUTE = 60.0


class ClusterTest(unittest.TestCase):
    command = coordinator = ""
    data = folder = pathlib.Path()

    def submit(self, **options):
        return adjoin.submit(JOB, command=self.command, coordinator=self.coordinator, timeout=MINUTE, **options)

    def follow(self, job, on_change=None, **options):
        return adjoin.follow(job, on_change, command=self.command, coordinator=self.coordinator,
                             **{"timeout": 2 * MINUTE, **options})

    def metrics(self, job, **options):
        return adjoin.metrics(job, command=self.command, coordinator=self.coordinator, timeout=MINUTE, **options)

    def adjoin(self, *arguments):
        subprocess.run([self.command, "--coordinator", self.coordinator, *arguments], check=True, timeout=MINUTE)

    def test_a_job_trains_and_its_weights_get_as_much_right_in_the_module(self):
        job = self.submit(changes={"train.epochs": 1, "dataset[train].limit": 2000, "output_dir": "python"})
        states = []
        last = self.follow(job, states.append)
        self.assertEqual(last, states[-1])
        self.assertEqual((last["job_id"], last["state"]), (job, "SUCCEEDED"))

        steps = self.metrics(job, type="step")
        self.assertEqual([line["step"] for line in steps], list(range(1, 33)))
        self.assertLess(steps[-1]["loss"], steps[0]["loss"])
        self.assertEqual([line for line in self.metrics(job) if line["type"] == "step"], steps)

        weights = self.folder / "lenet.safetensors"
        self.adjoin("export", job, str(weights))
        model = train_pytorch.LeNet5()
        self.assertEqual(adjoin.load(model, weights), ([], []))
        right = train_pytorch.count_right(model, *train_pytorch.read_samples(self.data, "test"))
        self.assertEqual(right, last["progress"]["metric"]["correct"])
        self.assertGreater(right, 200)  # of 2000; 200 is chance

    def test_one_key_is_one_job(self):
        changes = {"train.epochs": 1, "dataset[train].limit": 64, "output_dir": "python-key"}
        job = self.submit(changes=changes, idempotency_key="key")
        self.assertEqual(self.submit(changes=changes, idempotency_key="key"), job)
        self.follow(job)

    def test_a_job_goes_on_when_following_it_times_out_and_is_raised_when_cancelled(self):
        job = self.submit(changes={"train.epochs": 100000, "output_dir": "python-long"})
        with self.assertRaisesRegex(adjoin.CommandTimeout, f"{job} may go on"):
            self.follow(job, timeout=0.5)
        self.adjoin("cancel", job)
        with self.assertRaisesRegex(adjoin.JobFailed, f"{job} was cancelled") as raised:
            self.follow(job)
        self.assertEqual(raised.exception.job["state"], "CANCELLED")

    def test_refusals_of_the_command_are_raised(self):
        with self.assertRaisesRegex(adjoin.CommandError, "--set bach: there is no field 'bach' here"):
            self.submit(changes={"bach": 1})
        for call in (self.follow, self.metrics):
            with self.assertRaisesRegex(adjoin.CommandError, "there is no job 'job-9999'"):
                call("job-9999")


if __name__ == "__main__":
    ClusterTest.command, ClusterTest.coordinator = sys.argv[1:3]
    ClusterTest.data, ClusterTest.folder = map(pathlib.Path, sys.argv[3:5])
    unittest.main(argv=sys.argv[:1])
