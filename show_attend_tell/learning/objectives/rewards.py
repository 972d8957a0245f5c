"""Self-critical training: learning from the scores of sampled captions (Rennie et al. 2017).

The paper's objective is the likelihood of people's captions. Here the expected score r of the
model's own captions replaces some or all of it. Its gradient is estimated from N sampled
captions w̃ by

    ∂ E[r] ≈ 1/N Σ (r(w̃) − b) ∂ log p(w̃ | a).

The scores count the end as a word: a caption that stops in the middle lacks the n-grams that close
the references, so the model does not learn to end in "in a".

Captions are sampled without dropout and trained on with it, as all captions are; without dropout
the estimator is unbiased.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from show_attend_tell.data.batches import PADDING
from show_attend_tell.data.vocabulary import Vocabulary, tokenise
from show_attend_tell.learning.model.decoder import CaptionDecoder, State
from show_attend_tell.learning.objectives.likelihood import Cost, likelihood
from show_attend_tell.learning.recipe import RewardSection
from show_attend_tell.scoring.metrics.bleu import bleu_rows, smoothed_bleu
from show_attend_tell.scoring.metrics.cider import DocumentFrequencies, cider_rows

RewardFunction = Callable[[Tensor], Tensor]  # captions (rows, steps) → rewards (rows,)


class CaptionReward:
    """The reward of captions: CIDEr-D and smoothed BLEU-4 against their pictures' references.

    References keep words outside the vocabulary, so the unknown word never matches.

    Parameters
    ----------
    references
        People's captions of each training picture, by its row of the store. They also give the
        document frequencies.
    """

    def __init__(
        self,
        references: Mapping[int, Sequence[str]],
        vocabulary: Vocabulary,
        rule: RewardSection,
    ) -> None:
        self.words, self.rule = vocabulary.words, rule
        end = self.words[Vocabulary.END]
        self.references = {
            row: [
                " ".join([*tokenise(caption, punctuation=vocabulary.punctuation), end])
                for caption in captions
            ]
            for row, captions in references.items()
        }
        self.frequencies = DocumentFrequencies.of(self.references.values(), "train")

    def __call__(self, rows: Sequence[int], captions: Tensor) -> Tensor:
        """Rewards (captions,) of captions (captions, steps), grouped by row."""
        texts = [
            " ".join(self.words[word] for word in caption if word != PADDING)
            for caption in captions.tolist()
        ]
        of_each = len(texts) // len(rows)
        references = [self.references[row] for row in rows for _ in range(of_each)]
        cider = cider_rows(texts, references, self.frequencies)[:, 0]
        bleu = smoothed_bleu(bleu_rows(texts, references))
        return torch.from_numpy(self.rule.cider * cider + self.rule.bleu * bleu)


@torch.no_grad()
def sample_captions(
    decoder: CaptionDecoder,
    annotations: Tensor,
    of_each: int,
    max_words: int,
    rng: torch.Generator,
) -> Tensor:
    """Captions sampled from the decoder, grouped by picture.

    Parameters
    ----------
    annotations
        (pictures, L, D).
    of_each
        Captions of each picture.
    max_words
        Longer captions are cut, without an end word.
    rng
        The generator of the samples.

    Returns
    -------
    (pictures × of_each, steps), padded with PADDING.
    """
    places, state = decoder.start(annotations)
    state = State(*(part.repeat_interleave(of_each, dim=0) for part in state))
    words = torch.full((len(state.h),), decoder.words)
    ended = torch.zeros_like(words, dtype=torch.bool)
    captions: list[Tensor] = []
    while len(captions) < max_words and not ended.all():
        alpha, gate = decoder.look(places, state)
        state, logits = decoder.advance(places, state, alpha, gate, words)
        words = torch.multinomial(logits.softmax(1), 1, generator=rng).squeeze(1)
        captions.append(words.masked_fill(ended, PADDING))
        ended |= words == Vocabulary.END
    return torch.stack(captions, 1)


def advantages(rewards: Tensor, samples: int) -> Tensor:
    """Rewards (pictures × samples,) less the mean of the picture's other samples."""
    of_picture = rewards.view(-1, samples)
    others = (of_picture.sum(1, keepdim=True) - of_picture) / (samples - 1)
    return (of_picture - others).flatten()


def reinforce_loss(
    decoder: CaptionDecoder,
    annotations: Tensor,
    captions: Tensor,
    advantage: Tensor,
    dropout: torch.Generator | None = None,
) -> Tensor:
    """The mean of −advantage · log p over whole captions.

    captions: (rows, steps); advantage: (rows,).
    """
    readout = decoder(annotations, captions, dropout).readout
    row, step = (captions != PADDING).nonzero(as_tuple=True)
    shares = advantage.to(readout.dtype)[row] / len(captions)
    loss, _ = likelihood(
        readout[row, step], *decoder.softmax_layer(), captions[row, step], shares, 0.0
    )
    return loss


def rewarded_cost(
    cost: Cost,
    decoder: CaptionDecoder,
    annotations: Tensor,
    reward: RewardFunction,
    rule: RewardSection,
    max_words: int,
    rng: torch.Generator,
    dropout: torch.Generator | None = None,
) -> Cost:
    """A cost in which the rewards of sampled captions replace a share of the likelihood.

    Parameters
    ----------
    cost
        Of people's captions: the rest of the objective.
    annotations
        (pictures, L, D).
    reward
        Scores captions of these pictures; any number of captions per picture.
    rng, dropout
        Generators for the words and for dropout.
    """
    captions = sample_captions(decoder, annotations, rule.samples, max_words, rng)
    rewards = reward(captions)
    advantage = advantages(rewards, rule.samples)
    loss = reinforce_loss(decoder, annotations, captions, advantage, dropout)
    return replace(
        cost,
        loss=rule.weight * loss + (1 - rule.weight) * cost.loss,
        reward=float(rewards.mean()),
    )
