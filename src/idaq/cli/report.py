"""`idaq report`: tables, figures, pages."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from idaq.cli.options import Directories, Flag, unset
from idaq.cli.output import print_json, print_table, say, say_what_is_missing
from idaq.errors import IdaqError

if TYPE_CHECKING:
    from idaq.runs.run import Run


@dataclass(frozen=True, kw_only=True)
class Report:
    """Print a run's results and draw its figures again, or make a page of many runs."""

    directories: Directories = ()
    """Run directories; with --html or --serve also directories that hold runs, e.g. runs/bench."""
    html: Annotated[Path | None, unset("FILE", "none")] = None
    """Write one self-contained page of all runs: tables, figures, an adaptation explorer."""
    serve: Flag = False
    """Show that page in a browser on this machine, and the runs as they progress."""
    port: int = 8765
    """Where to serve it."""
    json: Flag = False
    """Print the summary as JSON; a list where there are several runs."""

    def run(self) -> None:
        from idaq.report.page import write_page
        from idaq.runs.run import Run
        from idaq.runs.summary import summarise

        if self.serve:
            from idaq.engine.stopping import check_stopped
            from idaq.report.serve import serve

            serve(self.directories or (Path("runs"),), self.port, say, check_stopped)
            return
        if not self.directories:
            raise IdaqError(
                "No RUN is given.", "Name a run directory, e.g. runs/point-robot-default."
            )
        if self.html is not None:
            page = write_page(self.directories, self.html)
            say(f"page: {page} ({page.stat().st_size / 1e6:.1f} MB)")
            return
        runs = [Run.open(directory) for directory in self.directories]
        summaries = [summarise(run) for run in runs]
        if self.json:
            print_json(summaries if len(runs) > 1 else summaries[0])
        for run, summary in zip(runs, summaries, strict=True):
            self._show(run, summary)

    def _show(self, run: "Run", summary: dict[str, Any]) -> None:
        from idaq.report.figures import write_figures

        if not self.json:
            print_table(summary)
        say_what_is_missing(run, summary)
        for figure in write_figures(run):
            say(f"figure: {figure}")
