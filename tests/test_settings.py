"""A search setting is defined once: recipe, model.json, Python and the commands read it."""

import dataclasses

import pytest

from show_attend_tell.captioning.search import Search
from show_attend_tell.captioning.settings import MOST_VIEWS, SETTINGS, SearchSettings, describe
from show_attend_tell.captioning.views import VIEWS
from show_attend_tell.errors import UserError
from show_attend_tell.learning.recipe import load_recipe, shipped_recipes
from tests.conftest import Sat


@pytest.mark.parametrize("command", ["caption", "evaluate", "export"])
def test_every_setting_is_an_option(command: str, sat: Sat) -> None:
    code, out, _ = sat(command, "--help")
    assert code == 0
    for name in SETTINGS:
        assert f"--{name.replace('_', '-')} " in out


@pytest.mark.parametrize("recipe", shipped_recipes())
def test_every_setting_is_a_key_of_a_recipe(recipe: str) -> None:
    found = load_recipe(recipe)
    assert found.model_dump()["search"].keys() == SETTINGS.keys()
    assert isinstance(found.search, SearchSettings)


@pytest.mark.parametrize("name", SETTINGS)
def test_a_wrong_value_is_refused_by_name(name: str) -> None:
    for make in (SearchSettings, Search):
        with pytest.raises(UserError, match=f"^{name} is "):
            make(**{name: -1})


def test_a_search_keeps_its_settings() -> None:
    search = Search(beam=7, look="sampled", n_best=3, seed=5)
    assert search.kept() == SearchSettings(beam=7, look="sampled")
    assert Search.of(search.kept(), n_best=3, seed=5) == search
    assert describe(dataclasses.asdict(search.kept())).startswith("beam 7, length power 0, ")


def test_a_function_cannot_be_kept() -> None:
    with pytest.raises(UserError, match="look is <function"):
        Search(look=lambda alpha, step, words: alpha).kept()


def test_as_many_views_may_be_asked_for_as_there_are() -> None:
    assert len(VIEWS) == MOST_VIEWS
