"""The checks of jupyter_kernel_test 0.7 against the installed kernel `halobook`.

    python jupyter.py

What it can catch: replies, busy and idle, outputs and their order, against the protocol's schema. What
it cannot: anything while a run is live (tests/tests/kernel*.rs do).
"""

import sys
import unittest

import jupyter_kernel_test as jkt


class Halobook(jkt.KernelTests):
    kernel_name = "halobook"
    language_name = "rust"
    file_extension = ".rs"

    code_hello_world = 'println!("hello, world");'
    code_stderr = 'eprintln!("x");'
    completion_samples = [
        {"text": "%%swe", "matches": {"%%sweep"}},
        {"text": "%%gnn --epo", "matches": {"--epochs"}},
    ]
    complete_code_samples = ["let x = 1;", "1 + 1", "%runs", "%%gnn -n 2\nepochs = 3"]
    incomplete_code_samples = ["fn f() {", "let x ="]
    invalid_code_samples = ["fn fn"]
    code_page_something = "%gnn?"
    code_generate_error = "%%gnn --bogus"
    code_execute_result = [
        {"code": "1+2+3", "result": "6"},
        {"code": "vec![1, 2]", "result": "[1, 2]"},
        {"code": "6 * 7", "result": "42"},
        {"code": "6 * 7", "result": "42"},
        {"code": "6 * 7", "result": "42"},
    ]
    code_display_data = [
        {"code": 'display::html("<b>bold</b>")', "mime": "text/html"},
        {"code": 'display::svg("<svg xmlns=\\"http://www.w3.org/2000/svg\\"/>")', "mime": "image/svg+xml"},
    ]
    code_history_pattern = "6 [*] *"
    supported_history_operations = ("tail", "range", "search")
    code_inspect_sample = "println"
    code_clear_output = "display::clear_output(false)"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # The first cell after a start waits for the compiler's tools; every check has 15 seconds.
        cls.kc.execute_interactive("let warm = 1;", timeout=300, output_hook=lambda _: None)

    def test_error_of_the_compiler(self):
        self.flush_channels()
        reply, outputs = self.execute_helper('let x: usize = "a";')
        self.assertEqual(reply["content"]["status"], "error")
        self.assertEqual([m["msg_type"] for m in outputs], ["error"])
        self.assertEqual(reply["content"]["ename"], "HaloCompileError")

    def test_inspect_of_a_magic(self):
        self.flush_channels()
        msg_id = self.kc.inspect("%%gnn")
        reply = self.get_non_kernel_info_reply(timeout=15)
        jkt.validate_message(reply, "inspect_reply", msg_id)
        self.assertTrue(reply["content"]["found"])


class Welcome(jkt.IopubWelcomeTests):
    kernel_name = "halobook"
    support_iopub_welcome = True


if __name__ == "__main__":
    result = unittest.main(exit=False, verbosity=2).result
    bad = {test.id().split(" ")[0] for test, _ in result.failures + result.errors}
    for name in sorted(bad):
        print(f"test {name} ... FAILED")
    passed = result.testsRun - len(bad) - len(result.skipped)
    word = "FAILED" if bad else "ok"
    print(f"test result: {word}. {passed} passed; {len(bad)} failed; {len(result.skipped)} ignored")
    sys.exit(1 if bad else 0)
