"""Recipes: what ships can be read, what is wrong is named."""

import json
import tomllib
from pathlib import Path

import pytest

from show_attend_tell.errors import UserError
from show_attend_tell.learning.recipe import Recipe, load_recipe, shipped_recipes, vary


def write(folder: Path, text: str | bytes) -> str:
    path = folder / "mine.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def refusal(name_or_path: str, *overrides: str) -> str:
    with pytest.raises(UserError) as caught:
        load_recipe(name_or_path, overrides)
    assert caught.value.code == "request.recipe"
    return str(caught.value)


def test_the_named_recipes_ship() -> None:
    assert shipped_recipes() == [
        "coco-soft",
        "flickr30k-soft",
        "flickr8k-hard",
        "flickr8k-soft",
        "paper/flickr8k-hard",
        "paper/flickr8k-soft",
        "rivals/flickr8k-log-bilinear",
        "rivals/flickr8k-mean",
        "rivals/flickr8k-nic",
    ]


def test_captions_kept_for_the_table_are_of_the_recipe_of_today() -> None:
    """A key whose default differs from what trained them would cost eight processor hours."""
    kept = Path(__file__).parents[1] / "benchmarks" / "captions" / "soft-1-test.json"
    recipe = Recipe.model_validate(tomllib.loads(json.loads(kept.read_text("utf-8"))["recipe"]))
    assert recipe == load_recipe("flickr8k-soft")


UNKNOWN_TO_RIVALS = {"hidden", "attention_width", "gate", "readout", "initial", "start"}


@pytest.mark.parametrize("name", shipped_recipes())
def test_a_shipped_recipe_survives_to_toml(name: str, tmp_path: Path) -> None:
    recipe = load_recipe(name)
    assert load_recipe(write(tmp_path, recipe.to_toml())) == recipe


def test_a_recipe_written_before_a_key_was_there_has_its_default(tmp_path: Path) -> None:
    recipe = load_recipe("flickr8k-soft")
    lines = [
        line for line in recipe.to_toml().splitlines() if not line.startswith("repetition_penalty")
    ]
    assert load_recipe(write(tmp_path, "\n".join(lines))) == recipe


@pytest.mark.parametrize("name", shipped_recipes())
def test_a_shipped_recipe_states_every_key(name: str, tmp_path: Path) -> None:
    import show_attend_tell

    file = Path(show_attend_tell.__file__).parent / "recipes" / f"{name}.toml"
    stated = {line.partition("=")[0].strip() for line in file.read_text("utf-8").splitlines()}
    resolved = load_recipe(name).to_toml().splitlines()
    left_out = {line.partition("=")[0].strip() for line in resolved} - stated
    assert left_out <= (UNKNOWN_TO_RIVALS if name.startswith("rivals/") else set())


def test_the_papers_recipe_follows_the_paper() -> None:
    recipe = load_recipe("paper/flickr8k-soft")
    assert (recipe.encoder.name, recipe.encoder.grid) == ("vgg19", 14)
    assert recipe.training.optimiser == "rmsprop"
    assert (recipe.model.readout, recipe.model.initial) == ("linear", "separate")
    assert (recipe.training.clip, recipe.training.double_stochastic) == (None, 1.0)


def test_an_override_wins_over_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, "[training]\nbatch = 16\nseed = 7\n")
    training = load_recipe(path, ["training.batch=8"]).training
    assert (training.batch, training.seed) == (8, 7)


def test_the_last_override_of_a_key_wins() -> None:
    recipe = load_recipe("flickr8k-soft", ["training.batch=8", "training.batch=9"])
    assert recipe.training.batch == 9


