"""The exported model: the same numbers as PyTorch, without PyTorch."""

import dataclasses
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from show_attend_tell.captioning.captioner import Captioner
from show_attend_tell.captioning.exported import ExportedModel, sealed
from show_attend_tell.captioning.search import Search, decode
from show_attend_tell.errors import UserError
from show_attend_tell.files import write_json
from show_attend_tell.learning.encoders import make_encoder
from show_attend_tell.learning.evaluate import caption_rows, evaluate, write_evaluation
from show_attend_tell.learning.export.card import headline_scores, write_card
from show_attend_tell.learning.export.folder import export_model
from show_attend_tell.learning.export.graphs import decoder_graphs, round_matrices
from show_attend_tell.learning.model.adapter import TorchModel
from show_attend_tell.learning.model.decoder import Decoder
from show_attend_tell.learning.run import Run
from tests.conftest import Sat
from tests.small_photos import small_store
from tests.tiny_world import tiny_recipe

pytestmark = pytest.mark.slow


@pytest.fixture
def run(exported_run: Run) -> Run:
    return exported_run


@pytest.fixture
def model(exported_run: Run) -> ExportedModel:
    return ExportedModel(exported_run.folder / "model")


def test_encoder_start_look_and_advance_agree_to_1e_5(run: Run, model: ExportedModel) -> None:
    encoder = make_encoder("efficientnet-lite0", weights="random:3", size=64)
    round_matrices(encoder)
    pixels = np.random.default_rng(0).integers(0, 256, (3, 64, 64, 3), dtype=np.uint8)
    annotations = model.encode(pixels)
    with torch.inference_mode():
        expected = encoder(torch.from_numpy(pixels)).numpy()
    assert np.abs(annotations - expected).max() < 1e-5 * np.abs(expected).max()

    pytorch = TorchModel(run.decoder)  # export has rounded its matrices
    words = np.array([model.start_word, 2, 3, 4, 5, 6])
    results = []
    for model_ in (pytorch, model):
        memory, state = model_.start(annotations)
        state = tuple(np.repeat(part, 2, axis=0) for part in state)
        alpha, gate = model_.look(memory, state)
        after, log_probs, ids = model_.advance(memory, state, alpha, gate, words, 4)
        results.append((alpha, gate, *after, log_probs, ids))
    for one, other in zip(*results, strict=True):
        assert one.shape == other.shape
        assert np.abs(one - other).max() < 1e-5


def test_run_and_model_are_evaluated_alike(run: Run, sat: Sat, tmp_path: Path) -> None:
    photos, store = run.folder.parent / "photos", run.folder.parent / "store"
    assert sat("evaluate", run.folder, store, "--out", tmp_path / "run")[0] == 0
    assert sat("evaluate", run.folder / "model", photos, "--out", tmp_path / "model")[0] == 0
    of_run, of_model = (
        json.loads((tmp_path / name / "scores.json").read_text()) for name in ("run", "model")
    )
    assert of_run.pop("run") == "run"
    assert of_model.pop("run") == "model"
    assert of_run == of_model


def test_the_search_finds_the_same_with_both(run: Run, model: ExportedModel) -> None:
    annotations = np.random.default_rng(1).normal(size=(5, 4, 1280)).astype(np.float32)
    search = Search(beam=3, max_words=8)
    for one, other in zip(
        decode(TorchModel(run.decoder), annotations, search),
        decode(model, annotations, search),
        strict=True,
    ):
        assert one[0].words == other[0].words
        assert one[0].score == pytest.approx(other[0].score, abs=1e-4)


def test_a_picture_gets_the_caption_that_its_features_get(run: Run, model: ExportedModel) -> None:
    store = small_store(run.folder.parent)
    rows = store.rows("dev")
    search = Search(beam=2, max_words=8)
    expected, _ = caption_rows(run.decoder, run.vocabulary, store, rows, search)
    captioner = Captioner(model)
    captions = captioner([store.examples[row].picture for row in rows], beam=2, max_words=8)
    assert [" ".join(c.words) for c in captions] == [expected[store.examples[r].id] for r in rows]


def test_matrices_take_two_bytes_a_number(run: Run, model: ExportedModel) -> None:
    numbers = sum(p.numel() for p in run.decoder.parameters())
    graphs = ("start", "look", "advance")
    size = sum((model.folder / f"{name}.onnx").stat().st_size for name in graphs)
    assert size < 2 * numbers + 100_000


def test_no_path_of_this_machine_is_in_a_graph(model: ExportedModel) -> None:
    for path in model.folder.iterdir():
        assert str(Path(__file__).parents[1]).encode() not in path.read_bytes()
        assert b"site-packages" not in path.read_bytes()


def test_the_example_is_kept_with_its_caption(run: Run, model: ExportedModel) -> None:
    photo = run.folder.parent / "photos" / "1.png"
    assert model.facts.example is not None
    assert model.example() == photo.read_bytes()
    assert model.facts.example.caption == Captioner(model)(photo).text


