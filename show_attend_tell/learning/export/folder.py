"""A run as a model folder: ONNX graphs that caption without PyTorch, `model.json` and a card.

Matrices are rounded to float16 before the export, so the files are half as large and the graphs
compute with exactly the numbers of a rounded PyTorch model.
"""

from pathlib import Path

from show_attend_tell.captioning.captioner import Captioner
from show_attend_tell.captioning.exported import (
    GRAPHS,
    ExamplePicture,
    ExportedModel,
    ModelFacts,
    write_facts,
)
from show_attend_tell.captioning.search import Search
from show_attend_tell.errors import UserError
from show_attend_tell.files import cannot_write, sha256_of, write_bytes, write_text
from show_attend_tell.learning.encoders import Encoder
from show_attend_tell.learning.encoders.graph import encoder_graph
from show_attend_tell.learning.export.card import headline_scores, write_card
from show_attend_tell.learning.export.graphs import decoder_graphs, round_matrices, to_float16
from show_attend_tell.learning.model.decoder import Decoder
from show_attend_tell.learning.run import Run, encoder_of, versions


def export_model(
    run: Run,
    folder: Path,
    *,
    search: Search | None = None,
    encoder_weights: str | Path | None = None,
    example: Path | None = None,
) -> None:
    """Write the model folder of a run: four graphs, `model.json`, and the card.

    Parameters
    ----------
    search
        The model's default search; by default the recipe's.
    encoder_weights
        Where the encoder's weights are, for an encoder that does not bring its own.
    example
        A picture to copy into the folder with its caption, for `sat doctor` to compare.
    """
    if not isinstance(run.decoder, Decoder) or run.recipe.model.attention == "mean":
        raise UserError(
            "request.rival",
            f"{run.folder}: expected a model with soft or hard attention, found "
            f"{run.recipe.model.attention}, a baseline that is not exported; choose another run",
        )
    encoder = encoder_of(run.features, encoder_weights)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from error
    _write_graphs(run, run.decoder, encoder, folder)
    facts = _facts(run, folder, search)
    write_facts(folder, facts)
    write_text(folder / "README.md", write_card(run))
    if example:
        write_facts(folder, _with_example(folder, facts, example))


def _write_graphs(run: Run, decoder: Decoder, encoder: Encoder, folder: Path) -> None:
    if run.features.fine_tuned:
        _, upper = encoder.split(run.features.fine_tuned)
        upper.load_state_dict(decoder.upper.state_dict())
    round_matrices(encoder)
    round_matrices(decoder)
    graphs = {"encode": encoder_graph(encoder), **decoder_graphs(decoder, run.features.depth)}
    for name, graph in graphs.items():
        write_bytes(folder / f"{name}.onnx", to_float16(graph).SerializeToString())


def _facts(run: Run, folder: Path, search: Search | None) -> ModelFacts:
    features = run.features
    settings = search.kept() if search else run.recipe.search
    return ModelFacts(
        words=run.vocabulary.words,
        punctuation=run.vocabulary.punctuation,
        preprocessing=features.preprocessing,
        grid=features.grid,
        search=settings,
        files={f"{name}.onnx": sha256_of(folder / f"{name}.onnx") for name in GRAPHS},
        origin={
            "encoder": features.encoder,
            "encoder_weights": features.weights_hash,
            "data_set": features.layout,
            "recipe": run.recipe.model_dump(),
            "epoch": run.meta["epoch"],
            "dev_BLEU-4": run.meta.get("BLEU-4"),  # averaged runs have none
            "scores": headline_scores(run),
            "versions": versions(),
        },
    )


def _with_example(folder: Path, facts: ModelFacts, picture: Path) -> ModelFacts:
    caption = Captioner(ExportedModel(folder))(picture).text
    name = f"example{picture.suffix.lower()}"
    write_bytes(folder / name, picture.read_bytes())
    return facts.model_copy(
        update={
            "files": {**facts.files, name: sha256_of(folder / name)},
            "example": ExamplePicture(picture=name, caption=caption),
        }
    )
