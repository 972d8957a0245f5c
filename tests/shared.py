"""Where the real data lies that some tests read."""

import os
from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"

# Elsewhere than in CI the data may be absent; in CI its absence is a failure.
needs_shared = pytest.mark.skipif(
    not SHARED.exists() and not os.environ.get("CI"), reason="the real data (../shared) is not here"
)
