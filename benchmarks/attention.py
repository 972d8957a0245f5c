"""What soft and hard attention estimate, measured on a trained model.

    python benchmarks/attention.py runs/soft features/lite2 --plot docs/variance.png

First: soft attention takes one pass with the expected context in place of the mean over places
(section 4.2). How far apart are, for the words of dev captions, the mean E[p] of the words'
probabilities over places, their normalised weighted geometric mean (NWGM), and that one pass?

Second: how the gradient of the hard rule (section 4.1) scatters on one mini-batch, and what the
baseline, the mixing with the expected value, the entropy term, and the options beyond the paper do
to it: the variance of the attention's gradient, summed over its weights.
"""

import argparse
import sys
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from show_attend_tell.data.features import FeatureStore
from show_attend_tell.learning.model.decoder import Decoder, State
from show_attend_tell.learning.objectives.hard import DECAY, Baseline, hard_cost
from show_attend_tell.learning.objectives.likelihood import soft_cost
from show_attend_tell.learning.recipe import HardSection
from show_attend_tell.learning.run import Run


class NoBaseline(Baseline):
    """Rewards compared with nothing."""

    def expect(self, rewards: Tensor, mask: Tensor, samples: int) -> Tensor:
        """Zero for each: (rows, steps)."""
        return torch.zeros_like(rewards)


class ByLength(Baseline):
    """A moving average for each number of words that a reward is a sum of."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.averages: dict[int, Tensor] = {}

    def expect(self, rewards: Tensor, mask: Tensor, samples: int) -> Tensor:
        """The average of each reward's length, from what was seen before: (rows, steps)."""
        lengths = mask.long().flip(1).cumsum(1).flip(1)
        found = torch.zeros_like(rewards)
        for length in lengths[mask].unique().tolist():
            of_length = mask & (lengths == length)
            mean = rewards[of_length].mean()
            before = self.averages.get(length, mean)
            self.averages[length] = DECAY * before + (1 - DECAY) * mean
            found[of_length] = before
        return found


# What is changed from the line above it, one thing at a time where that makes sense.
RULES = {
    "no baseline": {"expected_share": 0.0, "entropy_weight": 0.0},
    "+ moving average (paper)": {"expected_share": 0.0, "entropy_weight": 0.0},
    "+ half expected values (paper)": {"entropy_weight": 0.0},
    "+ entropy (paper's whole rule)": {},
    "reward: the rest, by length": {"reward": "rest"},
    "4 samples": {"samples": 4},
    "4 samples, against the others": {"samples": 4, "baseline": "others"},
    "the same, reward: the rest": {"samples": 4, "baseline": "others", "reward": "rest"},
}
OWN_BASELINES = {"no baseline": NoBaseline, "reward: the rest, by length": ByLength}


@torch.inference_mode()
def distances(decoder: Decoder, annotations: Tensor, captions: Tensor) -> Tensor:
    """Total variation and |Δ log p(right word)| between three ways to average: (words, 3, 2).

    The ways are compared in pairs: E[p] and NWGM, E[p] and one pass, NWGM and one pass. The states
    follow the one pass, as soft attention does.
    """
    found = []
    places, state = decoder.start(annotations)
    L = annotations.shape[1]
    before = torch.full((len(captions),), decoder.words)
    for words in captions.unbind(1):
        alpha, gate = decoder.look(places, state)
        each = State(*(part.repeat_interleave(L, 0) for part in state))
        spots = torch.eye(L).repeat(len(captions), 1)
        _, logits = decoder.advance(
            places, each, spots, gate.repeat_interleave(L), before.repeat_interleave(L)
        )
        log_p = torch.log_softmax(logits.view(len(captions), L, -1), 2)
        state, one = decoder.advance(places, state, alpha, gate, before)
        mean = torch.einsum("bl,blk->bk", alpha, log_p.exp())
        geometric = torch.softmax(torch.einsum("bl,blk->bk", alpha, log_p), 1)
        once = torch.softmax(one, 1)
        pairs = ((mean, geometric), (mean, once), (geometric, once))
        found.append(torch.stack([_apart(p, q, words) for p, q in pairs], 1))
        before = words
    return torch.cat(found)


def _apart(p: Tensor, q: Tensor, words: Tensor) -> Tensor:
    right = (p / q).gather(1, words.unsqueeze(1)).squeeze(1).log().abs()
    return torch.stack([(p - q).abs().sum(1) / 2, right], 1)


def scatter(
    decoder: Decoder,
    annotations: Tensor,
    captions: Tensor,
    rule: HardSection,
    baseline: Baseline,
    draws: int,
) -> float:
    """Variance of the attention's gradient over draws, summed over its weights."""
    random = torch.Generator().manual_seed(1)
    words_cost = partial(soft_cost, decoder, double_stochastic=0.0, label_smoothing=0.0)
    found = []
    for _ in range(draws + 20):  # twenty for the moving average to settle
        decoder.zero_grad()
        hard_cost(
            decoder, annotations, captions, words_cost, baseline, rule, random
        ).loss.backward()
        found.append(torch.cat([p.grad.flatten() for p in decoder.attention.parameters()]))
    return float(torch.stack(found[20:]).var(dim=0).sum())


def batch_of_one_length(
    run: Run, store: FeatureStore, split: str, count: int
) -> tuple[Tensor, Tensor]:
    rows = np.repeat(store.rows(split), 5)
    captions = [
        run.vocabulary.encode(text)
        for row in store.rows(split)
        for text in store.examples[row].captions
    ]
    chosen = [i for i, words in enumerate(captions) if len(words) == 12][:count]
    annotations = torch.from_numpy(store.read([int(rows[i]) for i in chosen]))
    return annotations, torch.tensor([captions[i] for i in chosen])


def draw(results: dict[str, float], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.6), dpi=150, layout="constrained")
    axes = figure.subplots()
    names = list(results)[::-1]
    values = [results[name] for name in names]
    colours = [
        "#2a6f97" if "paper" in name or name == "no baseline" else "#bb3e03" for name in names
    ]
    axes.barh(names, values, color=colours, height=0.6)
    axes.set_xscale("log")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="x", color="#e9ecef")
    axes.set_axisbelow(True)
    axes.set_title("Variance of the attention's gradient, one mini-batch", loc="left")
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("store", type=Path)
    parser.add_argument("--captions", type=int, default=64)
    parser.add_argument("--draws", type=int, default=40)
    parser.add_argument("--plot", type=Path)
    options = parser.parse_args()
    run, store = Run.open(options.run), FeatureStore.open(options.store)

    apart = distances(run.decoder, *batch_of_one_length(run, store, "dev", options.captions))
    print(f"{run.folder.name}, {len(apart)} words of dev captions: mean distance of distributions")
    for i, pair in enumerate(("E[p] and NWGM", "E[p] and one pass", "NWGM and one pass")):
        total, right = apart[:, i].mean(0).tolist()
        print(f"  {pair:18} {total:.4f} total variation, {right:.4f} nats of the right word")

    batch = batch_of_one_length(run, store, "train", options.captions)
    print(f"gradient of the attention's weights, {options.draws} draws of {len(batch[1])} captions")
    results: dict[str, float] = {}
    for name, changes in RULES.items():
        rule = HardSection.model_validate(changes)
        baseline = OWN_BASELINES.get(name, Baseline)(rule.baseline)
        results[name] = scatter(run.decoder, *batch, rule, baseline, options.draws)
        share = results[name] / results["no baseline"]
        print(f"  {name:32} variance {results[name]:12.1f}, {share:.4f} of the first")
    if options.plot:
        draw(results, options.plot)


if __name__ == "__main__":
    main()
