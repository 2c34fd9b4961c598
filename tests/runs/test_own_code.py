"""A run uses idaq's own code and registered components, or it is refused."""

from functools import partial
from types import ModuleType
from typing import Any
from unittest.mock import Mock

import pytest

from idaq.adapt import idaq
from idaq.engine import train
from idaq.errors import IdaqError
from idaq.learners import losses, td3_bc
from idaq.objectives import metric
from idaq.runs.own_code import check_own_code


def mine(*_: Any) -> Any:
    return 0.0


class MyIdaq(idaq.Idaq):
    pass


@pytest.mark.parametrize(
    ("module", "name", "by", "said"),
    [
        (metric, "metric_loss", mine, "'mine' of 'tests"),
        (metric, "metric_loss", partial(mine), "a partial"),
        (metric, "metric_loss", Mock(), "a Mock"),
        (metric, "metric_loss", losses.td_target, "'td_target' of 'idaq.learners.losses'"),
        (idaq, "quantile_threshold", mine, "'mine'"),
        (idaq, "Idaq", MyIdaq, "'MyIdaq'"),
        (train, "repeat", lambda *_: None, "'<lambda>'"),
        (td3_bc, "update", Mock(), "a Mock"),
    ],
)
def test_what_was_replaced_is_refused(
    module: ModuleType, name: str, by: Any, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_own_code()
    monkeypatch.setattr(module, name, by)
    with pytest.raises(IdaqError, match=f"{module.__name__}.{name}' was replaced by {said}"):
        check_own_code()


def test_functions_of_classes_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric.Metric, "update", mine)
    with pytest.raises(IdaqError, match=r"metric\.Metric\.update' was replaced"):
        check_own_code()
