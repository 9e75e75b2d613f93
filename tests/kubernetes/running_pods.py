"""The pods of overlays/statefulset as processes, and what happens to them: steps that follow each other.

    with RunningPods(documents, folder, programs) as pods:
        pods.become_ready()
        pods.train()
        pods.end()
"""

import contextlib
import copy
import json
import os
import re
import shutil
import subprocess
import sys
import time

from manifests import ROOT, find
from pod_process import PodNetwork, PodProcess

sys.path.insert(0, f"{ROOT}/tests/programs")

from checks import expect, wait_until  # noqa: E402

# As the coordinator waits after its start for workers that ran jobs before (--reattach-seconds).
REATTACH_SECONDS = 30


class RunningPods:
    """The pods of overlays/statefulset as processes."""

    def __init__(self, documents, folder, programs):
        self.documents = documents
        self.folder = folder
        self.programs = programs
        self.pods = []
        self.workers = {}
        self.volumes = {}

    def __enter__(self):
        for name, owner in [("output", 65532), ("state", 65532), ("coordinator-tls", 0), ("worker-tls", 0)]:
            os.makedirs(f"{self.folder}/{name}")
            os.chown(f"{self.folder}/{name}", owner, owner)
        # As docs/kubernetes.md tells.
        subprocess.run(
            [
                f"{ROOT}/tools/make-certs",
                f"{self.folder}/certs",
                "--server",
                "adjoin-coordinator,adjoin-coordinator.default.svc,localhost,127.0.0.1",
                "--client",
                "worker",
                "adjoin-worker-0",
                "--client",
                "worker",
                "adjoin-worker-1",
                "--client",
                "admin",
                "alice",
            ],
            check=True,
            capture_output=True,
        )
        for secret, names in {
            "coordinator-tls": ["ca.pem", "server.pem", "server.key"],
            "worker-tls": ["ca.pem"] + [f"worker-adjoin-worker-{i}.{end}" for i in (0, 1) for end in ("pem", "key")],
        }.items():
            for name in names:
                shutil.copy(f"{self.folder}/certs/{name}", f"{self.folder}/{secret}")
        self.volumes = {
            "adjoin-data": f"{ROOT}/examples",
            "adjoin-output": f"{self.folder}/output",
            "state": f"{self.folder}/state",
            "adjoin-coordinator-tls": f"{self.folder}/coordinator-tls",
            "adjoin-worker-tls": f"{self.folder}/worker-tls",
        }
        self.network = PodNetwork(self.folder)
        self.network.__enter__()
        return self

    def __exit__(self, kind, *_):
        for pod in self.pods:
            with contextlib.suppress(OSError):
                pod.end()
            if kind is not None:
                print(f"--- {pod.name}\n{pod.text()[-3000:]}")
        self.network.__exit__()

    def start(self, name):
        document = find(self.documents, "StatefulSet", name.rpartition("-")[0])
        template = copy.deepcopy(document["spec"]["template"])
        for claim in document["spec"].get("volumeClaimTemplates", []):
            template["spec"]["volumes"].append(
                {"name": claim["metadata"]["name"], "persistentVolumeClaim": {"claimName": claim["metadata"]["name"]}}
            )
        pod = PodProcess(
            self.network, template, name, f"node-{len(self.pods)}", self.volumes, self.programs, self.folder
        )
        self.pods.append(pod)
        return pod

    def start_coordinator(self):
        """The Service's name is the pod's when it is ready."""
        self.coordinator = self.start("adjoin-coordinator-0")
        wait_until(lambda: self.coordinator.probe("startupProbe"), 60, self.coordinator.text)
        expect(
            self.coordinator.probe("readinessProbe") and self.coordinator.probe("livenessProbe"),
            "the coordinator is not ready",
        )
        self.network.name("adjoin-coordinator", self.coordinator.address)
        return time.monotonic()

    def start_worker(self, index):
        self.workers[index] = self.start(f"adjoin-worker-{index}")

    def await_workers(self, seconds):
        wait_until(
            lambda: all(pod.probe("readinessProbe") and pod.probe("startupProbe") for pod in self.workers.values()),
            seconds,
            "all workers are ready",
        )

    def beside_the_service(self, *command):
        """Runs a program of a person, who knows the Service by name."""
        return subprocess.run(
            ["unshare", "--mount", "bash", "-c", 'mount --bind "$0" /etc/hosts; exec "$@"', self.network.hosts_file, *command],
            capture_output=True,
            text=True,
            timeout=300,
        )

    def adjoin(self, *arguments, check=True):
        certs = f"{self.folder}/certs"
        done = self.beside_the_service(
            f"{self.programs}/adjoin",
            "--coordinator",
            "adjoin-coordinator:7411",
            "--tls-ca",
            f"{certs}/ca.pem",
            "--tls-cert",
            f"{certs}/admin-alice.pem",
            "--tls-key",
            f"{certs}/admin-alice.key",
            *arguments,
        )
        expect(done.returncode == 0 or not check, f"adjoin {' '.join(arguments)}: {done.stdout}{done.stderr}")
        return done.stdout

    def submit(self, name, steps):
        with open(f"{ROOT}/examples/mnist/lenet5-sync-sgd.textproto") as file:
            text = file.read()
        path = f"{self.folder}/{name}.textproto"
        with open(path, "w") as file:
            file.write(
                text.replace("epochs: 8", f"steps: {steps}").replace(
                    'output_dir: "lenet5-sync-sgd"',
                    f'output_dir: "{name}" checkpoint {{ dir: "{name}-ckpt" every_steps: 100000 }} '
                    "resources { max_ranks_per_node: 2 }",
                )
            )
        return self.adjoin("submit", path).strip()

    def described(self, job):
        return json.loads(self.adjoin("describe", job, "-o", "json"))

    def await_step(self, job, step):
        def reached():
            described = self.described(job)["job"]
            return described["state"] == "RUNNING" and int(described["progress"]["step"]) >= step

        wait_until(reached, 90, f"step {step} of {job}")

    def await_success(self, job):
        wait_until(lambda: self.described(job)["job"]["state"] in ("SUCCEEDED", "FAILED"), 240, f"the end of {job}")
        expect(self.described(job)["job"]["state"] == "SUCCEEDED", self.adjoin("events", job))

    # The steps.

    def become_ready(self):
        self.network.name("adjoin-coordinator", f"{self.network.subnet}.250")  # nobody
        for index in (0, 1):
            self.start_worker(index)
        time.sleep(2)
        expect(
            not any(pod.probe("readinessProbe") for pod in self.workers.values()),
            "workers are ready without a coordinator",
        )
        self.start_coordinator()
        self.await_workers(30)

    def have_no_rights(self):
        for pod in [self.coordinator, *self.workers.values()]:
            with open(f"/proc/{pod.pid}/status") as file:
                status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
            expect(
                set(status["Uid"].split()) == {"65532"}
                and int(status["CapBnd"], 16) == 0
                and status["NoNewPrivs"] == "1",
                status,
            )
            code, said = pod.execute(["touch", "/etc/x"])
            expect(code != 0 and "Read-only file system" in said, said)
        code, said = self.workers[0].execute(["touch", "/data/x"])
        expect(code != 0 and "Read-only file system" in said, said)

    def serve_the_page(self):
        certs = f"{self.folder}/certs"
        own = ["--cert", f"{certs}/admin-alice.pem", "--key", f"{certs}/admin-alice.key"]
        for more, expected in ((own, "200"), ([], "401")):
            said = self.beside_the_service(
                "curl", "--silent", "--max-time", "30", "--cacert", f"{certs}/ca.pem", *more,
                "--write-out", " %{http_code}", "https://adjoin-coordinator:8411/api/workers",
            ).stdout
            expect(said.endswith(expected), f"the page answers {said}")
            expect(("adjoin-worker-1" in said) == (expected == "200"), f"the page tells of workers: {said}")

    def train(self):
        job = self.submit("trains", 200)
        self.await_step(job, 20)
        lanes = {rank["transport"] for rank in self.described(job)["rank"]}
        expect(
            all("posix/memory" in lane and "tcp/eth0" in lane for lane in lanes), f"the ranks are connected by {lanes}"
        )
        shm = self.workers[0].execute(["df", "--block-size=K", "--output=used", "/dev/shm"])[1].split()[1]
        self.await_success(job)
        expect(os.path.exists(f"{self.folder}/output/trains/model.safetensors"), "no model")
        workers = {rank["worker"] for rank in self.described(job)["rank"]}
        expect(workers == {"adjoin-worker-0", "adjoin-worker-1"}, workers)
        print(f"  trained on {sorted(workers)}; /dev/shm of two ranks: {shm}")

    def survive_a_new_coordinator(self):
        job = self.submit("survives", 100000)
        self.await_step(job, 50)
        self.coordinator.kill()
        # So late that each is in the middle of an attempt to connect to where it was.
        wait_until(
            lambda: not any(pod.probe("readinessProbe") for pod in self.workers.values()),
            30,
            "no worker is ready any more",
        )
        time.sleep(2)
        since = self.start_coordinator()
        self.await_workers(REATTACH_SECONDS)
        print(f"  connected again {time.monotonic() - since:.1f} s after the new coordinator was ready")
        described = self.described(job)["job"]
        expect(described["state"] == "RUNNING" and described["attempts"] == 1, described)
        self.adjoin("cancel", job)

    def drain_a_worker(self):
        job = self.submit("drains", 2000)
        self.await_step(job, 50)
        pod = self.workers.pop(1)
        code, seconds = pod.stop()
        expect(code == 0, f"the worker ended with {code}")
        expect(seconds < pod.spec["terminationGracePeriodSeconds"], f"the drain took {seconds:.0f} s")
        print(f"  drained in {seconds:.1f} s")
        self.start_worker(1)
        self.await_workers(30)
        self.await_success(job)
        described = self.described(job)["job"]
        expect(described["attempts"] == 2 and described["restarts_counted"] == 0, described)
        expect(re.search("from the checkpoint of step", self.adjoin("events", job)), self.adjoin("events", job))

    def end(self):
        for pod in [*self.workers.values(), self.coordinator]:
            code, seconds = pod.stop()
            expect(code == 0, f"{pod.name} ended with {code} after {seconds:.0f} s")
