"""`idaq behaviour`: train the policies that log data."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from idaq.cli.options import DEFAULT_GRACE, Family, Flag, Grace, Settings, Workers, unset
from idaq.cli.output import print_json, print_rows, say


@dataclass(frozen=True, kw_only=True)
class Behaviour:
    """Train the behaviour policies of a family with SAC: one policy, told the task, for all tasks.

    Checkpoints along the training are kept with their returns; `idaq collect --policies` logs data
    with them.
    """

    family: Family
    """Name of the task family (see `idaq list`)."""
    out: Annotated[Path | None, unset("DIR", "policies/FAMILY")] = None
    """The directory of the policies; it must be new, or be given with --resume."""
    resume: Flag = False
    """Go on with an interrupted training; a finished one is printed."""
    minutes: Annotated[float | None, unset("MINUTES", "until it is done")] = None
    """Stop after so long; go on later with --resume."""
    seed: int = 0
    """Seed of everything that is drawn."""
    workers: Workers = 0
    """Processes that run simulators."""
    grace: Grace = DEFAULT_GRACE
    """After SIGTERM, how long the round may take that is saved before the end."""
    set: Settings = ()
    """Any setting by its dotted name, e.g. --set num_rounds=100 sac.learning_rate=3e-4.
    DIR/run.json lists them all."""
    ship: Annotated[Path | None, unset("DIR", "nowhere")] = None
    """Also copy the policies that log data, and nothing else, to a new directory."""
    json: Flag = False
    """Print the ladder of policies as JSON."""

    def run(self) -> None:
        from idaq.behaviour.config import behaviour_config
        from idaq.behaviour.ladder import ladder_rows, ship
        from idaq.behaviour.training import train_policies
        from idaq.config import override
        from idaq.envs import get_family

        family = get_family(self.family)
        config = behaviour_config(family)
        for assignment in (each for group in self.set for each in group):
            config = override(config, assignment)
        ladder = train_policies(
            family,
            Path("policies") / family.name if self.out is None else self.out,
            config,
            seed=self.seed,
            minutes=self.minutes,
            resume=self.resume,
            workers=self.workers,
            say=say,
        )
        if self.ship is not None:
            ladder = ship(ladder, self.ship)
        rows = ladder_rows(ladder)
        if self.json:
            print_json(rows)
        else:
            shown = [row for row in rows if row["logs"]]
            print_rows(f"{ladder.path}: the policies that log data", shown)
        say(f"Next: idaq collect {family.name} --quality medium --policies {ladder.path}")
