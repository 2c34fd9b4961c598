"""The command line: parse, call, print.

What was asked for goes to stdout; progress, hints and errors go to stderr.
"""

import os
import sys
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any

import tyro
from tyro.conf import subcommand

from idaq.cli.adapt import Adapt
from idaq.cli.behaviour import Behaviour
from idaq.cli.bench import Bench
from idaq.cli.collect import Collect
from idaq.cli.flags import in_flags
from idaq.cli.list import List
from idaq.cli.output import say
from idaq.cli.report import Report
from idaq.cli.run import Run
from idaq.cli.theory_command import Theory
from idaq.cli.train import Train, Training
from idaq.engine.stopping import Stopped, stopped_by_signals
from idaq.errors import IdaqError
from idaq.storage.atomic import remedy_of

Command = (
    Annotated[List, subcommand("list", prefix_name=False)]
    | Annotated[Collect, subcommand("collect", prefix_name=False)]
    | Annotated[Behaviour, subcommand("behaviour", prefix_name=False)]
    | Annotated[Train, subcommand("train", prefix_name=False)]
    | Annotated[Adapt, subcommand("adapt", prefix_name=False)]
    | Annotated[Run, subcommand("run", prefix_name=False)]
    | Annotated[Report, subcommand("report", prefix_name=False)]
    | Annotated[Bench, subcommand("bench", prefix_name=False)]
    | Annotated[Theory, subcommand("theory", prefix_name=False)]
)


def main(arguments: list[str] | None = None) -> int:
    """Run the program.

    Returns 0 when it did what was asked, 1 when the theory did not come out as it should, 2 for an
    error that it explained, 130 after Ctrl-C and 143 after SIGTERM.
    """
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal may not know every character
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments == ["--version"]:
        from importlib.metadata import version

        print(f"idaq {version('idaq')}")
        return 0
    command: Any = None
    try:
        command = tyro.cli(
            Command,
            prog="idaq",
            description="Offline meta-reinforcement learning with in-distribution online "
            "adaptation. Start with `idaq run point-robot`; `idaq --version` prints the version.",
            args=arguments or ["--help"],
            config=(tyro.conf.OmitArgPrefixes, tyro.conf.FlagCreatePairsOff),
        )
        if not isinstance(command, Theory):  # the one command that needs no JAX
            from idaq.engine.device import enable_compile_cache

            enable_compile_cache()
        with stopped_by_signals(getattr(getattr(command, "command", command), "grace", 0.0)):
            code: int = command.run() or 0
        sys.stdout.flush()
        return code
    except IdaqError as error:
        return _fail(in_flags(str(error), command))
    except BrokenPipeError:  # whoever reads stdout has seen enough
        _drop_stdout()
    except OSError as error:
        try:
            sys.stdout.flush()
        except OSError:  # it is stdout's own
            _drop_stdout()
        place = f" '{error.filename}'" if error.filename else ""
        message = f"Cannot read or write{place}: {error.strerror or error}. {remedy_of(error)}"
        return _fail(in_flags(message, command))
    except Exception as error:
        if not _is_out_of_memory(error):
            raise
        return _fail(
            "There is not enough memory for this. Lower the sizes that you raised (--episodes, "
            "--n-r, --n-i, --trajectories, --seeds-at-once, layers and batches), or use a larger "
            "machine."
        )
    except KeyboardInterrupt as stop:
        can_resume = isinstance(command, Training | Adapt | Behaviour)
        say("\nidaq: stopped" + ("; go on with the same command and --resume" * can_resume))
        return stop.code if isinstance(stop, Stopped) else 130
    return 0


def _open_closed_streams() -> None:
    """Where a stream is closed (`>&-`), drop what goes to it, and keep its number from files."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115


def _drop_stdout() -> None:
    """What is left to print goes nowhere, also when Python ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _is_out_of_memory(error: Exception) -> bool:
    """JAX has no exception of its own for this."""
    return isinstance(error, MemoryError) or "out of memory" in str(error).lower()


def _fail(message: str) -> int:
    say(f"idaq: {message}")
    return 2
