"""The one exception that a user's mistake raises."""


class IdaqError(ValueError):
    """A mistake in the input: what is wrong, where, and what to do about it.

    The command line prints the message alone and exits with code 2.
    """

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"{problem} {remedy}")
        self.problem = problem
        self.remedy = remedy
