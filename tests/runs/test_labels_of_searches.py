"""Results are called by the search that they were made with, unless it is the paper's."""

from idaq.report import style
from idaq.runs.labels import label_of_results
from idaq.settings import AdaptConfig

BAYESIAN = AdaptConfig(reference="bayesian", iterate="bayesian")


def test_the_papers_rules_keep_the_plain_name() -> None:
    assert label_of_results("idaq-return", "focal", AdaptConfig()) == "IDAQ, return"


def test_other_searches_are_named() -> None:
    named = label_of_results("idaq-prediction-error", "focal", BAYESIAN)
    assert named == "IDAQ, prediction error, Bayesian search"
    untried = label_of_results("idaq-return", "focal", AdaptConfig(iterate="untried"))
    assert untried == "IDAQ, return, nearest untried search"


def test_methods_that_search_nothing_are_not_named_by_it() -> None:
    assert label_of_results("posterior", "focal", BAYESIAN) == "posterior (FOCAL)"
    assert label_of_results("expert-context", "focal", BAYESIAN) == "expert context"
    assert label_of_results("of-another-name", "focal", BAYESIAN) == "of-another-name"


def test_looks_have_these_labels() -> None:
    looks = style.looks(["idaq-return", "posterior"], "focal", {"idaq-return": BAYESIAN})
    assert looks["idaq-return"].label == "IDAQ, return, Bayesian search"
    assert looks["posterior"].label == "posterior (FOCAL)"
