"""The one exception that a user's mistake raises."""

MAX_PROBLEM, MAX_REMEDY = 4_000, 1_000  # characters


def printable(text: str, most: int = MAX_PROBLEM, keep: str = "") -> str:
    """Text from anywhere, for a terminal: without control characters, and not too long.

    Files, and names of files, may hold what a terminal takes for commands.
    """
    if len(text) > most:
        text = f"{text[: most // 2]} [...] {text[-most // 2 :]}"
    return "".join(c if c.isprintable() or c in keep else repr(c)[1:-1] for c in text)


class IdaqError(ValueError):
    """A mistake in the input: what is wrong, where, and what to do about it.

    The command line prints the message alone and exits with code 2.
    """

    def __init__(self, problem: str, remedy: str) -> None:
        self.problem = printable(problem)
        self.remedy = printable(remedy, MAX_REMEDY)
        super().__init__(f"{self.problem} {self.remedy}")