def damage_graph(folder: Path) -> None:
    content = bytearray((folder / "look.onnx").read_bytes())
    content[len(content) // 2] ^= 1
    (folder / "look.onnx").write_bytes(content)


def remove_graph(folder: Path) -> None:
    (folder / "start.onnx").unlink()


def no_facts(folder: Path) -> None:
    (folder / "model.json").unlink()


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (damage_graph, "SHA-256 differs"),
        (remove_graph, "start.onnx: is missing"),
        (no_facts, "not a model folder"),
    ],
)
def test_a_damaged_folder_is_refused_in_a_sentence(
    harm: object, words: str, model: ExportedModel, tmp_path: Path
) -> None:
    shutil.copytree(model.folder, tmp_path / "model")
    harm(tmp_path / "model")  # type: ignore[operator]
    with pytest.raises(UserError, match=words):
        ExportedModel(tmp_path / "model")


def test_onnx_runtime_makes_one_node_of_every_layer(model: ExportedModel, tmp_path: Path) -> None:
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    options.log_severity_level = 3
    onnxruntime.InferenceSession(
        model.folder / "encode.onnx", options, providers=["CPUExecutionProvider"]
    )
    nodes = [node.op_type for node in onnx.load(tmp_path / "optimised.onnx").graph.node]
    assert nodes.count("Conv") > 30
    assert not {"BatchNormalization", "Clip", "CastLike", "Expand"} & set(nodes)


def test_the_search_chosen_on_dev_comes_with_the_model(
    model: ExportedModel, tmp_path: Path
) -> None:
    shutil.copytree(model.folder, tmp_path / "model")
    facts = json.loads((tmp_path / "model" / "model.json").read_text())
    own = {"beam": 7, "length_power": 0.5, "max_words": 9, "look": "most-likely"}
    facts["search"] |= own
    write_json(tmp_path / "model" / "model.json", sealed(facts))
    search = Captioner(ExportedModel(tmp_path / "model")).search
    assert search == Search(beam=7, length_power=0.5, max_words=9, look="most-likely")


def test_the_card_says_what_the_model_is_and_how_well_it_scores(run: Run, tmp_path: Path) -> None:
    card = (run.folder / "model" / "README.md").read_text()
    assert card.startswith("---\nlanguage: en\n") and "\ndatasets: [folder]\n" in card
    assert "efficientnet-lite0, 2 × 2 places of 1280 numbers" in card
    assert "Apache-2.0 (Google)" in card
    assert "`sat evaluate` before `sat export`" in card
    assert "attention_width" in card

    shutil.copytree(run.folder, tmp_path / "run")
    copy = Run.open(tmp_path / "run")
    search = Search(beam=2, max_words=6)
    store = small_store(run.folder.parent)
    made = evaluate(copy, store, "dev", search)
    write_evaluation(made, copy, "dev", search, copy.folder)
    card = write_card(copy)
    bleu = " / ".join(
        f"{100 * made.scores['plain'][f'BLEU-{n}-nobp'].value:.1f}" for n in (1, 2, 3, 4)
    )
    assert f"| plain | {bleu} |" in card
    assert "4 dev pictures, beam 2" in card
    coco = made.scores["coco"]
    names = {"BLEU-4": "BLEU-4-bp", "METEOR": "METEOR", "CIDEr-D": "CIDEr-D"}
    expected = {name: coco[key].value for name, key in names.items()}
    assert headline_scores(copy) == {"split": "dev", **expected}

    copy.meta["epoch"] += 1  # trained on since
    assert "`sat evaluate` before `sat export`" in write_card(copy)
    assert headline_scores(copy) is None


def test_other_encoder_weights_are_refused(run: Run, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="not the encoder that the features were made with"):
        export_model(run, tmp_path / "model", encoder_weights="random:4")


def test_a_decoder_without_attention_is_not_exported(run: Run, tmp_path: Path) -> None:
    section = run.recipe.model.model_copy(update={"attention": "mean"})
    recipe = run.recipe.model_copy(update={"model": section})
    with pytest.raises(
        UserError, match=r"expected a model with soft or hard .* found mean"
    ) as caught:
        export_model(dataclasses.replace(run, recipe=recipe), tmp_path / "model")
    assert caught.value.code == "request.rival"
    assert not (tmp_path / "model").exists()


def test_captioning_imports_no_torch(model: ExportedModel) -> None:
    check = (
        "import sys\n"
        "from pathlib import Path\n"
        "import numpy as np\n"
        "from show_attend_tell.captioning.captioner import Captioner\n"
        "from show_attend_tell.captioning.exported import ExportedModel\n"
        f"captioner = Captioner(ExportedModel(Path({str(model.folder)!r})))\n"
        "caption = captioner(np.zeros((50, 40, 3), np.uint8))\n"
        "assert caption.picture_size == (40, 50)\n"
        "print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_model_without_a_gate_exports_too(tmp_path: Path) -> None:
    decoder = Decoder(tiny_recipe("model.gate=false").model, 8, 11)
    assert set(decoder_graphs(decoder, 8)) == {"start", "look", "advance"}
