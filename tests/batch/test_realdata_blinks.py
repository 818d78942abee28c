"""Blinks of a recorded EEG: nearly as little of them is left as by MNE's ICA in the same run."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.realdata import DATA, needs_data

pytest.importorskip("mne")

TOOLS = Path(__file__).parents[2] / "tools"
MEASURE = """
import json, sys
from pathlib import Path
from bench_blinks import blinks_of, cleaned_by_label, cleaned_by_mne, cleaned_by_us
blinks = blinks_of(Path(sys.argv[1]))
every = {"raw": blinks.samples, "ours": cleaned_by_us(blinks)[0]}
every["label"] = cleaned_by_label(blinks)[0]
every["ICA"] = cleaned_by_mne(blinks, "fastica", None, 0)[0]
print(json.dumps({name: (blinks.amplitude(x), blinks.change(x)) for name, x in every.items()}))
"""


@needs_data
@pytest.mark.slow
def test_most_of_the_blinks_is_removed_and_little_is_changed_elsewhere() -> None:
    # `find_bads_eog` fails where SciPy checks arrays, as it does in these tests
    env = {name: value for name, value in os.environ.items() if name != "SCIPY_ARRAY_API"}
    run = subprocess.run(
        [sys.executable, "-c", MEASURE, str(DATA)], cwd=TOOLS, env=env, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    left, changed = zip(*json.loads(run.stdout).values(), strict=True)
    raw, ours, by_label, ica = left
    assert max(ours, ica) < 0.2 * raw
    assert changed[0] == 0 < changed[1] < 1.3 * changed[3]
    assert by_label < 10.0  # uV, without the EOG channels
    assert changed[2] < 0.06
