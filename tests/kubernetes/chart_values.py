"""What each value of the Helm chart becomes in its documents.

    for name, rows in ALL_ROWS.items():
        documents = tools.template(["--values", file_with(values_of(rows))], name="other")
        errors = wrong_rows(rows, documents)

Each row is (path, value, read, expected): with `value` at `path` of the values, `read` of the documents is `expected`.
`untested_values` names the values of values.yaml that have no row, so that a new value needs one.
"""

import yaml

from manifests import CHART

RELEASE = "other"
FULL_NAME = "other-adjoin"


class Rendered:
    """The documents of one rendering, and what rows read of them."""

    def __init__(self, documents):
        self.documents = documents

    def find(self, kind, name):
        (found,) = [one for one in self.documents if one["kind"] == kind and one["metadata"]["name"] == name]
        return found

    def names(self, kind):
        return sorted(one["metadata"]["name"] for one in self.documents if one["kind"] == kind)

    @property
    def worker(self):
        (kind,) = {"StatefulSet", "DaemonSet"} & {
            one["kind"] for one in self.documents if one["metadata"]["name"] == f"{FULL_NAME}-worker"
        }
        return self.find(kind, f"{FULL_NAME}-worker")

    @property
    def coordinator(self):
        return self.find("StatefulSet", f"{FULL_NAME}-coordinator")

    def pods(self):
        """The specs of the coordinator's pod and of a worker's."""
        return [document["spec"]["template"]["spec"] for document in (self.coordinator, self.worker)]

    def containers(self):
        (coordinator,), (worker,) = [pod["containers"] for pod in self.pods()]
        return coordinator, worker

    def in_both(self, key):
        """What both pods or both containers have at `key`; a list of two where they differ."""
        found = [pod.get(key, container.get(key)) for pod, container in zip(self.pods(), self.containers())]
        return found[0] if found[0] == found[1] else found

    def flag(self, name, program="worker"):
        """The value of a flag, True for one without a value, None for one that is not there."""
        container = self.containers()[program == "worker"]
        for argument in container["args"]:
            key, equals, value = argument.partition("=")
            if key == name:
                return value if equals else True
        return None

    def resources(self, program="worker"):
        return self.containers()[program == "worker"]["resources"]

    def memory(self, program="worker"):
        """What is asked for, and the limit."""
        return [self.resources(program)[of]["memory"] for of in ("requests", "limits")]

    def volume(self, name, program="worker"):
        (found,) = [volume for volume in self.pods()[program == "worker"]["volumes"] if volume["name"] == name]
        return found

    def claim_name(self, volume):
        return self.volume(volume)["persistentVolumeClaim"]["claimName"]

    def claim(self, name):
        """The size and the class of a claim."""
        spec = self.find("PersistentVolumeClaim", f"{FULL_NAME}-{name}")["spec"]
        return spec["resources"]["requests"]["storage"], spec.get("storageClassName")

    def state(self):
        """The size and the class of the coordinator's volume."""
        (template,) = self.coordinator["spec"]["volumeClaimTemplates"]
        return template["spec"]["resources"]["requests"]["storage"], template["spec"].get("storageClassName")

    def ports(self, program):
        """All ports that a NetworkPolicy lets in, as (first, last)."""
        rules = self.find("NetworkPolicy", f"{FULL_NAME}-{program}")["spec"]["ingress"]
        return {(port["port"], port.get("endPort", port["port"])) for rule in rules for port in rule["ports"]}

    def peers(self):
        """The labels of pods and of namespaces that a NetworkPolicy lets in to the coordinator."""
        rules = self.find("NetworkPolicy", f"{FULL_NAME}-coordinator")["spec"]["ingress"]
        return {
            label
            for rule in rules
            for peer in rule["from"]
            for selector in peer.values()
            for label in selector.get("matchLabels", {}).items()
        }

    def certificate(self, name):
        return self.find("Certificate", f"{FULL_NAME}-{name}")["spec"]

    def data_ports(self):
        """The ports between ranks in the flag, and in the policy to and from workers."""
        outgoing = self.find("NetworkPolicy", f"{FULL_NAME}-worker")["spec"]["egress"][0]["ports"][0]
        return self.flag("--data-port-range"), self.ports("worker"), (outgoing["port"], outgoing["endPort"])

    def page_ports(self):
        """Where the page's port is: the flag, the container, the Service, the policy."""
        service = self.find("Service", f"{FULL_NAME}-coordinator")["spec"]["ports"]
        return (
            self.flag("--page-listen", "coordinator"),
            [port["containerPort"] for port in self.containers()[0]["ports"]],
            [port["port"] for port in service],
            (8411, 8411) in self.ports("coordinator"),
        )


