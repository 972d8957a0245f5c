"""A person's mistake comes through whole, also out of another process."""

import copy
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

import show_attend_tell
from show_attend_tell.captioning.captioner import Captioner
from show_attend_tell.errors import UserError

ERROR = UserError("picture.truncated", "a.jpg: is truncated; copy it again")


def complain(word: str) -> None:
    raise UserError("request.bad", word)


@pytest.mark.parametrize(
    "again", [copy.copy, copy.deepcopy, lambda e: pickle.loads(pickle.dumps(e))]
)
def test_an_error_is_copied_with_its_code_and_sentence(again: object) -> None:
    assert callable(again)
    other = again(ERROR)
    assert isinstance(other, UserError)
    assert (other.code, str(other), other.exit_code) == (ERROR.code, str(ERROR), 1)


def test_an_error_comes_out_of_a_pool_of_processes() -> None:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        with pytest.raises(UserError, match="beam is 0") as caught:
            pool.submit(complain, "beam is 0").result(timeout=60)
        assert caught.value.code == "request.bad"


def caption_in_pool(captioner: Captioner, picture: str) -> str:
    return captioner(picture).text


@pytest.mark.slow
def test_a_captioner_goes_into_a_pool_and_its_errors_come_out() -> None:
    captioner = show_attend_tell.load()
    captioner.search = captioner.search.override(views=1, beam=2, consensus=0)
    photo = str(next(iter(sorted((Path(__file__).parents[1] / "examples").glob("*.jpg")))))
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        good = pool.apply_async(caption_in_pool, (captioner, photo))
        bad = pool.apply_async(caption_in_pool, (captioner, "none.jpg"))
        assert good.get(timeout=120) == captioner(photo).text
        with pytest.raises(UserError, match="there is no such file") as caught:
            bad.get(timeout=120)
    assert caught.value.code == "picture.missing"
