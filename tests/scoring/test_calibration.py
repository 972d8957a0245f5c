"""Calibration: a calibrated model has no error, and ranks are Spearman's."""

import numpy as np
import pytest

from show_attend_tell.scoring.analysis.calibration import (
    by_confidence,
    calibration_error,
    rank_correlation,
    reliability,
)


def test_a_calibrated_model_has_no_error() -> None:
    probabilities = np.repeat([0.25, 0.75], 400)
    hits = np.tile([1, 0, 0, 0], 100).tolist() + np.tile([1, 1, 1, 0], 100).tolist()
    groups = reliability(probabilities, hits)
    assert [(g.count, g.confidence, g.outcome) for g in groups] == [
        (400, 0.25, 0.25),
        (400, 0.75, 0.75),
    ]
    assert calibration_error(groups) == 0


def test_the_error_weighs_bins_by_their_number() -> None:
    groups = reliability([0.95] * 3 + [0.05], [1, 1, 0, 1])
    assert calibration_error(groups) == pytest.approx((3 * (0.95 - 2 / 3) + 0.95) / 4)


def test_certainty_belongs_to_the_last_bin_and_nothing_is_lost() -> None:
    groups = reliability([0.0, 1.0, 1.0], [0, 1, 1])
    assert [(g.count, g.confidence) for g in groups] == [(1, 0.0), (2, 1.0)]


def test_fewer_captions_than_groups_are_a_group_each() -> None:
    assert [g.count for g in by_confidence([0.2, 0.1, 0.3], [1, 2, 3])] == [1, 1, 1]


def test_ranks_agree_with_scipy_ties_included() -> None:
    stats = pytest.importorskip("scipy.stats")
    random = np.random.default_rng(0)
    first, second = random.normal(size=60), random.integers(0, 5, 60)
    expected = stats.spearmanr(first, second).statistic
    assert rank_correlation(first, second) == pytest.approx(expected)


def test_what_never_changes_correlates_with_nothing() -> None:
    assert rank_correlation([1, 2, 3], [7, 7, 7]) is None
