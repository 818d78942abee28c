"""The memory that `batch` takes of a recording far larger than it."""

from pathlib import Path

import pytest
from bench_memory import LIMIT, peak, room_for, sparse

SIZE = 10 * 10**9


@pytest.mark.slow
@pytest.mark.jit
@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="only Linux reports the memory of a process"
)
def test_ten_gigabytes_take_less_than_400_mb(tmp_path: Path) -> None:
    if not room_for(tmp_path, SIZE):
        pytest.skip(f"the disk of {tmp_path} has no room for an output of 10 GB")
    source, out = sparse(tmp_path / "in.h5", SIZE), tmp_path / "out.h5"
    try:
        assert source.stat().st_size > SIZE
        assert source.stat().st_blocks * 512 < SIZE / 100, "the recording is not sparse on this disk"
        assert peak(source, out)[0] < LIMIT
        assert out.stat().st_size > SIZE
    finally:
        source.unlink()
        out.unlink(missing_ok=True)
