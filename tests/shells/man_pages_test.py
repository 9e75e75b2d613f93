#!/usr/bin/python3
"""Each program's page of the manual: all that --help names is there, and groff has nothing to say about it.

The programs are looked for below the current folder, or in the folder ADJOIN_PROGRAMS.
"""
import os
import re
import shutil
import subprocess
import unittest

PROGRAMS = {"adjoin": "cli", "adjoin-verify": "cli", "adjoin-coordinator": "coordinator", "adjoin-rank": "worker",
            "adjoin-worker": "worker"}


def program(name):
    folder = os.environ.get("ADJOIN_PROGRAMS", PROGRAMS[name])
    return os.path.abspath(os.path.join(folder, name))


def output(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True, timeout=60,
                          env={"PATH": "/usr/bin:/bin"}).stdout.decode()


def commands_of(help_text):
    """The names below "Subcommands:"."""
    _, _, below = help_text.partition("\nSubcommands:\n")
    return re.findall(r"^  (\S+)", below, re.MULTILINE)


def helps(name, command=()):
    """(command, what --help says) of the program and of each of its commands."""
    if command == ("verify",):
        return  # Hands --help on, to adjoin-verify.
    text = output(program(name), *command, "--help")
    yield command, text
    for each in commands_of(text):
        yield from helps(name, command + (each,))


def section(page, command):
    """What the page has below the heading of the command, else all before the commands."""
    before, _, commands = page.partition(".SH COMMANDS\n")
    if not command:
        return before
    heading = ".SS \\fB" + " ".join(command).replace("-", "\\-") + "\\fR"
    _, found, after = commands.partition(heading)
    assert found, f"no heading for {command}"
    return re.split(r"^\.S[SH] ", after, maxsplit=1, flags=re.MULTILINE)[0]


class ManPagesTest(unittest.TestCase):
    def test_each_option_is_in_the_page(self):
        for name in PROGRAMS:
            page = output(program(name), "--man-page")
            seen = 0
            for command, text in helps(name):
                options = re.findall(r"^  (?:-\w,)?(--[\w-]+)", text, re.MULTILINE)
                if commands_of(text) and command:
                    continue  # It only has commands.
                found = section(page, command)
                for option in options:
                    if option == "--help" and command:
                        continue
                    with self.subTest(program=name, command=command, option=option):
                        self.assertIn("\\fB" + option.replace("-", "\\-") + "\\fR", found)
                        seen += 1
            self.assertGreaterEqual(seen, 5)

    def test_variables_and_choices_are_in_the_page(self):
        page = output(program("adjoin"), "--man-page")
        for text in ("ADJOIN_COORDINATOR", "table|json|yaml", "pending|starting|running", "exit"):
            self.assertIn(text.lower(), page.lower())
        self.assertIn("ADJOIN_WORKER_SLOTS", output(program("adjoin-worker"), "--man-page"))

    def test_groff_has_no_warnings(self):
        if shutil.which("groff") is None:
            self.skipTest("the program groff is not installed")
        for name in PROGRAMS:
            page = output(program(name), "--man-page")
            run = subprocess.run(["groff", "-man", "-ww", "-Tutf8", "-P-c"], input=page.encode(), check=False,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
            with self.subTest(program=name):
                self.assertEqual((run.returncode, run.stderr.decode()), (0, ""))
                text = re.sub(r"(?:.\x08|\x1b\[[0-9;]*m)", "", run.stdout.decode())
                self.assertIn("--man-page", text.replace("\u2010", "-"))
                self.assertIn("SYNOPSIS", text)

    def test_pages_have_their_sections(self):
        for name, number in (("adjoin", 1), ("adjoin-verify", 1), ("adjoin-coordinator", 8), ("adjoin-worker", 8)):
            head = f'.TH "{name.upper()}" "{number}"'.replace("-", "\\-")
            self.assertTrue(output(program(name), "--man-page").startswith(head), name)


if __name__ == "__main__":
    unittest.main()
