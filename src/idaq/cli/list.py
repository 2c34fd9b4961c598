"""`idaq list`: what there is, by name."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from idaq.cli.options import Flag
from idaq.cli.output import print_json, print_rows, say

if TYPE_CHECKING:
    from idaq.envs.family import TaskFamily

CHOSEN_BY = {  # the parts of algorithms and of adaptation
    "objective": "--algorithm NAME",
    "learner": "--set algorithm.learner.kind=NAME",
    "judge": "--set algorithm.judge.kind=NAME",
    "uncertainty": "--methods idaq-NAME",
    "search": "--reference NAME, --iterate NAME",
}


@dataclass(frozen=True, kw_only=True)
class List:
    """Show what there is: task families, methods, algorithms and their parts, presets."""

    json: Flag = False
    """Print JSON for machines."""

    def run(self) -> None:
        from idaq.adapt.methods import METHODS, judge_needed, methods_of
        from idaq.algos.entries import ALGORITHMS
        from idaq.algos.presets import PRESETS
        from idaq.behaviour.quality import qualities_of
        from idaq.bench.published import dataset_return
        from idaq.envs import FAMILIES
        from idaq.registry import registry_of

        families: list[dict[str, Any]] = [
            {
                "name": name,
                "tasks": family.num_tasks,
                "observation": family.spec.obs_dim,
                "action": family.spec.action_dim,
                "horizon": family.spec.horizon,
                "differ": differences(family),
                "qualities": qualities_of(family),
                "paper_dataset_return": dataset_return(name),
            }
            for name, family in FAMILIES.items()
        ]
        methods = [
            {
                "name": method,
                "algorithms": [name for name in ALGORITHMS if method in methods_of(name)],
                "needs_models": judge_needed(method) is not None,
            }
            for method in METHODS
        ]
        parts = {kind: registry_of(kind) for kind in CHOSEN_BY}
        if self.json:
            listed = {"families": families, "algorithms": list(ALGORITHMS)}
            listed["parts"] = [
                {"kind": kind, "name": name, "label": entry.label}
                for kind, registry in parts.items()
                for name, entry in registry.items()
            ]
            print_json(listed | {"presets": list(PRESETS), "methods": methods})
            return
        graded = [row["name"] for row in families if "medium" in row.pop("qualities")]
        for row in families:
            del row["differ"]
        print_rows("Task families", families)
        print(f"Also with data of medium and replay quality: {', '.join(graded)}\n")
        print_rows("Adaptation methods", methods)
        print()
        print_rows(
            "Parts of algorithms and of adaptation",
            [
                {"part": kind, "names": list(registry), "chosen_by": CHOSEN_BY[kind]}
                for kind, registry in parts.items()
            ],
        )
        print(f"\nPresets: {', '.join(PRESETS)}")
        say("Next: idaq run point-robot")


def differences(family: "TaskFamily") -> list[str]:
    """What the tasks of a family differ in."""
    from idaq.envs.family import traits_of

    traits = traits_of(family)
    both = {"rewards": traits.rewards_differ, "dynamics": traits.dynamics_differ}
    return [name for name, differ in both.items() if differ]