@pytest.mark.parametrize(
    ("override", "section", "key", "value"),
    [
        ("training.learning_rate=1e-3", "training", "learning_rate", 1e-3),
        ("training.learning_rate=1", "training", "learning_rate", 1.0),
        ("training.optimiser=rmsprop", "training", "optimiser", "rmsprop"),
        ('training.optimiser="rmsprop"', "training", "optimiser", "rmsprop"),
        ("vocabulary.punctuation = false", "vocabulary", "punctuation", False),
        ("training.clip=none", "training", "clip", None),
        ("model.annotation_norm=none", "model", "annotation_norm", "none"),
        ("encoder.name=a=b", "encoder", "name", "a=b"),
    ],
)
def test_an_override_is_a_toml_literal_or_a_bare_word(
    override: str, section: str, key: str, value: object
) -> None:
    found = getattr(getattr(load_recipe("flickr8k-soft", [override]), section), key)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "[training]\nlerning_rate = 1",
            "unknown key training.lerning_rate; did you mean training.learning_rate?",
        ),
        ("[training]\ndropout = 0.1", "unknown key training.dropout; did you mean model.dropout?"),
        ('[training]\nstop_on = "BLEU"', 'training.stop_on = "BLEU" should be one of BLEU-1-bp,'),
        ("[trainning]\nbatch = 1", "unknown key trainning.batch; did you mean training.batch?"),
        ("batch = 1", "unknown key batch; did you mean training.batch?"),
        ("[search]\nzzz = 1", "unknown key search.zzz; the keys of [search] are beam, "),
        ("[zzz]\nqqq = 1", "unknown key zzz.qqq; the sections are encoder, vocabulary, "),
        ("training = 3", "unknown key training; the keys of [training] are batch, "),
        (
            '[training]\nbatch = "many"',
            'training.batch = "many" should be a valid integer; '
            "write for example training.batch = 64",
        ),
        ("[training]\nbatch = true", "training.batch = true should be a valid integer"),
        ("[training]\nbatch = 0", "training.batch = 0 should be greater than 0"),
        ("[training]\nlearning_rate = inf", "should be a finite number"),
        ('[training]\nclip = "five"', "write for example training.clip = 5.0"),
        ("[model]\ndropout = 1.0", "model.dropout = 1.0 should be less than 1"),
        ('[model]\nattention = "hart"', "model.attention = \"hart\" should be 'soft', 'hard', "),
        ("[hard]\nsamples = 2", 'hard.samples is of no use with model.attention = "soft"'),
        (
            '[model]\nattention = "hard"\n[hard]\nbaseline = "others"',
            "set hard.samples to 2 or more",
        ),
        ("[reward]\nweight = 1.5", "reward.weight = 1.5 should be less than or equal to 1"),
        ("[reward]\nsamples = 1", "reward.samples = 1 should be greater than or equal to 2"),
        (
            '[model]\nattention = "hard"\n[reward]\nweight = 0.5',
            'reward.weight is of use with model.attention = "soft" alone; set it to 0.0 for "hard"',
        ),
        ("[training]\nbatch =\n", "not valid TOML: Invalid value (at line 2, column 8)"),
        (b"\xff", "not UTF-8 text"),
    ],
)
def test_a_wrong_file_is_named_with_the_remedy(
    text: str | bytes, message: str, tmp_path: Path
) -> None:
    path = write(tmp_path, text)
    told = refusal(path)
    assert told.startswith(f"{path}: ")
    assert message in told


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("training.lerning_rate=1", "--set: unknown key training.lerning_rate; did you mean"),
        ("training.batch=many", '--set: training.batch = "many" should be a valid integer'),
        ("training.batch", "--set training.batch: no value; write section.key=value"),
    ],
)
def test_a_wrong_override_is_told_apart_from_the_file(override: str, message: str) -> None:
    assert message in refusal("flickr8k-soft", override)


def test_an_unknown_recipe_is_answered_with_the_nearest_and_the_list() -> None:
    told = refusal("flickr8k_soft")
    assert "did you mean flickr8k-soft?" in told
    assert "coco-soft" in told


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert refusal(str(tmp_path / "none.toml")) == f"{tmp_path / 'none.toml'}: no such file"


def test_a_byte_order_mark_is_no_mistake(tmp_path: Path) -> None:
    path = write(tmp_path, b"\xef\xbb\xbf[training]\nbatch = 3\n")
    assert load_recipe(path).training.batch == 3


def test_a_recipe_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Recipe().training.batch = 3  # type: ignore[misc]


def test_a_recipe_speaks_of_rewards_only_when_it_changes_them(tmp_path: Path) -> None:
    assert "reward" not in load_recipe("flickr8k-soft").to_toml()
    for changes in (["reward.weight=0.8"], ["reward.samples=3"]):
        recipe = load_recipe("flickr8k-soft", changes)
        assert load_recipe(write(tmp_path, recipe.to_toml())) == recipe


def test_a_varied_recipe_differs_in_what_was_asked_for_alone() -> None:
    hard = load_recipe("flickr8k-hard")
    soft = vary(hard, {"model.attention": "soft", "training.clip": "none"}, "a trial")
    assert (soft.model.attention, soft.training.clip, soft.hard) == ("soft", None, Recipe().hard)
    assert vary(soft, {"model.hidden": soft.model.hidden}, "a trial") == soft
    assert vary(hard, {"hard.samples": 7}, "a trial").hard.samples == 7


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("model.hiden", 3, "a trial: unknown key model.hiden; did you mean model.hidden?"),
        ("model.hidden", -3, "a trial: model.hidden = -3 should be greater than 0"),
        ("hard.samples", 2, "a trial: hard.samples is of no use"),
    ],
)
def test_a_variation_that_does_not_fit_names_who_asked(key: str, value: int, message: str) -> None:
    with pytest.raises(UserError, match=message.replace("?", r"\?")):
        vary(load_recipe("flickr8k-soft"), {key: value}, "a trial")


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("search.beam=100000", "search.beam = 100000 should be less than or equal to 1000"),
        ("search.max_words=1001", "search.max_words = 1001 should be less than or equal to 1000"),
        (
            "search.consensus=1000000",
            "search.consensus = 1000000 should be less than or equal to 1000",
        ),
        ("search.length_power=11.0", "search.length_power = 11.0 should be less than"),
        (
            "search.repetition_penalty=1e9",
            "search.repetition_penalty = 1000000000.0 should be less than",
        ),
        ("search.views=4", "search.views = 4 should be less than or equal to 3"),
        ("search.beam=2.0", "search.beam = 2.0 should be a valid integer"),
        ("search.length_power=nan", "search.length_power = NaN should be"),
        ("search.look=away", "search.look = \"away\" should be 'expected', 'most-likely' or"),
    ],
)
def test_a_search_has_the_same_limits_in_a_recipe(override: str, words: str) -> None:
    assert words in refusal("flickr8k-soft", override)
