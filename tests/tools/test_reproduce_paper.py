"""The tool that makes the paper's tables and figures: what it prints, draws and refuses."""

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from PIL import Image
from reproduce_paper import main

from igbss_stream.cli.demo import draw_mixing, make_time_series
from tests.realdata import DATA, needs_data

HELD = "| time series, order 1 | old |"


def reproduce(*arguments: object) -> Result:
    result = CliRunner().invoke(main, ["--jobs", "1", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def read_tables(text: str) -> dict[str, list[dict[str, str]]]:
    """Return the rows of each Markdown table under its title, as cells by column."""
    found = {}
    for section in text.split("## ")[1:]:
        title, _, body = section.partition("\n")
        cells = [re.split(r" ?\| ?", line[1:-1]) for line in body.splitlines() if line.startswith("|")]
        assert len({len(row) for row in cells}) == 1, f"ragged table: {title}"
        header, _, *rows = ([cell.strip() for cell in row] for row in cells)
        found[title] = [dict(zip(header, row, strict=True)) for row in rows]
    return found


def mean(cell: str) -> float:
    return float(cell.strip("*").split(" ± ")[0])


def assert_is_a_picture(path: Path) -> None:
    with Image.open(path) as picture:
        values = np.asarray(picture.convert("L"))
    assert min(values.shape) > 200
    assert values.std() > 5.0, f"{path.name} is blank"


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """Learn one mixture of each kind; return the folder of what is made, and what is printed.

    A page in the folder has a place for one table, and something after it.
    """
    out = tmp_path_factory.mktemp("series")
    page = out / "page.md"
    page.write_text(f"Before.\n\n<!-- rmse-ours -->\n{HELD}\n<!-- end -->\n\nAfter.\n")
    return out, reproduce("--only", "series", "--only", "cloud", "--runs", 1, "--out", out, "--page", page)


@pytest.mark.jit
@pytest.mark.slow
def test_series_and_cloud(series: tuple[Path, Result]) -> None:
    out, result = series
    assert result.exit_code == 0, result.output
    written = (out / "tables.md").read_text()
    tables = read_tables(written)
    assert read_tables(result.output) == tables
    errors = tables["RMSE: IGBSS and the strongest baselines"]
    assert [row[""] for row in errors] == [*(f"time series, order {k}" for k in (1, 2, 3)), "point cloud"]
    figures = re.findall(r"(-?\w+\.\w+|nan|-?inf) ± (\w+\.\w+|nan|inf)", written)
    assert len(figures) > 100
    assert np.isfinite(np.array(figures, dtype=float)).all()
    first, cloud = errors[0], errors[-1]
    for row in first, cloud:
        assert mean(row["learned"]) < 0.02
        scores = [
            mean(cell) for name, cell in row.items() if name not in ("", "seeds") and "paper" not in name
        ]
        assert [mean(cell) for cell in row.values() if cell.startswith("**")] == [min(scores)]
    assert first["learned"].startswith("**")
    assert first["paper: IGBSS"] == "0.702, 0.703"
    assert cloud["paper: PCA"] == "2.011"
    signs = tables["Sources with the right sign (per cent), no oracle"]
    assert signs[0]["learned"] == signs[-1]["learned"] == "100"
    for name in ("time-series-order-1", "time-series-order-3", "point-cloud"):
        assert_is_a_picture(out / f"{name}.png")
    text = (out / "page.md").read_text()
    assert HELD not in text
    assert first["learned"] in text
    assert (text[:7], text[-8:]) == ("Before.", "\nAfter.\n")


@pytest.mark.jit
@pytest.mark.slow
def test_error_is_that_of_the_channels(series: tuple[Path, Result]) -> None:
    """The column of the channels, computed anew from the definition in the paper."""
    rows = read_tables((series[0] / "tables.md").read_text())["RMSE: IGBSS and the strongest baselines"]
    truth = make_time_series()
    x = truth @ draw_mixing(0).T
    x, truth = ((each - each.mean(axis=0)) / each.std(axis=0) for each in (x, truth))
    orders = ([0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0])
    least = min(float(np.sqrt(np.mean((x[:, order] - truth) ** 2))) for order in orders)
    assert rows[0]["channels"] == f"{least:.3f} ± 0.000"


@pytest.mark.jit
@pytest.mark.slow
def test_processes_do_not_change_the_tables(tmp_path: Path) -> None:
    out = {jobs: tmp_path / jobs for jobs in ("1", "2")}
    for jobs, folder in out.items():
        reproduce("--only", "cloud", "--runs", 2, "--out", folder, "--jobs", jobs)
    assert (out["1"] / "tables.md").read_bytes() == (out["2"] / "tables.md").read_bytes()


@pytest.mark.jit
def test_photos_turn_upside_down_by_fastica_alone(tmp_path: Path) -> None:
    result = reproduce("--only", "signs", "--only", "convergence", "--runs", 4, "--out", tmp_path)
    assert result.exit_code == 0, result.output
    table = read_tables(result.output)["Sign inversion, one mixture again and again"]
    shares = {row["photos 1, order 1"].split(":")[0]: row["right signs, % (0:4)"] for row in table}
    assert int(shares["learned"]) > 50
    assert 0 < int(shares["FastICA, another start each run"]) < 100
    assert_is_a_picture(tmp_path / "sign-inversion.png")
    assert_is_a_picture(tmp_path / "convergence.png")


@needs_data
@pytest.mark.jit
def test_real_sources(tmp_path: Path) -> None:
    result = reproduce("--only", "real", "--recordings", DATA, "--runs", 1, "--out", tmp_path)
    assert result.exit_code == 0, result.output
    tables = read_tables(result.output)
    clean = {
        row["8 real sources in 8 channels"]: mean(row["mean SIR (0:1)"]) for row in tables["Real sources"]
    }
    assert clean["learned"] > 30.0
    assert max(clean, key=lambda name: clean[name]) == "learned"
    noisy = tables["Real sources and sensor noise"]
    assert 12.0 < mean(noisy[-1]["mean SIR (0:1)"]) < 15.0, "the bound that 10 % noise in 8 channels sets"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--images", "nowhere"], "Directory 'nowhere' does not exist"),
        (["--images", "."], "sipi_4.2.05.tiff is missing"),
        (["--recordings", ".", "--only", "real"], "s0010_re.dat is missing"),
        (["--only", "windows"], "--only windows needs --recordings DIR"),
        (["--runs", "0"], "0 is not in the range x>=1"),
        (["--seeds", "5:5"], "must be FROM:TO, two whole numbers, FROM below TO. Got '5:5' instead."),
        (["--seeds", "1:5", "--seeds", "a:5"], "Got 'a:5' instead."),
    ],
)
def test_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], said: str) -> None:
    monkeypatch.chdir(tmp_path)
    result = reproduce(*options)
    assert result.exit_code == 2
    assert said in re.sub(r"\s+", " ", result.output)


