"""A Slurm cluster on this machine, for tests: munge, slurmctld, and for each node a slurmd in a network of its own.

    with SlurmCluster(folder, nodes=2) as slurm:
        job = slurm.sbatch(["--nodes=2", "script.sbatch"], cwd)
        info = slurm.await_end(job, seconds=120)       # {"JobState": "COMPLETED", "ExitCode": "0:0", ...}

Needs root and Debian's slurm-wlm and munge. Jobs run as the user `nobody`. The end kills what it has started, by
process id, and removes the namespaces and the bridge.
"""

import contextlib
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys

sys.path.insert(0, f"{os.path.dirname(os.path.dirname(os.path.abspath(__file__)))}/programs")

from checks import processes_with, wait_until  # noqa: E402

USER = "nobody"


class SlurmCluster:
    def __init__(self, folder, nodes=2):
        self.folder = folder
        self.names = [f"n{i + 1}" for i in range(nodes)]
        self.cpus = os.cpu_count()  # as slurmd finds them
        self.tag = f"as{os.getpid() % 1000000}"
        self.daemons = []

    def __enter__(self):
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_):
        self._stop()

    # The network.

    def _ip(self, *arguments, check=True):
        return subprocess.run(["ip", *arguments], check=check, capture_output=True, text=True).stdout

    def _free_subnet(self):
        used = self._ip("-o", "-4", "route")
        while True:
            subnet = f"10.{random.randrange(200, 250)}.{random.randrange(1, 250)}"
            if subnet not in used:
                return subnet

    def _make_network(self):
        subnet = self._free_subnet()
        self.controller = f"{subnet}.1"
        self.addresses = {name: f"{subnet}.{i + 11}" for i, name in enumerate(self.names)}
        self._ip("link", "add", f"{self.tag}b", "type", "bridge")
        self._ip("addr", "add", f"{self.controller}/24", "dev", f"{self.tag}b")
        self._ip("link", "set", f"{self.tag}b", "up")
        for name, address in self.addresses.items():
            space = f"{self.tag}{name}"
            self._ip("netns", "add", space)
            self._ip("link", "add", space, "type", "veth", "peer", "name", "eth0", "netns", space)
            self._ip("link", "set", space, "master", f"{self.tag}b", "up")
            self._ip("-n", space, "addr", "add", f"{address}/24", "dev", "eth0")
            self._ip("-n", space, "link", "set", "eth0", "up")
            self._ip("-n", space, "link", "set", "lo", "up")

    # The daemons.

    def _spawn(self, name, command):
        log = open(f"{self.folder}/{name}.out", "ab")
        self.daemons.append(
            subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment)
        )

    def _configure(self):
        folder = self.folder
        nodes = "\n".join(
            f"NodeName={name} NodeAddr={address} CPUs={self.cpus} RealMemory=6000"
            for name, address in self.addresses.items()
        )
        with open(f"{folder}/slurm.conf", "w") as file:
            file.write(
                f"""ClusterName={self.tag}
SlurmctldHost={socket.gethostname().split('.')[0]}({self.controller})
SlurmctldPort={random.randrange(21000, 25000)}
SlurmdPort={random.randrange(25000, 29000)}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
SwitchType=switch/none
MpiDefault=none
{nodes}
PartitionName=test Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
"""
            )
        version = "autodetect" if os.path.exists("/sys/fs/cgroup/cgroup.controllers") else "cgroup/v1"
        with open(f"{folder}/cgroup.conf", "w") as file:
            file.write(f"CgroupPlugin={version}\nCgroupMountpoint=/sys/fs/cgroup\nCgroupAutomount=no\n")

    def _start(self):
        for program in ("munged", "slurmctld", "slurmd", "sbatch", "ip"):
            if shutil.which(program) is None:
                raise AssertionError(f"{program} is missing: apt-get install slurm-wlm munge iproute2")
        folder = self.folder
        self.environment = dict(os.environ, SLURM_CONF=f"{folder}/slurm.conf")
        for name in list(self.environment):
            if name.startswith(("ADJOIN_", "SLURM_J")):
                del self.environment[name]
        self._make_network()
        os.makedirs(f"{folder}/munge", 0o700)
        for name in ["state"] + [f"spool.{name}" for name in self.names]:
            os.makedirs(f"{folder}/{name}")
        with open(f"{folder}/munge/key", "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(os.urandom(128))
        self._configure()
        self._spawn(
            "munged",
            [
                "munged",
                "--foreground",
                "--force",
                f"--key-file={folder}/munge/key",
                f"--socket={folder}/munge.socket",
                f"--pid-file={folder}/munge/pid",
                f"--log-file={folder}/munge/log",
                f"--seed-file={folder}/munge/seed",
            ],
        )
        wait_until(lambda: os.path.exists(f"{folder}/munge.socket"), 20, "munged")
        self._spawn("slurmctld", ["slurmctld", "-D", "-f", f"{folder}/slurm.conf"])
        for name in self.names:
            self._spawn(
                f"slurmd.{name}",
                ["ip", "netns", "exec", f"{self.tag}{name}", "slurmd", "-D", "-N", name, "-f", f"{folder}/slurm.conf"],
            )
        wait_until(
            lambda: self.command(["sinfo", "-h", "-o", "%t %D"], check=False).stdout.split()
            == ["idle", str(len(self.names))],
            60,
            f"{len(self.names)} idle nodes (see {folder}/*.log)",
        )

    def _stop(self):
        # What slurmd has started goes with it: its steps' daemons first, since they clean up.
        with contextlib.suppress(Exception):
            self.command(["scancel", "--state=running"], check=False)
            self.command(["scancel", "--state=pending"], check=False)
            wait_until(lambda: not self.command(["squeue", "-h"], check=False).stdout, 45, "the end of all jobs")
        for daemon in reversed(self.daemons):
            daemon.send_signal(signal.SIGTERM)
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        for pid in processes_with(self.folder):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for name in self.names:
            self._ip("netns", "del", f"{self.tag}{name}", check=False)
        self._ip("link", "del", f"{self.tag}b", check=False)

    # What a user does.

    def command(self, arguments, check=True, cwd=None, environment=None):
        return subprocess.run(
            arguments,
            check=check,
            capture_output=True,
            text=True,
            cwd=cwd or self.folder,
            timeout=60,
            env=dict(self.environment, **(environment or {})),
        )

    def as_user(self, arguments, **more):
        return self.command(["setpriv", f"--reuid={USER}", "--regid=nogroup", "--clear-groups", *arguments], **more)

    def sbatch(self, arguments, cwd, environment=None):
        answer = self.as_user(["sbatch", "--parsable", *arguments], check=False, cwd=cwd, environment=environment)
        if answer.returncode != 0:
            raise AssertionError(f"sbatch {arguments}: {answer.stderr}")
        return answer.stdout.strip().split(";")[0]

    def job(self, number):
        text = self.command(["scontrol", "show", "job", "--oneliner", number], check=False).stdout
        return dict(re.findall(r"(\S+?)=(\S*)", text.split("\n")[0]))

    def await_state(self, number, states, seconds):
        def reached():
            info = self.job(number)
            return info if info.get("JobState") in states else None

        return wait_until(
            reached, seconds, f"job {number} {'/'.join(states)}; it is {self.job(number).get('JobState')}"
        )

    def await_end(self, number, seconds):
        return self.await_state(
            number, ["COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"], seconds
        )
