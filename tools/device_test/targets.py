"""What Bazel knows of a list of programs: their sources, libraries, flags and data."""
import dataclasses
import subprocess
import xml.etree.ElementTree

from device_test.error import Error
from device_test.libraries import LIBRARIES

_PROGRAMS = {"cc_binary", "cc_test"}
_COMPILED = (".cc", ".cpp", ".c")
# The kind of rule that puts a library's sources together (tools/cc_library.bzl). Each source is among the srcs of the library as
# well, and is compiled alone.
_SOURCE_GROUP = "_source_group"
# Attributes that change how a rule is compiled and that nothing here reads.
_NOT_UNDERSTOOD = ("includes", "include_prefix", "strip_include_prefix", "linkopts_select")


@dataclasses.dataclass
class Rule:
    kind: str
    label: str
    attributes: dict  # name -> list of strings; a label attribute as //package:name
    outputs: list

    def get(self, name):
        return self.attributes.get(name, [])


def path_of(label):
    """The path of a source file's label in the checkout."""
    return label.removeprefix("//").replace(":", "/").removeprefix("/")


class Targets:
    """The rules that `labels` need, transitively."""

    def __init__(self, labels):
        command = ["bazel", "query", "--noshow_progress", "--output=xml", f"deps(set({' '.join(labels)})) intersect //..."]
        try:
            result = subprocess.run(command, capture_output=True, text=True)
        except FileNotFoundError:
            raise Error("bazel is not installed: tools/setup installs it") from None
        if result.returncode != 0:
            raise Error(f"{' '.join(command)}:\n{result.stderr}")
        # Python's parser refuses XML 1.1, and the text needs no more than 1.0.
        root = xml.etree.ElementTree.fromstring(result.stdout.replace('version="1.1"', 'version="1.0"', 1))
        self._rules, self._generators = {}, {}
        for element in root.iter("rule"):
            rule = _parse_rule(element)
            self._rules[rule.label] = rule
            self._generators.update(dict.fromkeys(rule.outputs, rule))
        self.sources = set()  # paths that the programs are built from, or read when they run
        self.messages = set()  # paths of .proto files whose .pb.h and .pb.cc they use
        self.made = set()  # labels of files that Bazel has to make
        self.programs = {}  # label -> Rule, with those that are data of others
        for label in labels:
            self._add_program(label)

    def libraries(self, label):
        """The names in //third_party that the rule needs, transitively."""
        found = {}
        for rule in self._closure(label):
            for dependency in rule.get("deps"):
                if dependency.startswith("//third_party:"):
                    found[dependency.removeprefix("//third_party:")] = None
        for name in found:
            if name not in LIBRARIES:
                raise Error(f"{label} needs //third_party:{name}, which no pack carries: take it out of programs.txt")
        return list(found)

    def third_party(self, name):
        return self._rules[f"//third_party:{name}"]

    def compiled(self, label):
        """(rule, path) of each file that is compiled for the program."""
        return [(rule, path_of(source)) for rule in self._closure(label) for source in rule.get("srcs")
                if source.endswith(_COMPILED) and not self._is_source_group(source)]

    def values(self, label, name):
        """The values of an attribute of the rule and all that it needs: linkopts, defines."""
        return list(dict.fromkeys(value for rule in self._closure(label) for value in rule.get(name)))

    def _is_source_group(self, label):
        return label in self._generators and self._generators[label].kind == _SOURCE_GROUP

    def _closure(self, label):
        order, waiting = {}, [label]
        while waiting:
            one = waiting.pop()
            if one in order or one.startswith("//third_party"):
                continue
            order[one] = self._rules[one]
            waiting += self._rules[one].get("deps")
        return list(order.values())

    def _add_program(self, label):
        if label in self.programs:
            return
        rule = self._rules.get(label)
        if rule is None or rule.kind not in _PROGRAMS:
            raise Error(f"{label} is {'unknown' if rule is None else 'a ' + rule.kind}, not a cc_test or cc_binary")
        self.programs[label] = rule
        for one in self._closure(label):
            for name in _NOT_UNDERSTOOD:
                if one.get(name):
                    raise Error(f"{one.label} has `{name}`, which tools/device-test does not understand")
            for name in ("srcs", "hdrs", "textual_hdrs", "data"):
                for file in one.get(name):
                    self._add_file(file)

    def _add_file(self, label):
        rule = self._rules.get(label)
        if rule is not None and rule.kind == "filegroup":
            for file in rule.get("srcs"):
                self._add_file(file)
        elif rule is not None:
            self._add_program(label)
        elif self._is_source_group(label):
            return
        elif label not in self._generators:
            self.sources.add(path_of(label))
        elif label.endswith((".pb.h", ".pb.cc")) and ".grpc." not in label:
            self.messages.add(path_of(label).rsplit(".pb.", 1)[0] + ".proto")
        elif self._generators[label].kind == "genrule" and ".pb." not in label:
            self.made.add(label)
        else:
            raise Error(f"{label} is generated by {self._generators[label].label}: "
                        "only protoc's messages and files of genrules are packed")


def _parse_rule(element):
    attributes = {}
    for child in element:
        name = child.get("name")
        if child.tag == "list" and name != "outs":
            attributes[name] = [value.get("value") for value in child]
        elif child.tag in ("string", "label", "boolean", "int") and child.get("value") is not None:
            attributes[name] = [child.get("value")]
    return Rule(element.get("class"), element.get("name"), attributes,
                [output.get("name") for output in element.findall("rule-output")])
