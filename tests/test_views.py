"""Several views of a picture: the same words where they show the same, light in the right place."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import show_attend_tell
from show_attend_tell.captioning.settings import MOST_VIEWS
from show_attend_tell.captioning.views import VIEWS, frame_views, on_picture
from show_attend_tell.data.pictures import Preprocessing, frame
from show_attend_tell.errors import UserError
from tests.conftest import Sat

GRID = (8, 8)
HOW = [
    Preprocessing(resize=64, size=64, fit=fit, mean=(0, 0, 0), std=(1, 1, 1))
    for fit in ("crop", "squeeze")
]


def noise(width: int = 90, height: int = 70) -> Image.Image:
    return Image.fromarray(
        np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    )


@pytest.mark.parametrize("how", HOW, ids=lambda how: how.fit)
def test_the_first_view_is_what_one_view_shows(how: Preprocessing) -> None:
    views = frame_views(noise(), how, MOST_VIEWS)
    assert views.shape == (3, 64, 64, 3)
    np.testing.assert_array_equal(views[0], frame(noise(), how))
    np.testing.assert_array_equal(views[2], views[0, :, ::-1])


@pytest.mark.parametrize("how", HOW, ids=lambda how: how.fit)
def test_the_middle_leaves_a_tenth_out_on_every_side(how: Preprocessing) -> None:
    whole = np.zeros((200, 200, 3), np.uint8)
    whole[20:180, 20:180] = 255
    assert frame_views(Image.fromarray(whole), how, 2)[1].min() > 200
    whole[:, :19] = whole[:, 181:] = whole[:19] = whole[181:] = 90
    assert frame_views(Image.fromarray(whole), how, 2)[1].min() > 200


@given(st.integers(0, len(VIEWS) - 1), st.integers(1, 6), st.integers(1, 6))
def test_what_a_view_sees_is_shown_where_it_is(view: int, row: int, column: int) -> None:
    """A lit cell, found by its light in one view, is lit on the picture again."""
    picture = np.zeros((80, 80, 3), np.uint8)
    picture[10 * row : 10 * row + 10, 10 * column : 10 * column + 10] = 255
    squares = frame_views(Image.fromarray(picture), HOW[1], len(VIEWS))
    light = np.zeros((len(VIEWS), *GRID))
    light[view] = squares[view, :, :, 0].reshape(8, 8, 8, 8).mean(axis=(1, 3))
    shown = on_picture(light.reshape(1, -1), GRID)[0]
    assert np.unravel_index(shown.argmax(), GRID) == (row, column)
    assert shown[row, column] > 0.4 * shown.sum()  # cells and places overlap


@given(st.integers(1, len(VIEWS)), st.integers(0, 4), st.sampled_from([(7, 7), (2, 3), (1, 1)]))
def test_no_weight_is_lost(views: int, words: int, grid: tuple[int, int]) -> None:
    places = views * grid[0] * grid[1]
    weights = np.random.default_rng(places).dirichlet(np.ones(places), size=words)
    weights = weights.astype(np.float32)
    shown = on_picture(weights, grid)
    assert shown.shape == (words, *grid)
    assert shown.dtype == np.float32
    np.testing.assert_allclose(shown.sum(axis=(1, 2)), 1, atol=1e-6)
    if views == 1:
        np.testing.assert_array_equal(shown.reshape(weights.shape), weights)


@pytest.mark.slow
def test_views_that_show_the_same_give_the_same_caption(exported_folder: Path) -> None:
    """Every vector three times over leaves the expected one, and the mean, as they were."""
    grey = Image.new("RGB", (80, 60), (90, 90, 90))
    one, three = (
        show_attend_tell.load(exported_folder / "run")(grey, views=views) for views in (1, 3)
    )
    assert one.text == three.text
    np.testing.assert_allclose(one.log_probs, three.log_probs, atol=1e-4)


@pytest.mark.slow
def test_other_views_are_looked_at(exported_folder: Path) -> None:
    one, three = (
        show_attend_tell.load(exported_folder / "run")(noise(), views=views) for views in (1, 3)
    )
    assert one.log_prob != pytest.approx(three.log_prob, abs=1e-6)
    assert three.attention.shape[1:] == one.attention.shape[1:]
    np.testing.assert_allclose(three.attention.sum(axis=(1, 2)), 1, atol=1e-5)


@pytest.mark.slow
def test_one_place_is_a_cell_of_the_whole_picture(exported_folder: Path) -> None:
    one, three = (
        show_attend_tell.load(exported_folder / "run")(noise(), look="most-likely", views=views)
        for views in (1, 3)
    )
    np.testing.assert_array_equal(one.attention, three.attention)
    assert set(np.unique(three.attention)) == {0, 1}


@pytest.mark.slow
def test_the_command_and_the_model_may_ask_for_views(
    sat: Sat, exported_folder: Path, tmp_path: Path
) -> None:
    run, picture = exported_folder / "run", exported_folder / "photos" / "3.png"
    assert (
        sat("export", run, tmp_path / "model", "--views", 3, "--beam", 2, "--consensus", 4)[0] == 0
    )
    facts = json.loads((tmp_path / "model" / "model.json").read_text("utf-8"))
    kept = facts["search"]
    assert (kept["views"], kept["beam"], kept["consensus"]) == (3, 2, 4)
    told = [
        sat("caption", "--json", "--beam", 2, "--consensus", 0, *asked, picture)[1]
        for asked in (
            ("--model", tmp_path / "model"),
            ("--model", run, "--views", 3),
            ("--model", run),
        )
    ]
    assert told[0] == told[1] != told[2]


@pytest.mark.slow
@pytest.mark.parametrize("views", [0, 4])
def test_there_are_three_views(sat: Sat, exported_folder: Path, tmp_path: Path, views: int) -> None:
    with pytest.raises(UserError, match="from 1 to 3"):
        show_attend_tell.load(exported_folder / "run")(noise(), views=views)
    code, _, err = sat("export", exported_folder / "run", tmp_path / "model", "--views", views)
    assert (code, "from 1 to 3" in err) == (2, True)
