import math
from typing import Any

import numpy as np
import pytest

from venus_env.rewards.judge import check_verdict


@pytest.mark.parametrize("verdict", [0, 1, 0.0, 0.5, 1.0, True, False, np.float32(0.5), np.int64(1), np.bool_(True)])
def test_verdicts(verdict: Any) -> None:
    checked = check_verdict(verdict)
    assert (type(checked), checked) == (float, verdict)


@pytest.mark.parametrize("verdict", [None, "1", [1.0], 1 + 0j])
def test_what_is_no_number_is_refused(verdict: Any) -> None:
    with pytest.raises(TypeError, match=r"a judge returns a number in \[0, 1\], got"):
        check_verdict(verdict)


@pytest.mark.parametrize("verdict", [-0.01, 1.01, 7, math.nan, math.inf])
def test_what_is_out_of_range_is_refused(verdict: float) -> None:
    with pytest.raises(ValueError, match=r"a judge returns a number in \[0, 1\], got"):
        check_verdict(verdict)
