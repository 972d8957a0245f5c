"""Whether an exported model says what PyTorch says: annotations and captions of real pictures.

    python benchmarks/agreement.py RUN MODEL FLICKR8K                # all dev pictures
    python benchmarks/agreement.py RUN MODEL FLICKR8K --pictures 50

PyTorch computes with the weights that the model folder holds, matrices rounded to float16.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from show_attend_tell.captioning.exported import ExportedModel
from show_attend_tell.captioning.search import Search, decode
from show_attend_tell.data.layouts import load_dataset
from show_attend_tell.data.pictures import frame, open_picture
from show_attend_tell.learning.encoders import make_encoder
from show_attend_tell.learning.export.graphs import round_matrices
from show_attend_tell.learning.model.adapter import TorchModel
from show_attend_tell.learning.run import Run

TOGETHER = 16


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--encoder-weights", type=Path)
    parser.add_argument("--pictures", type=int, default=1000)
    options = parser.parse_args()

    run, model = Run.open(options.run), ExportedModel(options.model)
    facts = model.facts
    encoder = make_encoder(
        facts.origin["encoder"],
        weights=options.encoder_weights,
        grid=facts.grid[0],
        size=facts.preprocessing.size,
        fit=facts.preprocessing.fit,
    )
    round_matrices(encoder)
    round_matrices(run.decoder)
    model_, search = TorchModel(run.decoder), Search.of(run.recipe.search)

    examples = [one for one in load_dataset(options.data).examples if one.split == "dev"]
    examples = examples[: options.pictures]
    apart, furthest, same = [], [], 0
    for first in range(0, len(examples), TOGETHER):
        photos = [one.picture for one in examples[first : first + TOGETHER]]
        pixels = np.stack([frame(open_picture(photo), facts.preprocessing) for photo in photos])
        ours = model.encode(pixels)
        with torch.inference_mode():
            theirs = encoder(torch.from_numpy(pixels)).numpy()
        for one, other in zip(ours, theirs, strict=True):
            apart.append(np.linalg.norm(one - other) / np.linalg.norm(other))
            furthest.append(np.abs(one - other).max() / np.abs(other).max())
        told = zip(decode(model, ours, search), decode(model_, theirs, search), strict=True)
        same += sum(one[0].words == other[0].words for one, other in told)
    print(f"annotations of {len(examples)} pictures, as vectors: at most {max(apart):.1e} apart,")
    print(f"  their single numbers at most {max(furthest):.1e} of the picture's largest")
    print(f"captions: {same} of {len(examples)} the same")


if __name__ == "__main__":
    main()
