"""A pod's container as a process of this machine: its command, arguments, environment, user, mounts, network and rights
are those of the manifest.

    with PodNetwork(folder) as network:
        pod = PodProcess(network, template, "adjoin-worker-0", "node-0", volumes, programs, folder)
        pod.probe("readinessProbe")        # True where it succeeds
        pod.stop()                         # SIGTERM, SIGKILL after the grace period; returns (exit code, seconds)

Each has namespaces of its own for network, mounts, processes and IPC, and a root that is read only. Services are names
in /etc/hosts (`PodNetwork.name`), which may change while pods run. Needs root.
"""

import contextlib
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import time

UNITS = {"": 1, "m": 10**-3, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


def run(*command, check=True, **more):
    return subprocess.run(command, check=check, capture_output=True, text=True, **more)


class PodNetwork:
    """A bridge with an address for each pod, and the names that pods know."""

    def __init__(self, folder):
        self.tag = f"ak{os.getpid() % 1000000}"
        self.hosts_file = f"{folder}/hosts"
        self.names = {}
        self.pods = 0

    def __enter__(self):
        used = run("ip", "-o", "-4", "route").stdout
        while True:
            self.subnet = f"10.{random.randrange(200, 250)}.{random.randrange(1, 250)}"
            if self.subnet not in used:
                break
        run("ip", "link", "add", f"{self.tag}b", "type", "bridge")
        run("ip", "addr", "add", f"{self.subnet}.1/24", "dev", f"{self.tag}b")
        run("ip", "link", "set", f"{self.tag}b", "up")
        self._write()
        return self

    def __exit__(self, *_):
        run("ip", "link", "del", f"{self.tag}b", check=False)

    def name(self, name, address):
        self.names[name] = address
        self._write()

    def _write(self):
        # In place: pods have it mounted.
        with open(self.hosts_file, "w") as file:
            file.write("127.0.0.1 localhost\n")
            file.writelines(f"{address} {name}\n" for name, address in self.names.items())

    def new_pod(self):
        """Returns the namespace and the address of a new pod."""
        self.pods += 1
        space, address = f"{self.tag}p{self.pods}", f"{self.subnet}.{self.pods + 10}"
        run("ip", "netns", "add", space)
        run("ip", "link", "add", space, "type", "veth", "peer", "name", "eth0", "netns", space)
        run("ip", "link", "set", space, "master", f"{self.tag}b", "up")
        run("ip", "-n", space, "addr", "add", f"{address}/24", "dev", "eth0")
        run("ip", "-n", space, "link", "set", "eth0", "up")
        run("ip", "-n", space, "link", "set", "lo", "up")
        return space, address


def bytes_of(quantity):
    number, unit = re.fullmatch(r"([\d.]+)([A-Za-z]*)", quantity).groups()
    return int(float(number) * UNITS[unit])


class PodProcess:
    def __init__(self, network, template, name, node, volumes, programs, folder):
        """`volumes`: the folder of each claim and Secret, by name. `programs`: what the image has in /usr/local/bin.
        A StatefulSet's templates of claims have to be among the spec's volumes."""
        self.spec = template["spec"]
        (self.container,) = self.spec["containers"]
        self.name = name
        self.folder = f"{folder}/{name}-{network.pods}"
        self.network = network
        self.space, self.address = network.new_pod()
        self.environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOSTNAME": name}
        fields = {"metadata.name": name, "spec.nodeName": node, "status.podIP": self.address}
        for variable in self.container.get("env", []):
            path = variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
            self.environment[variable["name"]] = fields[path] if path else variable["value"]
        os.makedirs(f"{self.folder}/upper")
        os.makedirs(f"{self.folder}/work")
        os.makedirs(f"{self.folder}/root")
        with open(f"{self.folder}/setup", "w") as file:
            file.write("\n".join(self._setup(volumes, programs)) + "\n")
        self.log_file = f"{self.folder}/log"
        self.log = open(self.log_file, "ab")
        self.outer = subprocess.Popen(
            [
                "ip",
                "netns",
                "exec",
                self.space,
                "unshare",
                "--mount",
                "--pid",
                "--ipc",
                "--uts",
                "--fork",
                "--kill-child",
                "bash",
                f"{self.folder}/setup",
            ],
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
        )
        self.pid = self._await_pid()

    def _volume_folder(self, name, volumes):
        """The folder of a volume, and the options with which it is mounted; a tmpfs has no folder."""
        (volume,) = [volume for volume in self.spec["volumes"] if volume["name"] == name]
        if "emptyDir" in volume:
            if volume["emptyDir"].get("medium") == "Memory":
                return None, f"size={bytes_of(volume['emptyDir']['sizeLimit'])},mode=1777"
            path = f"{self.folder}/volume-{name}"
            os.makedirs(path)
            os.chown(path, self._user(), self.spec["securityContext"]["fsGroup"])
            return path, ""
        if "persistentVolumeClaim" in volume:
            claim = volume["persistentVolumeClaim"]
            return volumes[claim["claimName"]], "ro" if claim.get("readOnly") else ""
        # As kubelet does it: root's, the group's of fsGroup, links into a folder that is replaced as a whole.
        path = f"{self.folder}/volume-{name}"
        os.makedirs(f"{path}/..data-1")
        if "secret" in volume:
            mode, sources = volume["secret"]["defaultMode"], [{"secret": {"name": volume["secret"]["secretName"]}}]
        else:
            mode, sources = volume["projected"]["defaultMode"], volume["projected"]["sources"]
        for source in sources:
            secret = volumes[source["secret"]["name"]]
            items = source["secret"].get("items") or [{"key": key, "path": key} for key in os.listdir(secret)]
            for item in items:
                copied = f"{path}/..data-1/{item['path']}"
                shutil.copy(f"{secret}/{item['key']}", copied)
                os.chown(copied, 0, self.spec["securityContext"]["fsGroup"])
                os.chmod(copied, mode)
                os.symlink(f"..data-1/{item['path']}", f"{path}/{item['path']}")
        return path, "ro"

    def _user(self):
        return self.spec["securityContext"]["runAsUser"]

    def _setup(self, volumes, programs):
        root = f"{self.folder}/root"
        yield "set -euo pipefail"
        yield "mount --make-rprivate /"
        yield f"mount -t overlay overlay -o lowerdir=/,upperdir={self.folder}/upper,workdir={self.folder}/work {root}"
        mounts = [
            (mount["mountPath"], *self._volume_folder(mount["name"], volumes), mount.get("readOnly", False))
            for mount in self.container["volumeMounts"]
        ]
        for path in [mount[0] for mount in mounts] + ["/usr/local/bin", "/proc", "/dev"]:
            yield f"mkdir -p {root}{path}"
        yield f"touch {root}/etc/hosts"
        if self.container["securityContext"]["readOnlyRootFilesystem"]:
            yield f"mount -o remount,ro {root}"
        yield f"mount -t proc proc {root}/proc"
        yield f"mount -t sysfs sysfs -o ro {root}/sys"
        # A machine of its own: by this UCX tells which ranks share memory.
        yield f"cat /proc/sys/kernel/random/uuid > {self.folder}/boot_id"
        yield f"mount --bind -o ro {self.folder}/boot_id {root}/proc/sys/kernel/random/boot_id"
        yield f"mount -t tmpfs tmpfs -o size=1m,mode=755 {root}/dev"
        for device, number in {"null": 3, "zero": 5, "full": 7, "random": 8, "urandom": 9}.items():
            yield f"mknod -m 666 {root}/dev/{device} c 1 {number}"
        yield f"mkdir {root}/dev/shm"
        yield f"mount --bind -o ro {programs} {root}/usr/local/bin"
        yield f"mount --bind -o ro {self.network.hosts_file} {root}/etc/hosts"
        for path, folder, options, read_only in mounts:
            if folder is None:
                yield f"mount -t tmpfs tmpfs -o {options} {root}{path}"
            else:
                yield f"mount --bind {folder} {root}{path}"
                if read_only or options == "ro":
                    yield f"mount -o remount,bind,ro {root}{path}"
        yield f"hostname {self.name}"
        variables = " ".join(f"{name}='{value}'" for name, value in self.environment.items())
        command = [self._expand(word) for word in self.container["command"] + self.container.get("args", [])]
        words = " ".join(f"'{word}'" for word in self._as_user(command))
        yield f"exec chroot {root} env -i {variables} {words}"

    def _expand(self, word):
        """Kubernetes' $(NAME)."""
        return re.sub(r"\$\((\w+)\)", lambda match: self.environment[match.group(1)], word)

    def _as_user(self, command):
        pod, container = self.spec["securityContext"], self.container["securityContext"]
        setpriv = [
            "setpriv",
            f"--reuid={pod['runAsUser']}",
            f"--regid={pod['runAsGroup']}",
            f"--groups={pod['fsGroup']}",
        ]
        if not container["allowPrivilegeEscalation"]:
            setpriv.append("--no-new-privs")
        if container["capabilities"]["drop"] == ["ALL"]:
            setpriv += ["--bounding-set=-all", "--inh-caps=-all"]
        return setpriv + command

    def _await_pid(self):
        """That of the process with the number 1 in the pod, once it is the program."""
        end = time.monotonic() + 30
        while time.monotonic() < end and self.outer.poll() is None:
            with contextlib.suppress(OSError, ValueError, IndexError):
                with open(f"/proc/{self.outer.pid}/task/{self.outer.pid}/children") as file:
                    pid = int(file.read().split()[0])
                with open(f"/proc/{pid}/cmdline") as file:
                    if file.read().split("\0")[0].endswith(self.container["command"][0]):
                        return pid
            time.sleep(0.05)
        raise RuntimeError(f"{self.name} does not start: {self.text()[-2000:]}")

    def text(self):
        with open(self.log_file) as file:
            return file.read()

    def runs(self):
        return self.outer.poll() is None

    def execute(self, command, timeout=10):
        """As `kubectl exec`. Returns the exit code and the output."""
        done = subprocess.run(
            [
                "nsenter",
                f"--target={self.pid}",
                "--mount",
                "--pid",
                "--net",
                "--ipc",
                "--uts",
                "--root",
                "--wd=/",
                "env",
                "-i",
                "PATH=/usr/local/bin:/usr/bin:/bin",
                *self._as_user(command),
            ],
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        return done.returncode, done.stdout + done.stderr

    def probe(self, kind):
        probe = self.container[kind]
        timeout = probe.get("timeoutSeconds", 1)
        if "exec" in probe:
            return self.execute(probe["exec"]["command"], timeout=max(timeout, 5))[0] == 0
        port = probe["tcpSocket"]["port"]
        for named in self.container["ports"]:
            if named["name"] == port:
                port = named["containerPort"]
        try:
            socket.create_connection((self.address, port), timeout=timeout).close()
        except OSError:
            return False
        return True

    def kill(self):
        """As a node that goes: its address does not answer any more, and the process ends without a word."""
        for chain in ("INPUT", "OUTPUT"):
            run("ip", "netns", "exec", self.space, "iptables", "-A", chain, "-j", "DROP")
        os.kill(self.pid, signal.SIGKILL)
        self.outer.wait()

    def stop(self):
        began = time.monotonic()
        os.kill(self.pid, signal.SIGTERM)
        try:
            code = self.outer.wait(self.spec["terminationGracePeriodSeconds"])
        except subprocess.TimeoutExpired:
            os.kill(self.pid, signal.SIGKILL)
            code = self.outer.wait()
        taken = time.monotonic() - began
        self._clean()
        return code, taken

    def _clean(self):
        self.log.close()
        # Another mount namespace, just made, may keep it for a moment.
        for _ in range(20):
            run("ip", "netns", "del", self.space, check=False)
            if self.space not in run("ip", "netns", "list").stdout.split():
                return
            time.sleep(0.1)

    def end(self):
        """For the end of a test that failed."""
        if self.runs():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self.outer.wait()
        self._clean()