def test_file_that_is_no_image_is_refused(tmp_path: Path) -> None:
    (tmp_path / "sipi_4.2.05.tiff").write_bytes(b"not an image")
    result = reproduce("--images", tmp_path, "--only", "images", "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "cannot be read as an image" in re.sub(r"\s+", " ", result.output)


@pytest.mark.jit
def test_ranges_of_seeds_stand_side_by_side(tmp_path: Path) -> None:
    """Rows of a second range are those that it has on its own; a page gets the figure of the first mixture."""
    alone, both = tmp_path / "alone", tmp_path / "both"
    reproduce("--only", "cloud", "--seeds", "7:9", "--out", alone)
    page = tmp_path / "page.md"
    page.write_text("![points](pictures/point-cloud.png)\n\n<!-- rmse-ours -->\n<!-- end -->\n")
    (tmp_path / "pictures").mkdir()
    options = ["--seeds", "3:5", "--seeds", "7:9", "--out", both, "--page", page]
    reproduce("--only", "cloud", *options)
    title = "RMSE: IGBSS and the strongest baselines"
    (single,) = read_tables((alone / "tables.md").read_text())[title]
    rows = read_tables((both / "tables.md").read_text())[title]
    assert [row["seeds"] for row in rows] == ["3:5", "7:9"]
    assert rows[1] == single
    assert rows[0] != {**single, "seeds": "3:5"}
    assert (tmp_path / "pictures" / "point-cloud.png").read_bytes() == (
        both / "point-cloud.png"
    ).read_bytes()
