"""A few generated pictures with captions, prepared with a small random encoder and trained on."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from show_attend_tell.data.features import FeatureStore
from show_attend_tell.data.layouts import load_dataset
from show_attend_tell.learning.encoders import make_encoder, prepare
from show_attend_tell.learning.encoders.prepare import Encode, Pixels, Preparation
from show_attend_tell.learning.export.folder import export_model
from show_attend_tell.learning.loop.trainer import train
from show_attend_tell.learning.recipe import Recipe
from show_attend_tell.learning.run import Run
from tests.tiny_world import tiny_recipe


def in_pytorch(encoder: torch.nn.Module) -> Encode:
    """The encoder as `encoder_function` gives it, without the seconds of an export."""

    def encode(pixels: Pixels) -> np.ndarray:
        with torch.no_grad():
            return encoder(torch.from_numpy(pixels)).numpy()

    return encode


def small_store(
    folder: Path,
    *,
    fine_tuned: int = 0,
    encoder: str = "efficientnet-lite0",
    exported: bool = True,
) -> FeatureStore:
    """A finished store of twelve pictures of noise; made once per folder and `fine_tuned`.

    With `exported=False` PyTorch computes the features, which saves the seconds of an export.
    """
    photos, store = folder / "photos", folder / f"store{fine_tuned or ''}"
    if store.exists():
        return FeatureStore.open(store)
    photos.mkdir(exist_ok=True)
    random = np.random.default_rng(0)
    rows = ["picture,caption,split"]
    for i in range(12):
        noise = random.integers(0, 256, (8, 9, 3), dtype=np.uint8)
        Image.fromarray(noise).resize((90, 80)).save(photos / f"{i}.png")
        rows.append(f"{i}.png,a picture of number {i},{'train' if i < 8 else 'dev'}")
    (photos / "captions.csv").write_text("\n".join(rows) + "\n")
    network = make_encoder(encoder, weights="random:3", size=64)
    with pytest.MonkeyPatch.context() as patch:
        if not exported:
            patch.setattr(prepare, "encoder_function", in_pytorch)
        work = Preparation(load_dataset(photos), store, network, fine_tuned=fine_tuned)
    assert work.run() == {}
    return work.store


def small_recipe(*overrides: str) -> Recipe:
    """One epoch of a small model of those pictures."""
    return tiny_recipe(
        "encoder.name=efficientnet-lite0",
        "encoder.grid=2",
        "encoder.size=64",
        "model.annotation_norm=layer",
        "model.annotation_width=16",
        "training.epochs=1",
        "search.max_words=6",
        *overrides,
    )


def small_run(folder: Path) -> Run:
    """A model of those pictures, exported into the run, its matrices rounded as in the export."""
    train(small_store(folder), folder / "run", small_recipe())
    run = Run.open(folder / "run")
    export_model(
        run,
        run.folder / "model",
        encoder_weights="random:3",
        example=folder / "photos" / "1.png",
    )
    return run
