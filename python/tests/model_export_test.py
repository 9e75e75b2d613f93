#!/usr/bin/python3
"""What is exported, and what is refused. PyTorch before 2.4 runs all but the archives themselves."""
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

import numpy
import torch
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import adjoin  # noqa: E402
from adjoin import model_export, sample_file  # noqa: E402

CAN_EXPORT = tuple(int(number) for number in torch.__version__.split(".")[:2]) >= (2, 4)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 3, 3)
        self.norm = nn.BatchNorm2d(3)
        self.relu = nn.ReLU(inplace=True)
        self.fc = nn.Linear(3 * 6 * 6, 2)

    def forward(self, image):
        return self.fc(self.relu(self.norm(self.conv(image))).flatten(1))


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 3), nn.Linear(4, 2)

    def forward(self, left, right):
        return {"sum": self.a(left) + self.a(right), "other": (self.b(left),)}


class Returns(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class ReleaseTest(unittest.TestCase):
    def test_releases_before_2_4_are_refused(self):
        for release in ("1.13.0a0", "2.0.1", "2.3.1+cu121", "unknown"):
            wanted = "needs PyTorch 2.4 or newer, and this is .*torch>=2.4.*torch.jit.trace"
            with self.assertRaisesRegex(RuntimeError, wanted):
                model_export.check_release(release)
        for release in ("2.4.0", "2.6.0+debian", "2.10.0a0+git1", "3.0"):
            model_export.check_release(release)

    @unittest.skipIf(CAN_EXPORT, "this PyTorch exports")
    def test_this_release_is_refused_before_anything_is_written(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(RuntimeError, f"this is {torch.__version__.split('+')[0]}"):
                adjoin.export(Net().eval(), torch.randn(2, 1, 8, 8), os.path.join(folder, "net.pt2"))
            self.assertEqual(os.listdir(folder), [])


class CheckTest(unittest.TestCase):
    def refusal(self, model, example, function=model_export.check_model):
        with self.assertRaises(ValueError) as raised:
            function(model, example)
        self.assertIn("right would be", str(raised.exception))
        return str(raised.exception)

    def test_a_model_in_train_is_refused_by_its_module(self):
        x = torch.randn(2, 1, 8, 8)
        self.assertIn("the model is in train()", self.refusal(Net(), x))
        model = Net().eval()
        model.norm.train()
        self.assertIn("its module norm is in train()", self.refusal(model, x))

    def test_what_is_no_module_is_refused(self):
        x = torch.randn(2, 1, 8, 8)
        self.assertIn("ScriptModule", self.refusal(torch.jit.script(Net().eval()), x))
        self.assertIn("is a function", self.refusal(lambda x: x, x))

    def test_examples_that_show_no_batch_are_refused(self):
        model, x = Net().eval(), torch.randn(2, 4)
        self.assertIn("the example is a list", self.refusal(model, [x]))
        self.assertIn("the example is a tuple", self.refusal(model, ()))
        self.assertIn("argument 1 of the example is a int", self.refusal(model, (x, 3)))
        self.assertIn("argument 1 of the example is [3, 4], the first is [2, 4]",
                      self.refusal(model, (x, torch.randn(3, 4))))
        self.assertIn("argument 0 of the example is []", self.refusal(model, torch.tensor(1.0)))
        self.assertIn("the example has 1 samples", self.refusal(model, x[:1]))

    def test_outputs_without_the_batch_are_refused(self):
        x = (torch.randn(2, 4),)
        check = model_export.check_batch
        self.assertIn("output 0 is [] of a batch of 2", self.refusal(Returns(torch.sum), x, check))
        self.assertIn("output 1 is [4, 2]", self.refusal(Returns(lambda x: (x, x.t())), x, check))
        self.assertIn("forward returns a int", self.refusal(Returns(lambda x: 3), x, check))
        self.assertIn("not one of 1", self.refusal(Returns(lambda x: x.reshape(2, 2, 2)), x, check))

    def test_samples_that_mix_are_refused(self):
        torch.manual_seed(3)
        recurrent = nn.GRU(4, 5).eval()  # its batch is dim 1
        text = self.refusal(Returns(lambda x: recurrent(x)[0]), (torch.randn(3, 6, 4),), model_export.check_batch)
        self.assertIn("changes with the samples beside it", text)
        by_sample = nn.GRU(4, 5, batch_first=True).eval()
        model_export.check_batch(Returns(lambda x: by_sample(x)[0]), (torch.randn(3, 6, 4),))


    def test_a_model_that_draws_numbers_is_refused(self):
        torch.manual_seed(7)
        x = (torch.randn(2, 4),)

        def refusal(function):
            outputs = model_export.check_batch(Returns(function), x)
            with self.assertRaisesRegex(ValueError, "output 0 changes from one call to the next; right would be"):
                model_export.check_repeats(Returns(function), x, outputs)
        refusal(lambda x: x + 0.01 * torch.randn_like(x))
        state = torch.zeros(())
        refusal(lambda x: x + state.add_(0.02))
        model_export.check_repeats(Returns(torch.tanh), x, model_export.check_batch(Returns(torch.tanh), x))


class LossTest(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(8)
        self.model, self.x = Net().eval(), torch.randn(2, 1, 8, 8)

    def test_loss_and_gradients_are_those_of_backward(self):
        self.model.conv.requires_grad_(False)
        label = torch.tensor([1, 0])
        arrays = sample_file.loss_arrays(self.model, (self.x,), nn.CrossEntropyLoss(), {"label": label}, ["image"])
        self.assertEqual({parameter.grad for parameter in self.model.parameters()}, {None})
        self.assertFalse(any(module.training for module in self.model.modules()))
        expected = nn.functional.cross_entropy(self.model(self.x), label)
        expected.backward()
        self.assertEqual(sorted(arrays), ["grad.fc.bias", "grad.fc.weight", "grad.norm.bias", "grad.norm.weight",
                                          "input.label", "loss"])
        self.assertEqual(arrays["loss"], expected.item())
        self.assertEqual(arrays["input.label"].tolist(), [1, 0])
        for name, parameter in self.model.named_parameters():
            if parameter.requires_grad:
                self.assertTrue(numpy.array_equal(arrays[f"grad.{name}"], parameter.grad.numpy()), name)

    def test_losses_that_are_none_are_refused_by_name(self):
        def refusal(loss, **targets):
            with self.assertRaises(ValueError) as raised:
                sample_file.loss_arrays(self.model, (self.x,), loss, targets, ["image"])
            return str(raised.exception)
        self.assertIn("loss returns a tensor [2, 2] of torch.float32", refusal(lambda y: y))
        self.assertIn("loss returns a float", refusal(lambda y: y.sum().item()))
        self.assertIn("does not depend on", refusal(lambda y: y.detach().sum()))
        self.assertIn("target image is called like", refusal(lambda y, z: y.sum(), image=torch.zeros(2)))
        self.assertIn("target label is no tensor with the example's batch, 2",
                      refusal(lambda y, z: y.sum(), label=torch.zeros(3)))
        self.assertIn("the loss has a NaN", refusal(lambda y: y.sum() * float("nan")))


class SampleTest(unittest.TestCase):
    def test_a_sample_has_what_PyTorch_computes(self):
        torch.manual_seed(4)
        model, x = Net().eval(), torch.randn(2, 1, 8, 8)
        arrays = sample_file.sample_arrays(["image"], (x,), sample_file.run(model, (x,)))
        self.assertEqual(sorted(arrays), ["input.image", "output"])
        self.assertTrue(numpy.array_equal(arrays["output"], model(x).detach().numpy()))

    def test_several_outputs_are_numbered_as_they_are_returned(self):
        torch.manual_seed(5)
        model, x, y = Two().eval(), torch.randn(2, 4), torch.randn(2, 4)
        arrays = sample_file.sample_arrays(["left", "right"], (x, y), sample_file.run(model, (x, y)))
        self.assertEqual(sorted(arrays), ["input.left", "input.right", "output.0", "output.1"])
        self.assertEqual([arrays[f"output.{i}"].shape for i in (0, 1)], [(2, 3), (2, 2)])

    def test_the_example_stays_where_the_model_works_in_place(self):
        x = torch.tensor([[-1.0], [2.0]])
        outputs = sample_file.run(Returns(lambda x: x.relu_()), (x,))
        self.assertEqual(x.tolist(), [[-1], [2]])
        self.assertEqual(outputs[0].tolist(), [[0], [2]])

    def test_values_that_cannot_be_compared_are_refused(self):
        for value, text in ((torch.tensor([1.0, float("nan")]), "argument x has a NaN or an infinity"),
                            (torch.ones(2).bfloat16(), "argument x is torch.bfloat16")):
            with self.assertRaisesRegex(ValueError, f"{text}.*sample=False"):
                sample_file.sample_arrays(["x"], (value,), ())


class FilesTest(unittest.TestCase):
    """With a torch.export of its own, which writes a text in place of an archive, where this PyTorch has none."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.model, self.x = Net().eval(), torch.randn(2, 1, 8, 8)
        program = mock.Mock()
        program.graph_signature.user_inputs = ("image",)
        stand_in = mock.Mock()
        stand_in.export_for_training.return_value = program
        stand_in.save.side_effect = lambda program, path: pathlib.Path(path).write_text("an archive")
        self.save = stand_in.save
        for patch in (mock.patch.object(torch, "export", stand_in, create=True),
                      mock.patch.object(model_export, "check_release")):
            patch.start()
            self.addCleanup(patch.stop)

    def names(self):
        return sorted(os.listdir(self.folder))

    def test_both_files_are_there_and_nothing_else(self):
        exported = adjoin.export(self.model, self.x, self.folder / "net.pt2")
        self.assertEqual(exported, adjoin.Exported(self.folder / "net.pt2", self.folder / "net.sample.npz"))
        self.assertEqual(self.names(), ["net.pt2", "net.sample.npz"])
        with numpy.load(exported.sample) as arrays:
            self.assertTrue(numpy.array_equal(arrays["input.image"], self.x.numpy()))
            self.assertTrue(numpy.array_equal(arrays["output"], self.model(self.x).detach().numpy()))

    def test_a_loss_is_in_the_sample_and_needs_one(self):
        exported = adjoin.export(self.model, self.x, self.folder / "net.pt2", loss=lambda y, z: ((y - z) ** 2).mean(),
                                 targets={"wanted": torch.zeros(2, 2)})
        with numpy.load(exported.sample) as arrays:
            self.assertEqual(arrays["loss"], (arrays["output"] ** 2).mean())
            self.assertIn("grad.conv.weight", arrays)
            self.assertEqual(arrays["input.wanted"].shape, (2, 2))
        with self.assertRaisesRegex(ValueError, "targets are given, and no loss"):
            adjoin.export(self.model, self.x, self.folder / "other.pt2", targets={})
        with self.assertRaisesRegex(ValueError, "loss is given with sample=False"):
            adjoin.export(self.model, self.x, self.folder / "other.pt2", sample=False, loss=torch.sum)
        self.assertEqual(self.names(), ["net.pt2", "net.sample.npz"])

    def test_without_a_sample_there_is_one_file(self):
        exported = adjoin.export(self.model, (self.x,), str(self.folder / "net.pt2"), sample=False)
        self.assertIsNone(exported.sample)
        self.assertEqual(self.names(), ["net.pt2"])

    def test_old_files_stay_where_writing_fails(self):
        (self.folder / "net.pt2").write_text("old")

        def fail(program, path):
            pathlib.Path(path).write_text("half")
            raise OSError("disk full")
        self.save.side_effect = fail
        with self.assertRaisesRegex(OSError, "disk full"):
            adjoin.export(self.model, self.x, self.folder / "net.pt2")
        self.assertEqual(self.names(), ["net.pt2"])
        self.assertEqual((self.folder / "net.pt2").read_text(), "old")

    def test_paths_that_cannot_be_written_are_told(self):
        with self.assertRaisesRegex(OSError, "none: no such folder"):
            adjoin.export(self.model, self.x, self.folder / "none" / "net.pt2")
        with self.assertRaisesRegex(OSError, "is a folder"):
            adjoin.export(self.model, self.x, self.folder)


@unittest.skipUnless(CAN_EXPORT, "PyTorch before 2.4 has no archives")
class ArchiveTest(unittest.TestCase):
    def test_an_archive_loads_as_the_program_of_the_model(self):
        torch.manual_seed(6)
        for model, example, inputs in ((Net().eval(), (torch.randn(2, 1, 8, 8),), ["image"]),
                                       (Two().eval(), (torch.randn(2, 4), torch.randn(2, 4)), ["left", "right"])):
            with tempfile.TemporaryDirectory() as folder:
                exported = adjoin.export(model, example, os.path.join(folder, "model.pt2"))
                program = torch.export.load(exported.model).module()
                expected = sample_file.run(model, example)
                for got, output in zip(sample_file.run(program, example), expected):
                    self.assertTrue(torch.allclose(got, output))
                with numpy.load(exported.sample) as arrays:
                    outputs = ["output"] if len(expected) == 1 else [f"output.{i}" for i in range(len(expected))]
                    self.assertEqual(sorted(arrays), sorted([f"input.{name}" for name in inputs] + outputs))
                    for name, output in zip(outputs, expected):
                        self.assertTrue(numpy.array_equal(arrays[name], output.numpy()))


if __name__ == "__main__":
    unittest.main()
