"""The same option means the same in every verb."""

import inspect
import typing

import pytest

from tallyfold.cli import PANELS, datasets

OWN = {
    "--axis": "components shows several axes, or all; top, topics and fold-in work on one",
    "--by": "components orders labels within a component, top beside other labels",
    "--horizon": "forecast and backtest look one period ahead, what else asks a model none",
    "--holdout": "split and compare hold out a fifth, tune, rank and fit nothing if not told to",
    "--models": "compare fits factors, backtest what remembers earlier periods",
    "--max-words": "a data set of the paper has its own rules for words, which the option replaces",
    "--min-df": "a data set of the paper has its own rules for words, which the option replaces",
    "--out": "each verb writes what is its own: a model, a table, a page",
    "--seed": "of what is drawn; fit without it keeps the seed of --config or of the model",
    "--seeds": "reproduce has its experiments' own, compare one",
    "--stop-words": "a data set of the paper takes a list of its own, convert English ones",
    "--top": "of filters by axis, of shown labels, of shown cells",
    "--unknown": "predict has no count to leave out, score none to average",
}
"""Options that differ between verbs, and why."""


def options():
    """Yield each option of each verb: its word, the verb, and what it is."""
    verbs = [verb for some in PANELS.values() for verb in some]
    verbs += [command.callback for command in datasets.app.registered_commands]
    for verb in verbs:
        for name, parameter in inspect.signature(verb, eval_str=True).parameters.items():
            kind, info = typing.get_args(parameter.annotation)[:2]
            if type(info).__name__ != "OptionInfo":
                continue
            words = [str(word) for word in (info.default, *(info.param_decls or ()))]
            plain = "--" + name.replace("_", "-")
            word = next((word for word in words if word.startswith("--")), plain)
            about = {"type": kind, "default": parameter.default}
            yield word, verb.__name__, about | {"value": info.metavar, "help": info.help}


def differing():
    """Return the options that are not the same in all verbs, with what they are in each."""
    verbs = {}
    for word, verb, about in options():
        verbs.setdefault(word, {})[verb] = about
    return {
        word: found
        for word, found in verbs.items()
        if any(about != next(iter(found.values())) for about in found.values())
    }


def test_options_of_one_name_are_the_same():
    found = differing()
    assert {word: about for word, about in found.items() if word not in OWN} == {}
    assert sorted(OWN) == sorted(found)  # what has become the same is no exception


@pytest.mark.parametrize(
    "option", ["--missing", "--bad", "--repeated", "--query", "--database", "--value", "--bin"]
)
def test_every_verb_that_reads_counts_has_it(option):
    reads = {"describe", "convert", "split", "fit", "compare", "tune", "rank"}
    reads |= {"score", "surprise", "fold_in", "update"}
    assert reads <= {verb for word, verb, _ in options() if word == option}


@pytest.mark.parametrize("option", ["--copies", "--holdout"])
def test_every_verb_that_holds_out_has_it(option):
    verbs = {verb for word, verb, _ in options() if word == option}
    assert verbs == {"split", "fit", "compare", "tune", "rank"}


@pytest.mark.parametrize("option", ["--zeros", "--set"])
def test_every_verb_that_fits_has_it(option):
    assert {"fit", "compare", "tune", "rank"} <= {v for word, v, _ in options() if word == option}