TOLERATION = {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}

# Workers as a DaemonSet, certificates by cert-manager, claims that are there already.
DAEMONSET_ROWS = [
    ("image.repository", "example/adjoin", lambda it: it.in_both("image"), "example/adjoin:2.0"),
    ("image.tag", "2.0", lambda it: it.in_both("image"), "example/adjoin:2.0"),
    ("image.pullPolicy", "Always", lambda it: it.in_both("imagePullPolicy"), "Always"),
    ("imagePullSecrets", [{"name": "pull"}], lambda it: it.in_both("imagePullSecrets"), [{"name": "pull"}]),
    ("worker.kind", "DaemonSet", lambda it: it.worker["kind"], "DaemonSet"),
    ("worker.slots", 8, lambda it: (it.flag("--slots"), it.resources()["requests"]["cpu"]), ("8", "8")),
    ("worker.memory", "64Gi", lambda it: it.memory(), ["64Gi"] * 2),
    ("worker.shmPerSlot", 512, lambda it: it.volume("shm")["emptyDir"], {"medium": "Memory", "sizeLimit": "4096Mi"}),
    ("worker.gpus", 8, lambda it: (it.flag("--gpus"), it.resources()["limits"]["nvidia.com/gpu"]), ("all", 8)),
    ("worker.netDevice", "net1", lambda it: it.flag("--net-device"), "net1"),
    ("worker.trustedNetwork", True, lambda it: it.flag("--trusted-network"), True),
    ("worker.dataPorts.first", 30000, lambda it: it.data_ports(), ("30000-30100", {(30000, 30100)}, (30000, 30100))),
    ("worker.dataPorts.last", 30100, lambda it: it.data_ports(), ("30000-30100", {(30000, 30100)}, (30000, 30100))),
    (
        "worker.drainSeconds",
        300,
        lambda it: (it.flag("--drain-seconds"), it.pods()[1]["terminationGracePeriodSeconds"]),
        ("300", 330),
    ),
    ("worker.nodeSelector", {"gpu": "yes"}, lambda it: it.pods()[1]["nodeSelector"], {"gpu": "yes"}),
    ("worker.tolerations", [TOLERATION], lambda it: it.pods()[1]["tolerations"], [TOLERATION]),
    ("worker.labels", {"zone": "a"}, lambda it: it.flag("--label"), "zone=a"),
    ("worker.extraArgs", ["--keep-failed-hours=1"], lambda it: it.containers()[1]["args"][-1], "--keep-failed-hours=1"),
    ("coordinator.page", False, lambda it: it.page_ports(), (None, [7411, 9411], [7411, 9411], False)),
    ("coordinator.storage.class", "fast", lambda it: it.state()[1], "fast"),
    ("coordinator.nodeSelector", {"disk": "ssd"}, lambda it: it.pods()[0]["nodeSelector"], {"disk": "ssd"}),
    ("coordinator.tolerations", [{"operator": "Exists"}], lambda it: it.pods()[0]["tolerations"], [{"operator": "Exists"}]),
    ("coordinator.extraArgs", ["--keep-jobs=10"], lambda it: it.containers()[0]["args"][-1], "--keep-jobs=10"),
    ("data.existingClaim", "my-data", lambda it: it.claim_name("data"), "my-data"),
    ("output.class", "shared", lambda it: it.claim("output")[1], "shared"),
    ("certificates.source", "cert-manager", lambda it: len(it.names("Certificate")), 5),
    (
        "certificates.serverNames",
        ["train.example"],
        lambda it: it.certificate("coordinator")["dnsNames"][-1],
        "train.example",
    ),
    (
        "certificates.workerNames",
        ["node-a", "node-b"],
        lambda it: [it.certificate(node)["uris"] for node in ("node-a", "node-b")],
        [["adjoin://worker/node-a"], ["adjoin://worker/node-b"]],
    ),
]

