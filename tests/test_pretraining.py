"""Reading sentences without pictures: what is read, what learns, and that it goes on to the bit."""

import gzip
import json
import math
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from show_attend_tell.data.features import FeatureStore, examples_hash
from show_attend_tell.data.layouts import Example
from show_attend_tell.data.vocabulary import Vocabulary
from show_attend_tell.errors import UserError
from show_attend_tell.learning import checkpoint
from show_attend_tell.learning.batches import Captions
from show_attend_tell.learning.history import read
from show_attend_tell.learning.objectives import soft_cost
from show_attend_tell.learning.pretraining import pretrain
from show_attend_tell.learning.recipe import Recipe
from show_attend_tell.learning.rivals import make_decoder
from show_attend_tell.learning.run import BEST, LAST, Run
from show_attend_tell.learning.sentences import Sentences, read_sentences
from show_attend_tell.learning.trainer import train
from tests.conftest import Sat
from tests.tiny_world import COLOURS, DEPTH, SHAPES, make_store, tiny_recipe

ROOT = Path(__file__).resolve().parents[1]
LEARNED = {  # of each kind of decoder, the rest being what reads annotations
    "soft": {"embedding", "word_gates", "recurrent_gates", "readout_state", "output"},
    "hard": {"embedding", "word_gates", "recurrent_gates", "readout_state", "output"},
    "mean": {"embedding", "word_gates", "recurrent_gates", "readout_state", "output"},
    "nic": {"embedding", "lstm", "readout_state", "output"},
    "log-bilinear": {"embedding", "context", "bias"},
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    """Few dev pictures, so that many of the sentences there are equal none of their captions."""
    return make_store(tmp_path_factory.mktemp("tiny") / "store", train=200, dev=5)[0]


@pytest.fixture(scope="module")
def sentences(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All that can be said of the tiny world, a hundred and eight sentences."""
    things = [f"a {colour} {shape}" for colour in COLOURS for shape in SHAPES]
    told = [f"{one} and {other}" for one in things for other in things if one[:4] != other[:4]]
    path = tmp_path_factory.mktemp("words") / "sentences.txt"
    path.write_text("\n".join(told) + "\n")
    return path


def quick(*overrides: str) -> Recipe:
    return tiny_recipe(
        "training.epochs=2",
        "training.save_minutes=0.0",
        "training.learning_rate=0.003",
        "model.dropout=0.3",
        *overrides,
    )


def weights_of(folder: Path, name: str) -> dict[str, torch.Tensor]:
    return checkpoint.load(folder / name)[0]


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[k], other[k]) for k in one)


@torch.inference_mode()
def blank_nats(run: Run, store: FeatureStore) -> float:
    """−log p a word of the dev captions before a blank picture, one caption at a time."""
    nats, words = 0.0, 0
    for caption in Captions.of(store, "dev", run.vocabulary).words:
        told = torch.tensor([caption])
        lesson = run.decoder.teach(torch.zeros(1, 1, DEPTH), told)
        cost = soft_cost(run.decoder, lesson, told, double_stochastic=0.0, label_smoothing=0.0)
        nats, words = nats + cost.nats, words + cost.words
    return nats / words


def test_reading_makes_dev_captions_less_surprising_and_the_least_surprised_epoch_is_kept(
    store: FeatureStore, sentences: Path, tmp_path: Path
) -> None:
    pretrain(store, tmp_path, tiny_recipe("training.epochs=8"), [sentences])
    events = read(tmp_path / "log.jsonl")
    devs = [event for event in events if event["event"] == "dev"]
    losses = [event["nats_per_word"] for event in devs]
    run = Run.open(tmp_path, even_unseeing=True)
    assert losses[-1] < losses[0] < math.log(len(run.vocabulary))
    # Who knows the grammar alone has to guess one colour of four, another of three, and two shapes.
    assert min(losses) < 1.2 * (math.log(4) + 3 * math.log(3)) / 8
    best = [event for event in devs if event["best"]][-1]
    assert best["nats_per_word"] == min(losses)
    assert run.meta["epoch"] == best["epoch"]
    assert blank_nats(run, store) == pytest.approx(best["nats_per_word"], abs=1e-5)
    assert events[-1]["reason"] == "all 8 epochs are done"
    with Image.open(tmp_path / "curves.png") as curves:
        assert curves.height > curves.width / 2  # the losses alone: there are no scores


def test_it_stops_when_the_dev_loss_does_not_fall(
    store: FeatureStore, sentences: Path, tmp_path: Path
) -> None:
    slow = tiny_recipe("training.learning_rate=1.0", "training.epochs=9", "training.patience=2")
    pretrain(store, tmp_path, slow, [sentences])
    assert read(tmp_path / "log.jsonl")[-1]["reason"] == "the dev loss has not fallen for 2 epochs"


@pytest.mark.parametrize("attention", LEARNED)
def test_what_reads_annotations_stays_as_it_was_made_and_the_rest_learns(
    attention: str, store: FeatureStore, sentences: Path, tmp_path: Path
) -> None:
    wide = ("model.annotation_width=6", "model.annotation_norm=layer", "training.epochs=1")
    recipe = quick(f"model.attention={attention}", *wide)
    pretrain(store, tmp_path, recipe, [sentences])
    run = Run.open(tmp_path, even_unseeing=True)
    torch.manual_seed(recipe.training.seed)
    made = make_decoder(recipe.model, DEPTH, len(run.vocabulary)).state_dict()
    found = run.decoder.state_dict()
    changed = {name.partition(".")[0] for name in made if not torch.equal(made[name], found[name])}
    assert changed == LEARNED[attention]


@pytest.mark.parametrize("norm", ["none", "layer"])
def test_a_blank_picture_says_nothing_to_what_was_never_taught_by_it(
    norm: str, store: FeatureStore, sentences: Path, tmp_path: Path
) -> None:
    recipe = quick(f"model.annotation_norm={norm}", "model.annotation_width=6")
    pretrain(store, tmp_path, recipe, [sentences])
    run = Run.open(tmp_path, even_unseeing=True)
    places, state = run.decoder.start(torch.zeros(1, 1, DEPTH))
    assert not torch.count_nonzero(places.annotations)
    assert not torch.count_nonzero(torch.stack(state))
    torch.manual_seed(recipe.training.seed)
    made = make_decoder(recipe.model, DEPTH, len(run.vocabulary)).state_dict()
    of_context = slice(recipe.model.hidden, None)  # what ẑ does to the gates: never seen, never met
    before, after = (
        weights["recurrent_gates.weight"] for weights in (made, run.decoder.state_dict())
    )
    assert torch.equal(before[:, of_context], after[:, of_context])
    assert not torch.equal(before, after)


def test_training_begins_with_what_was_read_and_learns_everything(
    store: FeatureStore, sentences: Path, tmp_path: Path
) -> None:
    pretrain(store, tmp_path / "words", quick("training.epochs=4"), [sentences])
    read_best = weights_of(tmp_path / "words", BEST)
    begun: dict[str, torch.Tensor] = {}

    def look(event: dict[str, Any]) -> None:
        if event["event"] == "start":
            begun.update(weights_of(tmp_path / "run", LAST))

    recipe = quick("training.epochs=1")
    train(store, tmp_path / "run", recipe, start_from=[tmp_path / "words"], watch=[look])
    assert all(torch.equal(begun[f"decoder.{name}"], read_best[name]) for name in read_best)
    told = weights_of(tmp_path / "run", LAST)
    still = {name for name in read_best if torch.equal(told[f"decoder.{name}"], read_best[name])}
    assert still == set()
    assert Run.open(tmp_path / "run").meta["epoch"] == 1

    train(store, tmp_path / "unread", recipe)
    losses = [
        next(e for e in read(tmp_path / name / "log.jsonl") if e["event"] == "dev")["nats_per_word"]
        for name in ("run", "unread")
    ]
    assert losses[0] < losses[1]


@pytest.mark.parametrize("options", [[], ["model.attention=hard"]], ids=["soft", "hard"])
def test_a_run_stopped_by_a_person_goes_on_to_the_same_bits(
    options: list[str], store: FeatureStore, sentences: Path, tmp_path: Path
) -> None:
    pretrain(store, tmp_path / "whole", quick(*options), [sentences])

    def press_ctrl_c(event: dict[str, Any]) -> None:
        if event["event"] == "progress" and event["step"] == 4:
            signal.raise_signal(signal.SIGINT)

    broken = tmp_path / "broken"
    with pytest.raises(KeyboardInterrupt):
        pretrain(store, broken, quick(*options), [sentences], watch=[press_ctrl_c])
    assert checkpoint.load(broken / LAST)[1]["place"]["step"] == 4
    pretrain(store, broken, None, [sentences], resume=True)
    for name in (LAST, BEST):
        assert same(weights_of(tmp_path / "whole", name), weights_of(broken, name))


READ_AND_DIE = """
import os, random, signal, sys
from pathlib import Path
import torch
torch.set_num_threads(1)
from show_attend_tell.data.features import FeatureStore
from show_attend_tell.learning.pretraining import pretrain
from tests.test_pretraining import quick

store, run, sentences, seed = sys.argv[1:5]
chance = random.Random(int(seed))
fatal, calls = chance.randrange(1, 25) if int(seed) else 0, 0

def mortal(real):
    def call(*args, **options):
        global calls
        calls += 1
        if calls == fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **options)
    return call

os.fsync, Path.replace = mortal(os.fsync), mortal(Path.replace)
pretrain(FeatureStore.open(Path(store)), Path(run), quick(), [Path(sentences)], resume=True)
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_kill_9_in_the_midst_of_writing_still_gives_the_same_bits(
    store: FeatureStore, sentences: Path, tmp_path: Path
) -> None:
    def attempt(folder: Path, seed: int) -> int:
        arguments = [store.folder, folder, sentences, str(seed)]
        command = [sys.executable, "-c", READ_AND_DIE, *arguments]
        return subprocess.run(command, cwd=ROOT, timeout=300, check=False).returncode

    assert attempt(tmp_path / "whole", 0) == 0
    codes = [attempt(tmp_path / "broken", seed) for seed in range(1, 6)]
    assert set(codes) <= {0, -signal.SIGKILL}
    assert codes.count(-signal.SIGKILL) >= 3
    assert attempt(tmp_path / "broken", 0) == 0
    for name in (LAST, BEST):
        assert same(weights_of(tmp_path / "whole", name), weights_of(tmp_path / "broken", name))


WORDS = Vocabulary.build(["a dog runs , a cat sits ."], punctuation=True)


def sifted(folder: Path, *texts: str, held: dict[str, str] | None = None) -> Sentences:
    path = folder / "sentences.txt"
    path.write_text("\n".join(texts) + "\n")
    examples = [Example(Path("0.png"), (told,), split, "0") for told, split in (held or {}).items()]
    return read_sentences([path], WORDS, examples, max_words=12)


@pytest.mark.parametrize("split", ["dev", "test"])
@pytest.mark.parametrize(
    "sentence",
    ["A dog runs.", "a dog runs", "A DOG, runs .", "  a   dog runs  "],
    ids=["same", "without a full stop", "case and comma", "blanks"],
)
def test_no_caption_of_dev_or_test_is_read_however_it_is_written(
    sentence: str, split: str, tmp_path: Path
) -> None:
    found = sifted(tmp_path, sentence, "a cat runs", held={"A dog runs .": split})
    assert [WORDS.decode(words) for words in found.words] == [["a", "cat", "runs"]]
    assert (found.read, found.held_out) == (2, 1)


def test_a_caption_of_dev_with_another_unknown_word_is_not_read_either(tmp_path: Path) -> None:
    told = "a dog runs , a dog sits , a {} ."  # to the model yak and zebu are one word
    found = sifted(tmp_path, told.format("yak"), "a dog", held={told.format("zebu"): "dev"})
    assert (len(found.words), found.held_out) == (1, 1)


def test_a_training_caption_is_read(tmp_path: Path) -> None:
    assert len(sifted(tmp_path, "a dog runs", held={"a dog runs": "train"}).words) == 1


def test_secret_captions_of_dev_and_test_leave_every_weight_as_it_is(
    store: FeatureStore, sentences: Path, tmp_path: Path
) -> None:
    """Nothing but what was in the files, less what is held out, decides the weights."""
    secret = "a red circle and a red square"  # in no file and no caption
    told = sentences.read_text().splitlines()
    held_out = {e.captions[0] for e in store.examples if e.split == "dev"}
    assert held_out < set(told)
    assert secret not in told
    sifted_by_hand = tmp_path / "rest.txt"
    sifted_by_hand.write_text("\n".join(one for one in told if one not in held_out) + "\n")
    examples = [
        Example(e.picture, (secret,) if e.split == "dev" else e.captions, e.split, e.id)
        for e in store.examples
    ]
    index = store.index.model_copy(update={"examples_hash": examples_hash(examples)})
    other = FeatureStore.create(tmp_path / "other", index, examples)
    other.write(range(len(examples)), store.read(range(len(examples))).astype("float16"))
    recipe = quick("training.epochs=1")
    pretrain(store, tmp_path / "run", recipe, [sentences])
    pretrain(other, tmp_path / "by-hand", recipe, [sifted_by_hand])
    assert same(weights_of(tmp_path / "run", LAST), weights_of(tmp_path / "by-hand", LAST))
    pretrain(other, tmp_path / "leaky", recipe, [sentences])  # so this test can fail
    assert not same(weights_of(tmp_path / "run", LAST), weights_of(tmp_path / "leaky", LAST))


def test_long_sentences_and_those_of_many_unknown_words_are_left_out(tmp_path: Path) -> None:
    twelve = "a dog runs , a dog sits , a cat runs ."
    found = sifted(
        tmp_path,
        twelve,
        f"{twelve} .",
        twelve.replace("cat", "yak"),  # one unknown word in twelve
        "a dog runs , a yak sits .",  # one in eight
        "",
        "   ",
    )
    assert (len(found.words), found.too_long, found.unknown, found.read) == (2, 1, 1, 4)


def test_text_and_json_lines_are_read_packed_or_not_in_their_order(tmp_path: Path) -> None:
    rows = [json.dumps({"image": "1.jpg", "captions": ["a dog", "a cat"]}), "", '{"captions": []}']
    contents = {
        "one.txt": "a dog runs\r\na cat runs",
        "two.txt.gz": "a dog sits\n",
        "three.jsonl": "\n".join(rows),
        "v1.0.jsonl.gz": '{"captions": ["a dog ."]}\n',
    }
    for name, content in contents.items():
        pack = gzip.compress if name.endswith(".gz") else bytes
        (tmp_path / name).write_bytes(pack(content.encode()))
    found = read_sentences([tmp_path / name for name in contents], WORDS, [], max_words=12)
    told = [" ".join(WORDS.decode(words)) for words in found.words]
    assert told == ["a dog runs", "a cat runs", "a dog sits", "a dog", "a cat", "a dog ."]
    other = read_sentences([tmp_path / "one.txt"], WORDS, [], max_words=12)
    assert found.sha256 != other.sha256


def written(folder: Path) -> list[object]:
    """Options that name the quick recipe."""
    path = folder / "quick.toml"
    path.write_text(quick("training.epochs=1").to_toml())
    return ["--recipe", path]


BAD_FILES: dict[str, tuple[str, bytes | None, str]] = {
    "missing": ("none.txt", None, "there is no such file"),
    "not UTF-8": ("a.txt", b"a dog\n\xff\n", r"a.txt, line 2: not UTF-8"),
    "damaged gzip": ("a.txt.gz", b"\x1f\x8b\x08broken", "cannot be read"),
    "not JSON": ("a.jsonl", b'{"captions": ["a dog"]}\n{"capt\n', r"a.jsonl, line 2, column \d+"),
    "other rows": ("a.jsonl", b'{"caption": "a dog"}\n', r"line 1: .*captions.*write rows such as"),
    "no list": ("a.jsonl", b'{"captions": "a dog"}\n', r"line 1: .*write rows such as"),
    "empty": ("a.txt", b"", "none of 0 sentences can be learned from"),
    "another language": ("a.txt", b"ein Hund rennt\n", "1 too many unknown words"),
    "one JSON": ("a.json", b'[{"caption": "a dog"}]' * 20, "let the name end in .jsonl"),
}


@pytest.mark.parametrize("mistake", BAD_FILES)
def test_a_bad_file_of_sentences_is_told_in_a_sentence(
    mistake: str, sat: Sat, store: FeatureStore, tmp_path: Path
) -> None:
    name, content, words = BAD_FILES[mistake]
    if content is not None:
        (tmp_path / name).write_bytes(content)
    typed = ["pretrain", store.folder, tmp_path / "run", "--sentences", tmp_path / name]
    code, out, err = sat(*typed, *written(tmp_path))
    assert code == 1
    assert re.search(words, err), err
    assert len([line for line in err.splitlines() if line.startswith("sat:")]) == 1
    assert "Traceback" not in err
    assert out == ""
    assert not (tmp_path / "run" / "recipe.toml").exists()


def test_the_command_reads_and_says_what_it_left_out_and_what_comes_next(
    sat: Sat, store: FeatureStore, sentences: Path, tmp_path: Path
) -> None:
    words, run = tmp_path / "words", tmp_path / "run"
    given = ["--sentences", sentences]
    code, _, err = sat("pretrain", store.folder, words, *given, *written(tmp_path))
    assert code == 0, err
    assert "108 sentences; left out: 0 too long, 0 with too many unknown words" in err
    assert "epoch  1  dev loss" in err
    assert f"sat train {store.folder} RUN --start-from {words}" in err
    code, out, _ = sat("show", words)
    assert code == 0
    assert "it has read sentences and seen no picture" in out
    assert "epoch 1 by dev loss" in out
    code, _, err = sat("pretrain", store.folder, words, *given, "--resume")
    assert (code, "all 1 epochs are done" in err) == (0, True)
    code, _, err = sat("train", store.folder, run, "--start-from", words, *written(tmp_path))
    assert code == 0, err


def test_a_run_that_has_seen_no_picture_is_told_apart_from_one_that_has(
    sat: Sat, store: FeatureStore, sentences: Path, tmp_path: Path
) -> None:
    words, run = tmp_path / "words", tmp_path / "run"
    pretrain(store, words, quick("training.epochs=1"), [sentences])
    train(store, run, quick("training.epochs=1"))
    for typed in (
        ["evaluate", words, store.folder],
        ["report", words, store.folder],
        ["export", words, tmp_path / "model"],
    ):
        code, _, err = sat(*typed)
        assert code == 1
        assert f"sat train STORE RUN --start-from {words}" in err
    other = tmp_path / "other.txt"
    other.write_text("a red circle and a blue square\n")
    before = {folder: weights_of(folder, LAST) for folder in (words, run)}
    for typed in (
        ["train", store.folder, words, "--resume"],
        ["pretrain", store.folder, run, "--sentences", sentences, "--resume"],
        ["pretrain", store.folder, words, "--sentences", other, "--resume"],
    ):
        code, _, err = sat(*typed)
        assert code == 1
        assert "was begun with other sentences, or with none" in err
    assert all(same(before[folder], weights_of(folder, LAST)) for folder in before)


def test_nothing_but_the_words_of_the_training_captions_is_known(
    store: FeatureStore, sentences: Path, tmp_path: Path
) -> None:
    more = tmp_path / "more.txt"
    more.write_text("a red circle and a blue square and a red circle and a blue hexagon\n" * 9)
    recipe = quick("training.epochs=1")
    pretrain(store, tmp_path / "words", recipe, [sentences, more])
    train(store, tmp_path / "run", recipe)
    read_, seen = ((tmp_path / name / "vocabulary.txt").read_text() for name in ("words", "run"))
    assert read_ == seen
    assert "hexagon" not in read_


def test_a_bad_recipe_or_folder_is_refused_as_by_train(
    store: FeatureStore, sentences: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=r"--set encoder\.name=tiny"):
        pretrain(store, tmp_path / "run", quick("encoder.name=vgg19"), [sentences])
    with pytest.raises(UserError, match="no run to go on with"):
        pretrain(store, tmp_path / "none", None, [sentences], resume=True)
    pretrain(store, tmp_path / "run", quick("training.epochs=1"), [sentences])
    with pytest.raises(UserError, match="add --resume"):
        pretrain(store, tmp_path / "run", quick("training.epochs=1"), [sentences])
