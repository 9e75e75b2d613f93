"""The coordinator, the worker and the jobs that tools/check-page looks at.

    cluster = Cluster(programs_in("bazel-bin"), "/tmp/folder")
    cluster.begin()
    job = cluster.submit("name", steps=1000)
    ... cluster.page ...
    cluster.stop()
"""

import json
import os
import re
import signal
import subprocess

from checks import expect, wait_until

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)<\\/script>"
RANKS = 4       # of a job
PATIENCE = 300  # seconds for what takes a moment on an idle machine
JOB = """name: "NAME" kind: TRAIN ranks: 4 seed: 1
layout { name: "rows" partition: [1, 1, 4, 1] }
layout { name: "batch" partition: [4, 1] }
layer { name: "conv1" input: "image" x: "rows" conv { out_channels: 4 window { kernel: 3 pad_lo: 1 } } }
layer { name: "relu1" activation { fn: "relu" } }
layer { name: "conv2" conv { out_channels: 4 window { kernel: 3 pad_lo: 1 } } }
layer { name: "to_batch" y: "both" repartition {} }
layout { name: "both" partition: [4, 1, 1, 1] }
layer { name: "flat" flatten { arg: 1 } }
layer { name: "fc" x: "batch" linear { out_features: 2 } }
loss { kind: "mse" input: "fc" target: "y" }
dataset { name: "train"
  field { name: "image" synthetic { kind: "normal" samples: 64 } shape: [1, 16, 16] }
  field { name: "y" synthetic { kind: "normal" samples: 64 } shape: [2] } }
train { dataset: "train" batch: 8 steps: STEPS optimizer { sgd { lr: LR } } measure_layers_every: 20
  validate_on: "train" validate_every: 200 }
output_dir: "OUTPUT"
"""
# Ranks write what they like.
LINES = 2000        # that a rank writes where the file LONG is
RANK = """#!/bin/sh
if [ -e LONG ]; then seq -f 'numbered line %.0f, with as much text behind its number as others write, and a little more' LINES; fi
echo 'hostile line: HOSTILE'
exec PROGRAM "$@"
"""


class Cluster:
    """A coordinator and a worker with TLS, and their page."""

    def __init__(self, programs, folder):
        self.programs, self.folder = programs, folder
        self.processes = []

    def begin(self):
        folder = self.folder
        subprocess.run([f"{ROOT}/tools/make-certs", f"{folder}/certs", "--server", "localhost,127.0.0.1", "--client",
                        "admin", "root", "--client", "worker", "node-1"], check=True, stdout=subprocess.DEVNULL)
        os.makedirs(f"{folder}/data")
        os.makedirs(f"{folder}/output")
        log = f"{folder}/coordinator.log"
        self.start("adjoin-coordinator", "server", log, "--listen", "127.0.0.1:0", "--page-listen", "127.0.0.1:0",
                   "--state-dir", f"{folder}/state", "--port-file", f"{folder}/address")
        self.address = self.await_text(f"{folder}/address", r"(\S+)\n")
        self.page = self.await_text(log, r"the page is at (https://\S+)")
        self.start("adjoin-worker", "worker-node-1", f"{folder}/worker.log", "--coordinator", self.address, "--name",
                   "node-1", "--slots", str(RANKS), "--data-root", f"{folder}/data", "--output-root", f"{folder}/output",
                   "--state-dir", f"{folder}/worker", "--memory", "64GiB", "--rank-binary", self.hostile_rank())

    def hostile_rank(self):
        """A program that writes markup and then is the rank."""
        path = f"{self.folder}/rank"
        with open(path, "w") as file:
            file.write(RANK.replace("HOSTILE", HOSTILE).replace("PROGRAM", self.programs["adjoin-rank"])
                       .replace("LONG", f"{self.folder}/long-logs").replace("LINES", str(LINES)))
        os.chmod(path, 0o755)
        return path

    def flags(self, who):
        base = f"{self.folder}/certs/"
        return ["--tls-ca", base + "ca.pem", "--tls-cert", f"{base}{who}.pem", "--tls-key", f"{base}{who}.key"]

    def start(self, program, who, log, *flags):
        with open(log, "w") as file:
            self.processes.append(subprocess.Popen([self.programs[program], *flags, *self.flags(who)], stdout=file,
                                                   stderr=file, start_new_session=True))

    @staticmethod
    def await_text(path, pattern):
        def look():
            if not os.path.exists(path):
                return None
            with open(path) as file:
                return re.search(pattern, file.read())

        return wait_until(look, PATIENCE, f"{path} does not say {pattern}").group(1)

    def command(self, *arguments):
        ran = subprocess.run([self.programs["adjoin"], "--coordinator", self.address, *self.flags("admin-root"),
                              *arguments], capture_output=True, text=True, timeout=PATIENCE)
        expect(ran.returncode == 0, f"adjoin {' '.join(arguments)}: {ran.stdout[-2000:]}{ran.stderr}")
        return ran.stdout

    def submit(self, name, steps, rate="0.0005", output=""):
        path = f"{self.folder}/job.textproto"
        with open(path, "w") as file:
            file.write(JOB.replace("NAME", name).replace("STEPS", str(steps)).replace("LR", rate)
                       .replace("OUTPUT", output or name))
        return self.command("submit", path).split()[0]

    def described(self, job):
        return json.loads(self.command("describe", job, "-o", "json"))

    def state(self, job):
        return self.described(job)["job"]["state"]

    def stop(self):
        for process in reversed(self.processes):
            process.send_signal(signal.SIGTERM)
        for process in reversed(self.processes):
            try:
                process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