# Workers as a StatefulSet, certificates from Secrets; quantities as numbers, which a file hands over as floats.
STATEFULSET_ROWS = [
    ("worker.replicas", 3, lambda it: (it.worker["kind"], it.worker["spec"]["replicas"]), ("StatefulSet", 3)),
    ("worker.memory", 17179869184, lambda it: it.memory(), ["17179869184"] * 2),
    ("coordinator.cpu", 0.5, lambda it: it.resources("coordinator")["requests"]["cpu"], "0.5"),
    # Less than what is asked for by default: a request is never above its limit.
    ("coordinator.memory", "512Mi", lambda it: it.memory("coordinator"), ["512Mi"] * 2),
    ("coordinator.storage.size", 20000000000, lambda it: it.state()[0], "20000000000"),
    ("data.size", "1Ti", lambda it: it.claim("data"), ("1Ti", "archive")),
    ("data.class", "archive", lambda it: it.claim("data"), ("1Ti", "archive")),
    ("output.size", 300000000000, lambda it: it.claim("output")[0], "300000000000"),
    (
        "certificates.coordinatorSecret",
        "own-coordinator",
        lambda it: it.volume("tls", "coordinator")["secret"]["secretName"],
        "own-coordinator",
    ),
    ("certificates.workerSecret", "own-worker", lambda it: it.volume("tls")["secret"]["secretName"], "own-worker"),
    ("networkPolicy.clientLabel", "own-client", lambda it: ("own-client", "true") in it.peers(), True),
    (
        "networkPolicy.monitoringNamespace",
        "watch",
        lambda it: ("kubernetes.io/metadata.name", "watch") in it.peers(),
        True,
    ),
]

# Values that would hide those of other rows.
OTHER_ROWS = [
    ("networkPolicy.enabled", False, lambda it: it.names("NetworkPolicy"), []),
    ("output.existingClaim", "my-output", lambda it: it.claim_name("output"), "my-output"),
]

WITHOUT_POLICIES = "chart without policies"
ALL_ROWS = {
    "chart with every value": DAEMONSET_ROWS,
    "chart with every value of a StatefulSet": STATEFULSET_ROWS,
    WITHOUT_POLICIES: OTHER_ROWS,
}


def values_of(rows):
    """The rows' values as a file of the chart's values has them."""
    values = {}
    for path, value, _, _ in rows:
        *folders, last = path.split(".")
        at = values
        for folder in folders:
            at = at.setdefault(folder, {})
        at[last] = value
    return values


def wrong_rows(rows, documents):
    """A line for each row that the documents contradict."""
    it = Rendered(documents)
    lines = []
    for path, value, read, expected in rows:
        try:
            found = read(it)
        except (KeyError, ValueError, IndexError, TypeError) as error:
            found = repr(error)
        if found != expected:
            lines.append(f"{path} = {value}: {found}, not {expected}")
    return lines


def defaults():
    """Each value of values.yaml, by its path; one that people fill themselves ({}) counts as one."""
    with open(f"{CHART}/values.yaml") as file:
        left = list(yaml.safe_load(file).items())
    found = {}
    while left:
        path, value = left.pop()
        if isinstance(value, dict) and value:
            left += [(f"{path}.{key}", inner) for key, inner in value.items()]
        else:
            found[path] = value
    return found


def untested_values():
    """The values of values.yaml of which no row has another value than the default."""
    tested = defaults()
    for rows in ALL_ROWS.values():
        for path, value, _, _ in rows:
            if path in tested and value != tested[path]:
                del tested[path]
    return sorted(tested)
