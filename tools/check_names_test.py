#!/usr/bin/python3
import importlib.machinery
import importlib.util
import pathlib
import unittest

_PROGRAM = pathlib.Path(__file__).resolve().parent / "check-names"
_LOADER = importlib.machinery.SourceFileLoader("check_names", str(_PROGRAM))
_SPEC = importlib.util.spec_from_loader("check_names", _LOADER)
check_names = importlib.util.module_from_spec(_SPEC)
_LOADER.exec_module(check_names)


def found(*texts):
    return check_names.second_definitions((f"{number}.cc", text) for number, text in enumerate(texts))


class CheckNamesTest(unittest.TestCase):
    def test_one_name_in_two_files(self):
        lines = found("namespace adjoin {\nstruct Case { int x; };\n}", "namespace adjoin {\n\nclass Case : A<B> {\n};\n}")
        self.assertEqual(len(lines), 1)
        self.assertIn("1.cc:3: adjoin::Case is also in 0.cc:2", lines[0])

    def test_enums_and_final_classes(self):
        self.assertEqual(len(found("namespace a { enum class E { kX }; }", "namespace a { enum E : int { kY }; }")), 1)
        self.assertEqual(len(found("namespace a { class C final {}; }", "namespace a { class C {}; }")), 1)

    def test_what_is_no_second_definition(self):
        one = "namespace adjoin { struct Case {}; }"
        for other in ("namespace adjoin { namespace { struct Case {}; } }", "namespace other { struct Case {}; }",
                      "namespace adjoin { class Case; void F(struct Case& c) {} }",
                      "namespace adjoin { class Outer { struct Case {}; }; }",
                      "namespace adjoin { void F() { struct Case {}; } }",
                      "namespace adjoin { struct Case::Inner {}; struct Outer::Case {}; }",
                      "// namespace adjoin { struct Case {}; }", 'const char* t = "namespace adjoin { struct Case {";',
                      "namespace adjoin { template <class Case> struct Other {}; }"):
            self.assertEqual(found(one, other), [], other)

    def test_nested_namespaces(self):
        self.assertEqual(len(found("namespace a::b { struct C {}; }", "namespace a { namespace b { struct C {}; } }")), 1)
        self.assertEqual(len(found("namespace a { namespace {\n} struct C {}; }", "namespace a { struct C {}; }")), 1)

    def test_a_file_may_be_read_twice(self):
        self.assertEqual(check_names.second_definitions([("a.h", "namespace a { class C {}; }")] * 2), [])


if __name__ == "__main__":
    unittest.main()
