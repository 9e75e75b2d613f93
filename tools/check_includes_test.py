#!/usr/bin/python3
import pathlib
import subprocess
import sys
import tempfile
import unittest

_PROGRAM = pathlib.Path(__file__).resolve().parent / "check-includes"

_QUERY = """<?xml version="1.1" encoding="UTF-8" standalone="no"?>
<query version="2">
  <rule class="cc_library" name="//shape:box">
    <list name="srcs"><label value="//shape:box.cc"/><label value="//shape:box_internal.h"/></list>
    <list name="hdrs"><label value="//shape:box.h"/></list>
    <list name="deps"><label value="//proto:job"/></list>
  </rule>
  <rule class="cc_library" name="//shape:mesh">
    <list name="srcs"><label value="//shape:mesh.cc"/></list>
    <list name="hdrs"><label value="//shape:mesh.h"/></list>
    <list name="deps"><label value="//shape:box"/></list>
  </rule>
  <rule class="cc_library" name="//proto:job">
    <list name="hdrs"><label value="//proto:job.pb.h"/></list>
  </rule>
</query>
"""


class CheckIncludesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "shape").mkdir()
        self.write("box.h", "")
        self.write("box_internal.h", "")
        self.write("box.cc", '#include "shape/box.h"\n#include "shape/box_internal.h"\n#include "proto/job.pb.h"\n')
        self.write("mesh.h", '#include "shape/box.h"\n#include "absl/strings/str_cat.h"\n')
        self.write("mesh.cc", '#include "shape/mesh.h"\n')

    def write(self, name, text):
        (self.root / "shape" / name).write_text(text, encoding="utf-8")

    def check(self):
        query = self.root / "query.xml"
        query.write_text(_QUERY, encoding="utf-8")
        ended = subprocess.run([sys.executable, str(_PROGRAM), "--root", str(self.root), "--query", str(query)],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
        return ended.returncode, ended.stdout.splitlines()

    def test_accepts_own_headers_and_those_of_dependencies(self):
        self.assertEqual(self.check(), (0, []))

    def test_names_a_header_of_an_indirect_dependency(self):
        self.write("mesh.cc", '#include "shape/mesh.h"\n\n#  include "proto/job.pb.h"\n')
        status, lines = self.check()
        self.assertEqual(status, 1)
        self.assertEqual(lines[0], "shape/mesh.cc:3: proto/job.pb.h is of //proto:job, which the deps of //shape:mesh do not name")

    def test_names_a_header_that_another_target_keeps_to_itself(self):
        self.write("mesh.h", '#include "shape/box_internal.h"\n')
        status, lines = self.check()
        self.assertEqual(status, 1)
        self.assertEqual(lines[0],
                         "shape/mesh.h:1: shape/box_internal.h is in the hdrs of no target; //shape:mesh cannot depend on it")

    def test_does_not_take_a_comment_for_an_include(self):
        self.write("mesh.cc", '// #include "proto/job.pb.h"\n')
        self.assertEqual(self.check(), (0, []))

    def test_fails_without_a_document(self):
        ended = subprocess.run([sys.executable, str(_PROGRAM), "--query", str(self.root / "absent")], stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
        self.assertEqual(ended.returncode, 1)
        self.assertIn("absent", ended.stdout)


if __name__ == "__main__":
    unittest.main()
