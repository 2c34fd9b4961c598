"""What a newcomer reads: help, version, tables, and what goes where."""

import json
import re
from dataclasses import replace
from typing import get_args

import pytest

from idaq.adapt.methods import METHODS
from idaq.adapt.search import SEARCHES
from idaq.algos.entries import OBJECTIVES
from idaq.cli.list import CHOSEN_BY
from idaq.cli.program import Command
from idaq.envs import FAMILIES
from idaq.judges.base import JUDGES
from idaq.learners.base import LEARNERS
from tests.program import Program, check_help

COMMANDS = [each.__metadata__[0].name for each in get_args(Command)]


@pytest.mark.parametrize("arguments", [(), ("--help",), ("-h",)])
def test_without_a_command_the_commands_are_shown(
    idaq: Program, arguments: tuple[str, ...]
) -> None:
    outcome = idaq(*arguments)
    assert outcome.code == 0
    assert outcome.err == ""
    for command in COMMANDS:
        assert re.search(rf"• {command} +\S", outcome.out), f"{command} is not explained"
    assert "idaq run point-robot" in outcome.out


def test_version(idaq: Program) -> None:
    outcome = idaq("--version")
    assert outcome.code == 0
    assert re.fullmatch(r"idaq \d+\.\d+\.\d+\n", outcome.out)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_clean(idaq: Program, command: str) -> None:
    check_help(idaq(command, "--help"))


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        ("collect", ("FAMILY", "--out DIR", "(default: data/FAMILY)", "(default: 45)")),
        ("train", ("--data DIR", "(required)", "(default: the preset's)", "{default,paper}")),
        ("adapt", ("RUN", "--k PERCENT", "METHOD", "{threshold,improvement}")),
        ("run", ("FAMILY", "METHOD [METHOD ...]", "NAME=VALUE [NAME=VALUE ...]", "--json")),
        ("report", ("RUN", "--json", "--html FILE", "--serve")),
        ("bench", ("list", "run", "status", "table", "figure", "speed")),
    ],
)
def test_help_names_what_to_give(idaq: Program, command: str, wanted: tuple[str, ...]) -> None:
    out = idaq(command, "--help").out
    for text in wanted:
        assert text in out


def test_list_shows_every_family_method_and_preset(idaq: Program) -> None:
    outcome = idaq("list")
    assert outcome.code == 0
    for name in (
        *FAMILIES,
        *METHODS,
        *LEARNERS,
        *OBJECTIVES,
        *JUDGES,
        *SEARCHES,
        "default",
        "paper",
    ):
        assert name in outcome.out


def test_list_shows_what_a_script_has_added(idaq: Program) -> None:
    mine = replace(LEARNERS["bc"], name="mine", label="My own")
    with LEARNERS.registered(mine):
        assert "mine" in idaq("list").out
        parts = json.loads(idaq("list", "--json").out)["parts"]
    assert {"kind": "learner", "name": "mine", "label": "My own"} in parts
    assert {part["kind"] for part in parts} == set(CHOSEN_BY)
    assert {part["name"] for part in parts if part["kind"] == "search"} == set(SEARCHES)


def test_list_as_json(idaq: Program) -> None:
    listed = json.loads(idaq("list", "--json").out)
    assert [family["name"] for family in listed["families"]] == list(FAMILIES)
    assert [method["name"] for method in listed["methods"]] == list(METHODS)
    assert listed["presets"] == ["default", "paper"]


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (("frobnicate",), ("frobnicate", "run")),
        (("run",), ("FAMILY",)),
        (("run", "point-robot", "--frobnicate"), ("--frobnicate",)),
        (("run", "point-robot", "--preset", "papr"), ("--preset", "papr", "paper")),
        (("run", "point-robot", "--seeds", "many"), ("--seeds", "many")),
        (("run", "point-robot", "--seeds", "1.5"), ("--seeds", "1.5")),
        (("run", "point-robot", "--seeds"), ("--seeds",)),
        (("run", "point-robot", "--split", "train"), ("--split", "validation")),
        (("run", "point-robot", "--k", "ten"), ("--k", "ten")),
        (("train",), ("--data",)),
        (("adapt",), ("RUN",)),
        (("adapt", "x", "--accept", "all"), ("--accept", "threshold")),
        (("bench",), ("speed",)),
        (("bench", "memory"), ("memory", "speed")),
    ],
)
def test_words_that_do_not_parse(
    idaq: Program, arguments: tuple[str, ...], names: tuple[str, ...]
) -> None:
    outcome = idaq(*arguments)
    assert outcome.code == 2
    assert outcome.out == ""
    assert "Traceback" not in outcome.err
    for name in (*names, "--help"):
        assert name in outcome.err
