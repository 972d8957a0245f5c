"""Where the real data lies that some tests read, too large to be kept here."""

import os
from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"

# Without the data a test is skipped, unless whoever runs it says that the data must be there.
needs_shared = pytest.mark.skipif(
    not SHARED.exists() and not os.environ.get("SAT_REAL_DATA"),
    reason="the real data (../shared) is not here",
)
