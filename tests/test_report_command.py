"""`sat report`: its numbers are those of `sat evaluate`, and mistakes are one sentence."""

import base64
import gzip
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from show_attend_tell.captioning.search import Search
from show_attend_tell.data.features import FeatureStore
from show_attend_tell.learning.loop.trainer import train
from show_attend_tell.learning.run import Run
from show_attend_tell.learning.watching import report as reporting
from show_attend_tell.learning.watching.report import gather, next_words
from tests.conftest import Sat
from tests.test_looking import boxes_of
from tests.tiny_world import Scene, make_store, tiny_recipe

SEARCH = Search(beam=3)


class World:
    """A run of the tiny world, half learned, so that it makes mistakes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store, self.scenes = make_store(folder / "store", train=100, dev=12)
        train(self.store, folder / "run", tiny_recipe("training.epochs=6"))
        self.run = Run.open(folder / "run")
        (folder / "photos").mkdir()
        exif = Image.Exif()
        exif[0x010E] = "secret place"
        for place, scene in enumerate(self.scenes):
            colour = (90 * scene.colours[0], 80 * scene.shapes[0], 128)
            picture = Image.new("RGB", (300, 200), colour)
            picture.save(folder / "photos" / f"{place}.png", exif=exif)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("report"))


def sat_report(sat: Sat, world: World, out: Path, *more: object) -> tuple[int, str, str]:
    return sat("report", world.folder / "run", world.folder / "store", "--out", out, *more)


def test_scores_on_the_page_are_those_of_evaluate(sat: Sat, world: World, tmp_path: Path) -> None:
    code, _, said = sat_report(sat, world, tmp_path / "page.html", "--beam", 3)
    assert (code, "MB" in said) == (0, True)
    run, store = world.folder / "run", world.folder / "store"
    assert sat("evaluate", run, store, "--beam", 3, "--out", tmp_path)[0] == 0
    scores = json.loads((tmp_path / "scores.json").read_text())["scores"]
    page = re.sub(r"<[^>]+>", " ", (tmp_path / "page.html").read_text())
    page = " ".join(page.split())
    for recipe, name, shown in (
        ("authors", "BLEU-4-nobp", "BLEU-4"),
        ("coco", "ROUGE-L", "ROUGE-L"),
        ("coco", "CIDEr-D", "CIDEr-D"),
    ):
        form, scale = ("{:.3f}", 1) if name == "CIDEr-D" else ("{:.1f}", 100)
        value, low, high = (
            form.format(scale * scores[recipe][name][key]) for key in ("value", "low", "high")
        )
        assert f"{shown} {value} {low} to {high}" in page
        assert scores[recipe][name]["signature"] in page


def test_pictures_are_ranked_by_their_own_scores(world: World) -> None:
    facts = gather(world.run, world.store, "dev", SEARCH)
    ranked = [tuple(entry.scores.values()) for entry in facts.gallery]
    assert ranked == sorted(ranked)
    assert len(set(ranked)) > 1
    assert facts.shown["Best"][0].entry.id == facts.gallery[-1].id
    assert facts.shown["Worst"][0].entry.id == facts.gallery[0].id
    assert [len(few) for few in facts.shown.values()] == [4, 4, 4]
    mean = np.mean([entry.scores["CIDEr-D"] for entry in facts.gallery])
    assert facts.scores["coco"]["CIDEr-D"].value == pytest.approx(mean)


def test_facts_are_of_this_run(world: World) -> None:
    facts = gather(world.run, world.store, "dev", SEARCH)
    words = sum(len(entry.caption.rstrip(".").split()) for entry in facts.gallery)
    assert facts.attention.health.words == words
    assert facts.attention.coverage.sum() * 12 == pytest.approx(words, rel=1e-4)
    assert facts.attention.coverage.shape == (4, 4)
    assert facts.curves is not None
    assert [epoch for epoch, _ in facts.curves.dev] == [1, 2, 3, 4, 5, 6]
    assert facts.curves.best == world.run.meta["epoch"]
    assert sum(group.count for group in facts.calibration.captions) == 12
    assert facts.without_picture == 12
    assert facts.about["Data"] == "tiny, 12 pictures of dev"


def test_attention_is_described_by_its_weights_also_when_one_place_is_looked_at(
    world: World,
) -> None:
    hard = Search(beam=1, look="most-likely")
    assert gather(world.run, world.store, "dev", hard).attention.health.entropy > 0.01


def test_confidence_in_the_next_word_is_the_decoder_s_step_by_step(world: World) -> None:
    run, (row,) = world.run, world.store.rows("dev")[:1]
    sure, right = next_words(run, world.store, [row], lambda name, total: lambda done: None)
    words = run.vocabulary.encode(world.store.examples[row].captions[0])
    before, expected, hits = run.decoder.words, [], []
    with torch.inference_mode():
        places, state = run.decoder.start(torch.from_numpy(world.store.read([row])))
        for word in words:
            alpha, gate = run.decoder.look(places, state)
            state, logits = run.decoder.advance(places, state, alpha, gate, torch.tensor([before]))
            expected.append(float(logits.softmax(dim=1).max()))
            hits.append(int(logits.argmax()) == word)
            before = word
    assert sure == pytest.approx(expected, rel=1e-4)
    assert right == hits


def test_pictures_that_moved_are_found_and_leave_their_metadata(
    sat: Sat, world: World, tmp_path: Path
) -> None:
    out = tmp_path / "page.html"
    code, _, said = sat_report(sat, world, out, "--pictures", world.folder / "photos")
    assert (code, "not there" in said) == (0, False)
    page = out.read_text()
    assert page.count("<li data-score") == page.count("<img src=") == 12
    assert page.count("<figure>") == 12
    for uri in re.findall(r'"data:image/jpeg;base64,([^"]+)"', page):
        assert b"secret" not in base64.b64decode(uri)


def test_pictures_that_are_gone_are_counted_and_their_captions_stay(
    sat: Sat, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, said = sat_report(sat, world, tmp_path / "page.html")
    assert (code, "12 of 12 pictures are not there any more" in said) == (0, True)
    page = (tmp_path / "page.html").read_text()
    assert page.count("<li data-score") == 12
    assert "<img" not in page


def test_a_gallery_ends_before_the_page_grows_too_large(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = gather(world.run, world.store, "dev", SEARCH, pictures=world.folder / "photos")
    sizes = [len(entry.thumbnail or "") for entry in whole.gallery]
    monkeypatch.setattr(reporting, "MOST_CHARACTERS", sum(sizes[:5]))
    cut = gather(world.run, world.store, "dev", SEARCH, pictures=world.folder / "photos")
    assert [entry.id for entry in cut.gallery] == [entry.id for entry in whole.gallery[:5]]
    assert cut.pictures == 12


def test_boxes_add_a_section(sat: Sat, world: World, tmp_path: Path) -> None:
    scenes: list[Scene] = world.scenes
    boxes = tmp_path / "boxes.json.gz"
    pictures = {str(place): boxes_of(scene) for place, scene in enumerate(scenes)}
    boxes.write_bytes(gzip.compress(json.dumps(pictures).encode()))
    assert sat_report(sat, world, tmp_path / "page.html", "--grounding", boxes)[0] == 0
    assert 'id="grounding"' in (tmp_path / "page.html").read_text()


def test_the_page_goes_into_the_run_by_default(sat: Sat, world: World) -> None:
    assert sat("report", world.folder / "run", world.folder / "store")[0] == 0
    page = world.folder / "run" / "report-dev.html"
    assert page.exists()
    page.unlink()


def test_a_run_without_a_log_is_reported_too(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    log = world.folder / "run" / "log.jsonl"
    aside = log.rename(log.with_suffix(".aside"))
    try:
        assert gather(world.run, world.store, "dev", SEARCH).curves is None
    finally:
        aside.rename(log)


def refused(sat: Sat, *words: object) -> str:
    code, out, said = sat("report", *words)
    assert code in (1, 2)
    assert out == ""
    assert "Traceback" not in said
    assert len(said.strip().splitlines()) == 1
    return said


def test_mistakes_are_one_sentence(sat: Sat, world: World, tmp_path: Path) -> None:
    run, store = world.folder / "run", world.folder / "store"
    assert "not a run folder" in refused(sat, tmp_path, store)
    assert "not a feature store" in refused(sat, run, tmp_path)
    (tmp_path / "file").write_text("")
    assert "cannot be written" in refused(sat, run, store, "--out", tmp_path / "file" / "x.html")
    assert "it is a folder" in refused(sat, run, store, "--out", tmp_path)
    assert "there is no folder" in refused(sat, run, store, "--pictures", tmp_path / "nowhere")
    out = tmp_path / "page.html"
    code, _, said = sat("report", run, store, "--split", "test", "--out", out)
    assert (code, "no pictures in split 'test'" in said) == (1, True)
    assert not out.exists()


def test_features_of_another_kind_are_refused(sat: Sat, world: World, tmp_path: Path) -> None:
    index = world.store.index.model_copy(update={"weights_hash": "another"})
    other = FeatureStore.create(tmp_path / "store", index, world.store.examples)
    rows = world.store.rows("dev")
    other.write(rows, world.store.read(rows).astype(np.float16))
    code, _, said = sat("report", world.folder / "run", tmp_path / "store", "--out", tmp_path / "p")
    assert (code, "its features do not fit" in said) == (1, True)
